"""DRPCSpout: emits the requests of a function, and tells the DRPC server how their trees ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tupletree._address import with_port
from tupletree._wire.fail_reasons import FailReason
from tupletree.collector import SpoutCollector
from tupletree.component import Spout, TopologyContext
from tupletree.drpc.intake import Arrival, Intake, RemoteIntake, Serving
from tupletree.drpc.local import LocalDRPC, LocalIntake
from tupletree.drpc.requests import SEE_ERRORS, Kind, check_function
from tupletree.drpc.values import decoded, return_info
from tupletree.errors import ConfigError, TaskFailedError, UsageError
from tupletree.retrying_spout import RetryingCollector


class DRPCSpout(Spout):
    """Emits (args, return_info) for each request of a function.

    A bolt passes ``return_info`` on with its result, and ReturnResults, the last bolt, takes both. When the request's
    tuple tree is complete, the caller gets the answer; when it fails, a DRPCError. A request is emitted once, never
    again: the caller decides whether to call again. So ``set_retry`` is refused.

    Args:
        function: the name under which callers execute the function. Several topologies may serve it, each in turn.
        answers: "one": the answer is the only result, and a tree that is complete with none or with several has failed;
            "all": the answer is the list of all results, in no particular order.
        max_in_flight: requests that a task takes from each DRPC server before earlier ones have ended.
        servers: addresses of DRPC servers; None: ``drpc.servers`` of the configuration of the supervisors.
        drpc: a LocalDRPC takes the place of servers, for a LocalCluster.

    Raises:
        UsageError: an argument is invalid.
    """

    outputs = ["args", "return_info"]

    def __init__(
        self,
        function: str,
        *,
        answers: str = "one",
        max_in_flight: int = 1000,
        servers: Sequence[str] | None = None,
        drpc: LocalDRPC | None = None,
    ) -> None:
        self.function = check_function(function)
        if answers not in ("one", "all"):
            raise UsageError(f"DRPCSpout: answers is {answers!r}, expected 'one' or 'all'")
        if not isinstance(max_in_flight, int) or max_in_flight < 1:
            raise UsageError(f"DRPCSpout: max_in_flight is {max_in_flight!r}, expected a whole number of at least 1")
        if isinstance(servers, str):
            raise UsageError(f"DRPCSpout: servers is {servers!r}, expected a list of addresses")
        self._collects = answers == "all"
        self._max_in_flight = max_in_flight
        self._servers = None if servers is None else list(servers)
        self._drpc = drpc
        self._intakes: list[Intake] = []

    def open(self, conf: Mapping[str, Any], context: TopologyContext, collector: SpoutCollector) -> None:
        if conf.get("topology.acker.executors") == 0:
            raise ConfigError(
                "topology.acker.executors is 0, but without ackers a DRPCSpout cannot tell when an answer is complete"
            )
        if isinstance(collector, RetryingCollector):
            raise UsageError("a DRPCSpout emits each request once: remove set_retry and set_dead_letters")
        serving = Serving(context.topology_id, self.function, self._max_in_flight, self._collects)
        self._is_waiting = False

        def rouse() -> None:
            if self._is_waiting:
                self._is_waiting = False
                context.call_soon(_be_polled)

        def report(error: Exception) -> None:
            context.call_soon(lambda: collector.report_error(error))

        if self._drpc is not None:
            self._intakes.append(self._drpc.serve(serving, rouse))
        else:
            named = conf.get("drpc.servers") if self._servers is None else self._servers
            if not named:
                raise ConfigError("a DRPCSpout needs drpc.servers in the configuration of the supervisors, or servers")
            port = int(conf.get("drpc.port") or 3772)
            self._intakes += [RemoteIntake(with_port(one, port), serving, rouse, report) for one in named]
        context.register_status(
            lambda: {"function": self.function, "drpc_servers": sum(one.is_connected for one in self._intakes)}
        )

    def close(self) -> None:
        for intake in self._intakes:
            intake.close()

    def activate(self) -> None:
        for intake in self._intakes:
            intake.set_paused(False)

    def deactivate(self) -> None:
        for intake in self._intakes:
            intake.set_paused(True)

    def next_tuple(self) -> None:
        for _ in self._intakes:
            intake = self._intakes[0]
            self._intakes = [*self._intakes[1:], intake]  # another list: other threads always see all
            arrival = intake.next()
            if arrival is not None:
                self._emit(intake, arrival)
                return
        self._is_waiting = True  # before another look: a request that came just now rouses nobody
        for intake in self._intakes:
            if (arrival := intake.next()) is not None:
                self._emit(intake, arrival)
                return

    def _emit(self, intake: Intake, arrival: Arrival) -> None:
        try:
            args = decoded(arrival.args, f"the arguments of function {self.function!r}")
        except UsageError as error:
            intake.failed(arrival.id, Kind.FAILED, str(error))
            return
        self.collector.emit(self._row(args, return_info(arrival.place, arrival.id)), (intake, arrival.id))

    def _row(self, args: Any, info: str) -> list[Any]:
        return [args, info]

    def ack(self, msg_id: Any) -> None:
        intake, id = msg_id
        intake.completed(id)

    def fail_because(self, msg_id: Any, reason: FailReason | None) -> None:
        """Called by the framework when a request's tree failed. ``reason``: None if it was lost with a process."""
        intake, id = msg_id
        if reason is None:
            why = f"the request of function {self.function!r} was lost with a worker or an acker{SEE_ERRORS}"
            intake.failed(id, Kind.LOST, why)
        elif not reason.component:
            intake.failed(id, Kind.TIMEOUT, f"function {self.function!r}: {reason.error}")
        else:
            why = reason.error or "the bolt gave no reason"
            intake.failed(
                id, Kind.FAILED, f"function {self.function!r} failed in component {reason.component!r}: {why}"
            )

    def fail(self, msg_id: Any) -> None:
        self.fail_because(msg_id, None)

    def topology_starts(self) -> None:
        """Called by a LocalCluster before the topology starts."""
        if self._drpc is not None:
            self._drpc.expect(self.function)

    def topology_failed(self, failure: TaskFailedError) -> None:
        """Called by a LocalCluster, on any thread, when the topology has ended because a component raised."""
        if self._drpc is not None:
            why = f"the topology that serves function {self.function!r} has ended: {failure}"
            self._drpc.fail(self.function, [one for one in self._intakes if isinstance(one, LocalIntake)], why)


def _be_polled() -> None:
    """Do nothing: after any call on its thread, a spout is polled."""
