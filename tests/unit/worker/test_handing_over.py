"""What is handed over faster than the links take it is held at the gate at once, by its size."""

from __future__ import annotations

import asyncio

from hand_driven import HandDriven
from local_components import Do

from tupletree import Spout, TopologyBuilder
from tupletree.worker.core.batches import EncodedBatch
from tupletree.worker.execution.executor import STEP_BYTES
from tupletree.worker.execution.inbox import Gate, not_reached
from tupletree.worker.network.peer_links import PeerLinkContext, PeerLinks
from tupletree.worker.network.transfer import MAX_BYTES, Transfer


def batch(task: int, size: int) -> EncodedBatch:
    return EncodedBatch(1, "default", task, 1, bytes(size))


def test_what_is_handed_over_and_not_taken_closes_its_tasks_until_the_links_have_it() -> None:
    async def run() -> None:
        gate = Gate(lambda: None)
        outbound = Transfer(asyncio.get_running_loop(), 0.005)
        context = PeerLinkContext("t", "w", gate, lambda: 0, lambda roots: None, lambda: None, lambda batch: [])
        peers = PeerLinks(context)
        outbound.connect(gate, peers, None, lambda: None)
        outbound.send(batch(7, MAX_BYTES // 2), frozenset([7]))
        assert gate.closed == frozenset()
        outbound.send(batch(8, MAX_BYTES), frozenset([8]))
        assert gate.closed_by(outbound) == not_reached([8])
        outbound.send(batch(7, 1), frozenset([7]))
        assert gate.closed_by(outbound) == not_reached([7, 8])
        while not outbound.is_idle:
            await asyncio.sleep(0)
        assert gate.closed_by(outbound) == frozenset()
        outbound.send(batch(7, MAX_BYTES // 2), frozenset([7]))
        assert gate.closed_by(outbound) == frozenset()

    asyncio.run(run())


class Large(Spout):
    outputs = ("blob",)

    def next_tuple(self) -> None:
        self.collector.emit([bytes(100_000)])


def test_steps_get_shorter_while_they_emit_many_bytes() -> None:
    builder = TopologyBuilder()
    builder.set_spout("spout", Large())
    builder.set_bolt("bolt", Do()).shuffle_grouping("spout")
    hand = HandDriven(builder.create_topology())
    steps = []
    for _ in range(30):
        before = len(hand.delivered)
        hand.step("spout")
        steps.append(sum(len(rows) for _, _, rows in hand.delivered[before:]))
    assert max(steps) > 10
    assert max(steps) * 100_000 <= 2 * STEP_BYTES
