"""Large tuples from a spout to a bolt on another worker."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Final

from tupletree import BasicBolt, Spout, Topology, TopologyBuilder
from tupletree.client import TaskStats
from tupletree.component import BasicCollector, SpoutCollector, TopologyContext
from tupletree.testing import DevCluster
from tupletree.tuples import Tuple
from tupletree.v1 import nimbus_pb2

NAME: Final = "large"


class Blobs(Spout):
    """Emits ``count`` tuples of ``size`` bytes each, ``burst`` per call. Failed tuples are emitted again."""

    outputs = ("number", "blob")

    def __init__(self, count: int, size: int, burst: int) -> None:
        self.count = count
        self.size = size
        self.burst = burst

    def open(self, conf: Mapping[str, Any], context: TopologyContext, collector: SpoutCollector) -> None:
        self.left = deque(range(self.count))

    def next_tuple(self) -> None:
        for _ in range(min(self.burst, len(self.left))):
            number = self.left.popleft()
            self.collector.emit([number, number.to_bytes(8, "big") + bytes(self.size - 8)], number)

    def fail(self, msg_id: Any) -> None:
        self.left.append(msg_id)


class Check(BasicBolt):
    """Raises ValueError unless a blob arrives whole."""

    def __init__(self, size: int) -> None:
        self.size = size

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        number, blob = tup.values
        if len(blob) != self.size or not blob.startswith(number.to_bytes(8, "big")):
            raise ValueError(f"blob {number} is damaged: {len(blob)} bytes arrived, {self.size} were sent")


def topology(count: int, size: int, burst: int = 1) -> Topology:
    """blobs → check; with two workers, one on either side of the network."""
    builder = TopologyBuilder()
    builder.set_spout("blobs", Blobs(count, size, burst))
    builder.set_bolt("check", Check(size)).shuffle_grouping("blobs")
    return builder.create_topology()


def spout_stats(cluster: DevCluster) -> TaskStats:
    """Return the statistics of the spout."""
    reply = cluster.client.describe(NAME)
    return next(
        (one.total for one in reply.components if one.component_id == "blobs"), TaskStats.of(nimbus_pb2.TaskStats())
    )
