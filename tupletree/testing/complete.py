"""complete_topology: one run of a topology on fixed input."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tupletree._checkpoints.steps import CHECKPOINT_SPOUT
from tupletree.batching_bolt import BatchingBolt
from tupletree.combiner import CombinerBolt
from tupletree.config import TopologyConf
from tupletree.errors import UsageError
from tupletree.outputs import CHECKPOINT_STREAM, DEFAULT_STREAM
from tupletree.testing.feeder import FeederSpout
from tupletree.testing.local_cluster import LocalCluster
from tupletree.topology import Topology
from tupletree.v1.topology_pb2 import ComponentKind
from tupletree.windows import WindowedBolt


class PendingTuplesError(UsageError):
    """Rows of a source were neither acked nor failed at the end of a run: on a cluster they would time out."""


class Completed(dict[str, list[list[Any]]]):
    """The emitted rows by component, in a mapping.

    Attributes:
        acked, failed: by source, the rows that were acked, and the rows that failed, each in that order.
    """

    def __init__(self, components: Iterable[str]) -> None:
        super().__init__((component, []) for component in components)
        self.acked: dict[str, list[list[Any]]] = {}
        self.failed: dict[str, list[list[Any]]] = {}
        self._streams: dict[tuple[str, str], list[list[Any]]] = {}

    def add(self, component: str, stream: str, values: Sequence[Any]) -> None:
        """Add an emitted row."""
        self[component].append(list(values))
        self._streams.setdefault((component, stream), []).append(list(values))

    def rows(self, component: str, stream: str = DEFAULT_STREAM) -> list[list[Any]]:
        """Return the rows that a component emitted on a stream. Raises KeyError if the component has no outputs."""
        self[component]
        return self._streams.get((component, stream), [])


def complete_topology(
    topology: Topology,
    mock_sources: Mapping[str, Sequence[Sequence[Any]]] | None = None,
    conf: TopologyConf | Mapping[str, Any] | None = None,
    timeout: float = 30,
    allow_pending: bool = False,
) -> Completed:
    """Run a topology on fixed input until it is quiet, and return the tuples emitted by each component.

    ``mock_sources``: for each spout id, the rows to emit instead of the spout's own tuples. Each row is tracked and
    goes to the spout's default stream, or else to its first declared stream. Bolts that need ticks get them at the end.
    Trees do not time out, unless ``conf`` sets ``topology.enable.message.timeouts``.

    ``allow_pending``: accept rows that are neither acked nor failed at the end. A bolt that holds tuples on purpose
    says so with ``holds_tuples``.

    Returns, for each component with outputs, the values of every emitted tuple, on all streams (``rows`` tells the
    streams apart). With more than one task, the order is undefined.

    Raises:
        UsageError: a spout has no mock source.
        PendingTuplesError: a row was neither acked nor failed, and no component holds tuples on purpose.
        TaskFailedError: a component raised.
        TimeoutError: the topology is not quiet after ``timeout`` seconds.
    """
    sources = mock_sources or {}
    feeders = _feeders(topology, sources)
    emitted = Completed(
        component_id
        for component_id, definition in topology.components.items()
        if definition.outputs.keys() - {CHECKPOINT_STREAM}
    )
    with LocalCluster(simulated_time=True) as cluster:
        own = {"topology.enable.message.timeouts": False, **(conf or {})}  # a tick may be longer than the timeout
        cluster.submit("completed", topology.replacing(feeders), own, observer=emitted.add)
        cluster.wait_until(lambda: all(feeder.is_drained for feeder in feeders.values()), timeout)
        cluster.wait_quiet(timeout)
        _tick(cluster, topology, conf or {}, timeout)
        _save(cluster, topology, conf or {}, timeout)
        executions = cluster.executions("completed")
    for component_id, feeder in feeders.items():
        emitted.acked[component_id] = [list(sources[component_id][number]) for number in feeder.acked]
        emitted.failed[component_id] = [list(sources[component_id][number]) for number in feeder.failed]
    if not allow_pending and not any(_holds(definition.component) for definition in topology.components.values()):
        _check_pending(emitted, {name: len(sources[name]) for name in feeders}, executions)
    return emitted


def _feeders(topology: Topology, sources: Mapping[str, Sequence[Sequence[Any]]]) -> dict[str, FeederSpout]:
    """Return, for each spout, a FeederSpout with the rows of its mock source."""
    feeders = {}
    for component_id, definition in topology.components.items():
        if definition.kind == ComponentKind.COMPONENT_KIND_SPOUT and component_id != CHECKPOINT_SPOUT:
            if component_id not in sources:
                raise UsageError(f"complete_topology needs mock_sources for spout {component_id!r}")
            feeders[component_id] = FeederSpout([])  # replacing keeps the streams of the original spout
            streams = [DEFAULT_STREAM] if definition.chained is not None else definition.outputs
            stream = next(iter(sorted(streams, key=lambda id: id != DEFAULT_STREAM)), "")
            for number, row in enumerate(sources[component_id]):
                feeders[component_id].feed(row, number, stream)
    for component_id in sources:
        if component_id not in feeders:
            raise UsageError(f"mock_sources names {component_id!r}, which is not a spout of the topology")
    return feeders


def _holds(component: Any) -> bool:
    """True if a bolt holds tuples on purpose, perhaps beyond the end of the run."""
    return bool(getattr(component, "holds_tuples", False))


def _save(cluster: LocalCluster, topology: Topology, conf: Mapping[str, Any], timeout: float) -> None:
    """Wait for checkpoints: their commits ack the inputs of stateful bolts."""
    if CHECKPOINT_SPOUT not in topology.components:
        return
    interval_s = conf.get("topology.state.checkpoint.interval.ms", 1000) / 1000
    for _ in range(3):
        cluster.advance(interval_s)
        cluster.wait_quiet(timeout)


def _check_pending(completed: Completed, fed: Mapping[str, int], executions: Mapping[str, tuple[int, int]]) -> None:
    for source, count in fed.items():
        pending = count - len(completed.acked[source]) - len(completed.failed[source])
        if pending <= 0:
            continue
        held = [(name, executed, ended) for name, (executed, ended) in executions.items() if executed > ended]
        who = "".join(f"; bolt {name!r} executed {done} tuples, and acked or failed {end}" for name, done, end in held)
        raise PendingTuplesError(
            f"{pending} of {count} rows of {source!r} were neither acked nor failed at the end{who}: call "
            f"self.collector.ack(tup), or derive from BasicBolt; for a bolt that holds tuples on purpose, set "
            f"holds_tuples = True or pass allow_pending=True"
        )


def _tick(cluster: LocalCluster, topology: Topology, conf: Mapping[str, Any], timeout: float) -> None:
    """Let a tick interval pass for each bolt that holds tuples until a tick, as bolts can be chained; at least one."""
    name = "topology.tick.tuple.freq.secs"
    ticks = [conf.get(name), *(definition.conf.get(name) for definition in topology.components.values())]
    longest_s = max((tick for tick in ticks if tick), default=0)
    holding = sum(
        isinstance(one.component, BatchingBolt | CombinerBolt | WindowedBolt) for one in topology.components.values()
    )
    for _ in range(max(1, holding) if longest_s else 0):
        cluster.advance(longest_s)
        cluster.wait_quiet(timeout)
