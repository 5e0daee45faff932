"""complete_topology: one run of a topology on fixed input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tupletree._checkpoints.steps import CHECKPOINT_SPOUT
from tupletree.batching_bolt import BatchingBolt
from tupletree.combiner import CombinerBolt
from tupletree.errors import UsageError
from tupletree.outputs import CHECKPOINT_STREAM, DEFAULT_STREAM
from tupletree.testing.feeder import FeederSpout
from tupletree.testing.local_cluster import LocalCluster
from tupletree.topology import Topology
from tupletree.v1.topology_pb2 import ComponentKind
from tupletree.windows import WindowedBolt


def complete_topology(
    topology: Topology,
    mock_sources: Mapping[str, Sequence[Sequence[Any]]] | None = None,
    conf: Mapping[str, Any] | None = None,
    timeout: float = 30,
) -> dict[str, list[list[Any]]]:
    """Run a topology on fixed input until it is quiet, and return the tuples emitted by each component.

    ``mock_sources``: for each spout id, the rows to emit instead of the spout's own tuples. Each row is tracked and
    goes to the spout's default stream, or else to its first declared stream. Bolts that need ticks get them at the end.

    Returns, for each component with outputs, the values of every emitted tuple, on all streams. With more than one
    task, the order is undefined.

    Raises:
        UsageError: a spout has no mock source.
        TaskFailure: a component raised.
        TimeoutError: the topology is not quiet after ``timeout`` seconds.
    """
    sources = mock_sources or {}
    feeders = {}
    streams = {}
    for component_id, definition in topology.components.items():
        if definition.kind == ComponentKind.COMPONENT_KIND_SPOUT and component_id != CHECKPOINT_SPOUT:
            if component_id not in sources:
                raise UsageError(f"complete_topology needs mock_sources for spout {component_id!r}")
            feeders[component_id] = FeederSpout([])  # replacing keeps the streams of the original spout
            streams[component_id] = next(iter(sorted(definition.outputs, key=lambda id: id != DEFAULT_STREAM)), "")
    for component_id, rows in sources.items():
        if component_id not in feeders:
            raise UsageError(f"mock_sources names {component_id!r}, which is not a spout of the topology")
        for number, row in enumerate(rows):
            feeders[component_id].feed(row, number, streams[component_id])
    emitted: dict[str, list[list[Any]]] = {
        component_id: []
        for component_id, definition in topology.components.items()
        if definition.outputs.keys() - {CHECKPOINT_STREAM}
    }
    with LocalCluster(simulated_time=True) as cluster:
        cluster.submit(
            "completed",
            topology.replacing(feeders),
            conf,
            observer=lambda component, stream, values: emitted[component].append(list(values)),
        )
        cluster.wait_until(lambda: all(feeder.is_drained for feeder in feeders.values()), timeout)
        cluster.wait_quiet(timeout)
        _tick(cluster, topology, conf or {}, timeout)
    return emitted


def _tick(cluster: LocalCluster, topology: Topology, conf: Mapping[str, Any], timeout: float) -> None:
    """Let one tick interval pass; one per bolt that holds tuples until a tick, as these can be chained."""
    name = "topology.tick.tuple.freq.secs"
    ticks = [conf.get(name), *(definition.conf.get(name) for definition in topology.components.values())]
    longest_s = max((tick for tick in ticks if tick), default=0)
    holding = sum(
        isinstance(one.component, BatchingBolt | CombinerBolt | WindowedBolt) for one in topology.components.values()
    )
    for _ in range(max(1, holding) if longest_s else 0):
        cluster.advance(longest_s)
        cluster.wait_quiet(timeout)
