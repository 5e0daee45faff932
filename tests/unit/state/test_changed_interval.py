"""A checkpoint spout whose configured interval changes while it runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tupletree import config
from tupletree._checkpoints.spout import CheckpointSpout
from tupletree._stores.memory_nodes import MemoryStore
from tupletree.component import TopologyContext

INTERVAL = "topology.state.checkpoint.interval.ms"


class Driven:
    """The spout of a topology with one task that begins rounds, and whose rounds are acked at once."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.conf: dict[str, Any] = {**config.defaults(), "topology.state.id": "access", INTERVAL: 10_000}
        self.spout = CheckpointSpout(["totals"], [], ["totals"], [], open_store=lambda conf: store)
        self.emitted: list[Any] = []
        store = MemoryStore()
        context = TopologyContext(
            topology_id="access-1-1",
            component_id="$checkpointspout",
            task_id=1,
            tasks={"$checkpointspout": [1], "totals": [2]},
            sources={},
            targets={},
            conf=self.conf,
        )
        context.clock = lambda: self.now_s
        self.spout.open(self.conf, context, self)  # type: ignore[arg-type]

    def emit_direct(self, task: int, row: Sequence[Any], msg_id: Any, stream: str) -> None:
        self.emitted.append(msg_id)

    def checkpoints_until(self, now_s: float) -> int:
        """Let time pass in steps of a tenth of a second; return the number of checkpoints committed so far."""
        while self.now_s < now_s:
            self.spout.next_tuple()
            while self.emitted:
                self.spout.ack(self.emitted.pop())
            self.now_s = round(self.now_s + 0.1, 1)
        txid = self.spout.status()["txid"]
        assert isinstance(txid, int)
        return txid


def test_the_next_pause_has_the_new_length() -> None:
    driven = Driven()
    assert driven.checkpoints_until(25) == 2
    driven.conf[INTERVAL] = 1000
    before = driven.checkpoints_until(31)  # the pause that has begun ends as it was
    assert 10 <= driven.checkpoints_until(46) - before <= 16
    driven.conf[INTERVAL] = 10_000
    before = driven.checkpoints_until(47)
    assert driven.checkpoints_until(66) - before <= 2
