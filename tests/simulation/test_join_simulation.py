"""Joins amid faults: with aligned checkpoints each pair counts once, whenever a worker dies."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from simulated_words import DURABLE

from tupletree import BasicStatefulBolt, IntervalJoin, ReliableSpout, TableJoin, Topology, TopologyBuilder
from tupletree.keyed import KeyState, Timers
from tupletree.testing import CounterexampleError, Outcome, simulate

ALIGNED = {**DURABLE, "topology.state.checkpoint.aligned": True}
FEW = range(int(os.environ.get("KEYED_SEEDS", "10")))
COUNT, AFTER_MS = 60, 300

Row = tuple[str, int, int]


def events(side: int) -> list[tuple[str, int]]:
    """Return the events of one side: keys, of which the right side lacks one, and times that ascend."""
    return [(f"k{number % (3 - side)}", number * (17 + 6 * side) + side) for number in range(COUNT)]


LEFT, RIGHT = (events(side) for side in (0, 1))
END_MS = min(LEFT[-1][1], RIGHT[-1][1])
"""The last watermark."""


def pairs() -> set[Row]:
    """Return the rows of the interval join: key, and the times of both tuples; -1 for none."""
    found = {
        (key, at, other) for key, at in LEFT for own, other in RIGHT if own == key and at <= other <= at + AFTER_MS
    }
    joined = {(key, at) for key, at, _ in found}
    return found | {(key, at, -1) for key, at in LEFT if (key, at) not in joined and at + AFTER_MS < END_MS}


def versions() -> set[Row]:
    """Return the rows of the table join: key, the time of the tuple, the time of the version; -1 for none."""
    return {
        (key, at, max((other for own, other in RIGHT if own == key and other <= at), default=-1))
        for key, at in LEFT
        if at < END_MS
    }


class Events(ReliableSpout):
    outputs = ["key", "at"]

    def __init__(self, side: int) -> None:
        self.side = side

    def read(self) -> Iterator[list[Any]]:
        yield from (list(one) for one in events(self.side))


class Pairs(IntervalJoin):
    key, event_time, max_lag = "key", "at", timedelta(0)
    left, right = "left", "right"
    before, after = timedelta(0), timedelta(milliseconds=AFTER_MS)
    kind = "left"
    outputs = ["key", "left", "right"]
    _max_chunk = 2

    def join(self, left: Any, right: Any) -> Iterator[list[Any]]:
        yield [left["key"], left["at"], -1 if right is None else right["at"]]


class Versions(TableJoin):
    key, event_time, max_lag = "key", "at", timedelta(0)
    stream, table = "left", "right"
    versioned = True
    kind = "left"
    outputs = ["key", "left", "right"]
    _max_chunk = 2

    def join(self, left: Any, row: Any) -> Iterator[list[Any]]:
        yield [left["key"], left["at"], -1 if row is None else row["at"]]


class Rows(BasicStatefulBolt):
    default_factory = int

    def execute(self, tup: Any) -> None:
        self.state[tuple(tup.values)] += 1


def joined(bolt: Pairs | Versions) -> Topology:
    builder = TopologyBuilder()
    for side, name in enumerate(("left", "right")):
        builder.set_spout(name, Events(side))
    builder.set_bolt("join", bolt, 2).fields_grouping("left", "key").fields_grouping("right", "key")
    builder.set_bolt("rows", Rows(), 2).fields_grouping("join", ["key", "left"])
    return builder.create_topology()


def exactly(truth: set[Row]) -> Any:
    def check(outcome: Outcome) -> None:
        assert outcome.states["rows"] == dict.fromkeys(truth, 1)

    return check


@pytest.mark.sized
@pytest.mark.parametrize(("bolt", "truth"), [(Pairs, pairs()), (Versions, versions())])
def test_each_pair_counts_once_amid_faults(bolt: Any, truth: set[Row]) -> None:
    report = simulate(joined(bolt()), FEW, check=exactly(truth), conf=ALIGNED)
    assert report.messages == len(FEW) * 2 * COUNT
    assert report.kills > 5


class KeepsChunksInMemory(Pairs):
    """Its checkpoints have the records of the keys, and not the chunks beside them."""

    def pre_prepare(self, txid: int) -> None:
        super().pre_prepare(txid)
        state: Any = self.state
        state._live = {entry for entry in state._live if not isinstance(entry, tuple) or entry[0] != "$left"}


class ChangesInPlace(Pairs):
    """A record that is changed is in the next checkpoint only if it is new."""

    def _save(self, state: KeyState[Any], timers: Timers, buffer: Any) -> None:
        live: Any = self.state
        was_new, was_live = not state.exists, state.entry in live._live
        super()._save(state, timers, buffer)
        if not was_new and not was_live and state.exists:
            live._live.discard(state.entry)


class ForgetsTimers(Versions):
    """Its timers and its watermark are in no checkpoint."""

    def pre_prepare(self, txid: int) -> None:
        pass


class JoinsByArrival(Versions):
    """Joins a tuple when it arrives, with the row that has arrived last."""

    event_time, max_lag, versioned = None, None, False


@pytest.mark.parametrize(
    ("broken", "truth"),
    [
        (KeepsChunksInMemory, pairs()),
        (ChangesInPlace, pairs()),
        (ForgetsTimers, versions()),
        (JoinsByArrival, versions()),
    ],
)
def test_a_broken_rule_is_found(broken: Any, truth: set[Row]) -> None:
    with pytest.raises(CounterexampleError):
        simulate(joined(broken()), range(100), check=exactly(truth), conf=ALIGNED)
