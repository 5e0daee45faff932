"""The progress of a source in event time: its executor sends it, whether the spout may be polled or not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from driven_spout import Numbers, task_of
from hand_driven import HandDriven
from local_components import Do, Log

from tupletree import TopologyBuilder
from tupletree._chained import Emit
from tupletree.context import TopologyContext
from tupletree.keyed.partition_times import PartitionTimes
from tupletree.outputs import PROGRESS_STREAM
from tupletree.streams.chained_spout import chained

PENDING = {"topology.max.spout.pending": 2}


class Times:
    """A chain whose elements are their own event times."""

    def setup(self, context: TopologyContext) -> None:
        self.times = context.source_progress = PartitionTimes(None)

    def bind(self, emit: Emit) -> Callable[[Sequence[Any]], None]:
        def run(row: Sequence[Any]) -> None:
            self.times.newest[0] = max(self.times.newest[0], row[0])
            emit("default", row)

        return run

    def teardown(self) -> None:
        pass


def driven(conf: dict[str, Any] | None = None) -> HandDriven:
    builder = TopologyBuilder()
    outputs = {"default": ["n"], PROGRESS_STREAM: ["time"]}
    builder.set_spout("spout", chained(Numbers(Log()), Times(), outputs))
    builder.set_bolt("bolt", Do()).shuffle_grouping("spout").all_grouping("spout", PROGRESS_STREAM)
    return HandDriven(builder.create_topology(), conf or PENDING)


def sent(hand: HandDriven) -> list[int]:
    """Return the progress that was handed over since the last call."""
    found = [rows[0][0][0] for origin, _, rows in hand.delivered if origin.stream == PROGRESS_STREAM]
    hand.delivered.clear()
    return found


def test_progress_is_sent_five_times_a_second_also_while_the_spout_waits_for_acks() -> None:
    hand = driven()
    while hand.step("spout"):
        pass
    assert len(task_of(hand).pending) == 2
    sent(hand)
    assert hand.executor("spout").due_s() <= 0.2
    for hand.now_s, expected in [(0.1, []), (0.2, [1]), (0.3, []), (0.41, [1])]:
        while hand.step("spout"):
            pass
        assert sent(hand) == expected


def test_the_last_progress_is_sent_when_the_topology_is_deactivated() -> None:
    hand = driven()
    while hand.step("spout"):
        pass
    sent(hand)
    hand.executor("spout").wants_active = False
    while hand.step("spout"):
        pass
    assert sent(hand) == [1]
    hand.now_s = 10.0
    while hand.step("spout"):
        pass
    assert sent(hand) == []


def test_progress_is_no_stream_of_messages() -> None:
    hand = driven()
    hand.step("spout")
    assert list(task_of(hand).trees) == ["default"]
