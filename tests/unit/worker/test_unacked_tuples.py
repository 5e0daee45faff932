"""What a task of a stateful topology knows of its executed tuples that are neither acked nor failed."""

from __future__ import annotations

from typing import Any

import pytest
from hand_driven import HandDriven

from tupletree import Bolt, TopologyBuilder
from tupletree.testing import FeederSpout
from tupletree.tuples import Origin, Tuple
from tupletree.worker.core.batches import Rows
from tupletree.worker.core.bolt_task import BoltTask


class Holds(Bolt):
    """Acks words that are not "keep", and holds the others."""

    def setup(self) -> None:
        self.held: list[Tuple] = []

    def execute(self, tup: Tuple) -> None:
        if tup["word"] == "keep":
            self.held.append(tup)
        elif tup["word"] == "fail":
            self.collector.fail(tup)
        else:
            self.collector.ack(tup)


class HoldsOfBatches(Holds):
    """The same for batches. Changes the list that it is given."""

    def execute_batch(self, tuples: list[Tuple]) -> None:
        self.held += [tup for tup in tuples if tup["word"] == "keep"]
        for tup in [tup for tup in tuples if tup["word"] == "fail"]:
            self.collector.fail(tup)
        tuples[:] = [tup for tup in tuples if tup["word"] == "drop"]
        self.collector.ack_many(tuples)
        tuples.clear()


def run(bolt: Holds, words: list[str]) -> tuple[BoltTask, Any]:
    builder = TopologyBuilder()
    builder.set_spout("words", FeederSpout(["word"]))
    builder.set_bolt("hold", bolt).shuffle_grouping("words")
    task = HandDriven(builder.create_topology()).executor("hold").tasks[0]
    assert isinstance(task, BoltTask)
    task.unacked = set()
    rows = Rows.of([([word], 7 + at, 70 + at) for at, word in enumerate(words)])
    assert task.run(rows, 0, len(words), Origin("words", 1, "default", ["word"])) == len(words)
    return task, task.bolt


@pytest.mark.parametrize("kind", [Holds, HoldsOfBatches])
def test_exactly_the_held_tuples_are_unacked(kind: type[Holds]) -> None:
    task, bolt = run(kind(), ["drop", "keep", "fail", "drop", "keep"])
    assert task.unacked == set(bolt.held)
    assert [tup["word"] for tup in bolt.held] == ["keep", "keep"]
    first, second = bolt.held
    bolt.collector.ack(first)
    assert task.unacked == {second}
    bolt.collector.ack_many([second])
    assert task.unacked == set()


@pytest.mark.parametrize("kind", [Holds, HoldsOfBatches])
def test_a_held_tuple_that_fails_later_is_not_waited_for(kind: type[Holds]) -> None:
    task, bolt = run(kind(), ["keep", "keep"])
    bolt.collector.fail(bolt.held[0])
    assert task.unacked == {bolt.held[1]}
    assert task.has_failed_tuples
