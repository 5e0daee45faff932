"""The application of a cluster on Spark: ZooKeeper and nimbus if none is named, Spark's driver, and their ends."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tupletree._address import address_of
from tupletree._coord.session import connect, connect_string, disconnect
from tupletree._coord.store import Store
from tupletree._daemon.config import advertised_host
from tupletree._devcluster.foreground import Event, Foreground
from tupletree._devcluster.plan import Size, plan_with_fixed_ports
from tupletree._devcluster.running import wait_for
from tupletree._devcluster.zookeeper import refuse_open_server
from tupletree._security.current import Security, use
from tupletree._sparkcluster.machine import Machine, prefix_of
from tupletree._sparkcluster.machines import Machines
from tupletree._sparkcluster.plan import ClusterSpec, machine_conf, spark_conf
from tupletree._sparkcluster.record import Record
from tupletree.client import NimbusClient
from tupletree.config import defaults
from tupletree.errors import TupletreeError, UnavailableError
from tupletree.spark import session
from tupletree.spark.failures import SparkLostError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EMBEDDED_START_S: Final = 60.0
_MACHINES_END_S: Final = 20.0
_LOOK_EVERY_S: Final = 0.5
_MAX_FAILURES: Final = 20


class Application:
    """One run of the application. ``changed`` is called with each new record; ``say`` with sentences for the log."""

    def __init__(
        self,
        directory: str,
        spec: ClusterSpec,
        record: Record,
        changed: Callable[[Record], None],
        say: Callable[[str], None],
    ) -> None:
        self._directory = directory
        self._spec = spec
        self._record = record
        self._changed = changed
        self._say = say
        self._lock = threading.Lock()  # of the record: each machine has a thread
        self._stop = threading.Event()
        self._conf = {**defaults(), **spec.conf}
        self._embedded: Foreground | None = None
        self._watcher: threading.Thread | None = None
        self._spark: SparkSession | None = None
        self._machines: Machines | None = None

    def stop(self) -> None:
        """End ``run`` soon. Can be called from a signal handler."""
        self._stop.set()

    def run(self, timeout_s: float) -> None:
        """Start everything and serve until ``stop``, then end everything.

        Raises UsageError or UnavailableError, in one sentence, if no machine is registered within ``timeout_s``, or if
        Spark ends the application.
        """
        deadline = time.monotonic() + timeout_s
        try:
            self._start_coordination()
            self._start_machines()
            self._await_machines(deadline)
            self._serve()
        finally:
            self._close()

    def _start_coordination(self) -> None:
        """Start ZooKeeper and nimbus, or find the nimbuses of the named ZooKeeper."""
        spec, conf = self._spec, self._conf
        use(Security.of_client(conf))
        if not spec.is_embedded:
            seeds = list(spec.conf.get("nimbus.seeds") or _registered_nimbuses(conf))
            self._update(zookeeper=_with_ports(conf), nimbus_seeds=tuple(seeds))
            return
        refuse_open_server(conf)
        own = {key: value for key, value in spec.conf.items() if not key.startswith("spark.")}
        plan = plan_with_fixed_ports(self._directory, Size(supervisors=0, ackers=0), conf, own)
        plan = replace(plan, host=str(conf["bind.host"]))
        self._embedded = Foreground(plan, remove=False, durable=True, report=self._report)
        self._embedded.start(_EMBEDDED_START_S)
        self._watcher = threading.Thread(target=self._embedded.watch, name="embedded", daemon=True)
        self._watcher.start()
        host = advertised_host(conf)
        self._update(
            zookeeper=(address_of(host, int(conf["zookeeper.port"])),),
            nimbus_seeds=tuple(address_of(host, daemon.grpc_port) for daemon in plan.daemons),
        )

    def _start_machines(self) -> None:
        spec = self._spec
        try:
            self._spark = session.acquire(spark_conf(spec))
        except SparkLostError as error:
            raise UnavailableError(str(error)) from error
        context = self._spark.sparkContext
        application = str(context.applicationId)
        conf = machine_conf(spec, list(self._record.zookeeper), list(self._record.nimbus_seeds))
        machines = [
            Machine(application, number, spec.slots, int(number < spec.ackers), conf) for number in range(spec.machines)
        ]
        self._machines = Machines(context, machines, self._report)
        self._machines.start()
        self._update(application=application, web_ui=context.uiWebUrl or "")

    def _await_machines(self, deadline: float) -> None:
        """Wait until all machines are registered, or at least one of them at the deadline."""
        found = 0

        def complete() -> bool:
            nonlocal found
            self._check_application()
            found = self._registered()
            late = time.monotonic() > deadline - _LOOK_EVERY_S
            return self._stop.wait(_LOOK_EVERY_S) or found >= self._spec.machines or (late and found > 0)

        wait_for(complete, deadline, self._nothing_started)
        if not self._stop.is_set():
            self._update(phase="up")
            self._say(f"{found} of {self._spec.machines} executors are machines of the cluster")

    def _nothing_started(self) -> UnavailableError:
        spec = self._spec
        asked = f"{spec.machines} executors with {spec.cores} cores and {spec.memory} each"
        last = f"; last: {self._record.failures[-1]}" if self._record.failures else (
            ": its workers may lack free cores or memory, which its web UI shows"
        )  # fmt: skip
        return UnavailableError(f"{spec.master} has started none of {asked}{last}")

    def _serve(self) -> None:
        while not self._stop.wait(_LOOK_EVERY_S):
            self._check_application()

    def _check_application(self) -> None:
        """Raise UnavailableError if Spark has ended the application, for example because its web UI was told to."""
        assert self._spark is not None and self._machines is not None
        lost = self._machines.lost
        if lost is None:
            with contextlib.suppress(Exception):
                if self._spark.sparkContext._jsc.sc().isStopped():
                    lost = "the application was ended"
        if lost is not None and not self._stop.is_set():
            raise UnavailableError(f"{self._spec.master} runs application {self._record.application} no more: {lost}")

    def _registered(self) -> int:
        """Return the number of registered supervisors of this application; 0 while no nimbus answers."""
        try:
            with self._client() as client:
                found = client.cluster().supervisors
        except TupletreeError:
            return 0
        prefix = prefix_of(self._record.application)
        return sum(one.presence.id.startswith(prefix) for one in found)

    def _client(self) -> NimbusClient:
        return NimbusClient(list(self._record.nimbus_seeds), self._conf, leader_timeout_s=2.0)

    def _close(self) -> None:
        """End machines, Spark, nimbus and ZooKeeper, in this order: the daemons deregister in the end."""
        self._stop.set()
        if self._machines is not None and self._spark is not None:
            self._machines.stop()
            session.release(at_once=True)
            self._machines.join()
            if self._embedded is not None:
                with contextlib.suppress(UnavailableError):  # the others end by themselves, later
                    deadline = time.monotonic() + _MACHINES_END_S
                    wait_for(lambda: self._registered() == 0, deadline, lambda: UnavailableError("still there"))
        if self._embedded is not None:
            self._embedded.stop()
            if self._watcher is not None:
                self._watcher.join()
            self._embedded.close()

    def _report(self, event: Event | str) -> None:
        sentence = f"{time.strftime('%H:%M:%S')} {event}"
        self._say(sentence)
        with self._lock:
            failures = (*self._record.failures, sentence)[-_MAX_FAILURES:]
            self._record = replace(self._record, failures=failures)
            self._changed(self._record)

    def _update(self, **fields: object) -> None:
        with self._lock:
            self._record = replace(self._record, **fields)  # type: ignore[arg-type]
            self._changed(self._record)


def _with_ports(conf: dict[str, object]) -> tuple[str, ...]:
    return tuple(connect_string(conf).split(","))


def _registered_nimbuses(conf: dict[str, object]) -> list[str]:
    client = connect(conf)
    try:
        found = Store(client, str(conf["zookeeper.root"])).nimbuses()
    finally:
        disconnect(client)
    if not found:
        raise UnavailableError(
            f"no nimbus is registered in ZooKeeper at {','.join(_with_ports(conf))}: start one, or name no ZooKeeper, "
            "and the application brings both"
        )
    return sorted(address_of(one.host, one.grpc_port) for one in found.values())
