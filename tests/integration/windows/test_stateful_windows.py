"""Stateful windows that go back to a checkpoint at any moment, with replays in any order: what their state has of each
tuple happened once, and the windows in the state are those that would have been without going back.
"""

from __future__ import annotations

import os
import random
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

import pytest
from local_components import Keep, Log

from tupletree import Spout, StatefulWindowedBolt, Topology, TopologyBuilder, Window
from tupletree.errors import TaskFailedError, TopologyError
from tupletree.testing import LocalCluster
from tupletree.windows import Count, Duration

SEEDS = int(os.environ.get("WINDOW_SEEDS", "1"))
CONF = {"topology.state.checkpoint.interval.ms": 1000, "topology.message.timeout.secs": 1000}


class Numbered(Spout):
    """Emits what it is fed as (id, at), and what fails again, in any order."""

    outputs = ["id", "at"]

    def __init__(self, feed: Log, acked: Log, seed: int) -> None:
        self.feed, self.acked = feed, acked
        self.rng = random.Random(seed)
        self.taken = 0
        self.again: deque[int] = deque()

    def next_tuple(self) -> None:
        if self.again:
            self.rng.shuffle(self.again)
            number = self.again.popleft()
        elif self.taken < len(self.feed):
            number, self.taken = self.taken, self.taken + 1
        else:
            return
        self.collector.emit(self.feed[number], msg_id=number)

    def ack(self, msg_id: Any) -> None:
        self.acked.append(msg_id)

    def fail(self, msg_id: Any) -> None:
        self.again.append(msg_id)


class Journal(StatefulWindowedBolt):
    """Keeps its windows in its state, and says what is in it at each commit. Refuses checkpoints when it is told to."""

    outputs = ["ids"]

    def __init__(self, committed: Log, refusals: Log) -> None:
        self.committed, self.refusals = committed, refusals

    def init_state(self, state: Any) -> None:
        super().init_state(state)
        self.windows = state

    def execute_window(self, window: Window) -> None:
        number = self.windows.get("number", 0)
        parts = [[tup["id"] for tup in part] for part in (window, window.new)]
        self.windows.put(number, parts)
        self.windows.put("number", number + 1)
        self.collector.emit(parts[:1])

    def pre_prepare(self, txid: int) -> None:
        super().pre_prepare(txid)
        if self.refusals:
            raise RuntimeError(self.refusals.pop())

    def pre_commit(self, txid: int) -> None:
        self.committed[:] = [self.windows.get(number) for number in range(self.windows.get("number", 0))]


def journal(spouts: dict[str, Spout], bolt: StatefulWindowedBolt) -> Topology:
    builder = TopologyBuilder()
    declarer = builder.set_bolt("journal", bolt)
    for name, spout in spouts.items():
        builder.set_spout(name, spout)
        declarer.shuffle_grouping(name)
    builder.set_bolt("keep", Keep(Log())).shuffle_grouping("journal")
    return builder.create_topology()


def run(
    cluster: LocalCluster, seed: int, rows: list[list[Any]], set_up: Callable[[Journal], StatefulWindowedBolt]
) -> list[tuple[list[int], list[int]]]:
    """Feed rows little by little, go back now and then, and return the windows that were committed in the end."""
    rng = random.Random(seed)
    feed, acked, committed, refusals = Log(), Log(), Log(), Log()
    cluster.submit("t", journal({"a": Numbered(feed, acked, seed)}, set_up(Journal(committed, refusals))), CONF)
    refused = 0
    for at, row in enumerate(rows):
        feed.append(row)
        if rng.random() < 0.3 or at == len(rows) - 1:
            cluster.wait_quiet()
            cluster.advance(rng.choice([0.1, 0.5, 1, 2]))
        if rng.random() < 0.1:
            refusals.append("not now")
            refused += 1
    cluster.wait_quiet()
    for _ in range(60):
        cluster.advance(1)
        cluster.wait_quiet()
    assert not refusals and refused == len([error for _, error in cluster.errors("t") if "not now" in str(error)])
    assert len(acked) == len(set(acked)), "a tuple was acked twice"
    return [(tuples, new) for tuples, new in committed]


@pytest.mark.long
@pytest.mark.sized
@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize(("length", "slide"), [(4, 4), (6, 2), (5, 1), (2, 5)])
def test_windows_of_counts(cluster: LocalCluster, length: int, slide: int, seed: int) -> None:
    rows = [[number, 0] for number in range(120)]
    windows = run(cluster, seed, rows, lambda bolt: _with_ids(bolt.with_window(Count(length), Count(slide))))
    assert len(windows) == 120 // slide
    for number, (tuples, new) in enumerate(windows):
        before = windows[number - 1][0] if number else []
        assert len(tuples) == min(length, (number + 1) * slide)
        assert new == [id for id in tuples if id not in before]
        assert tuples == [*before[len(before) + len(new) - len(tuples) :][: len(tuples) - len(new)], *new]
    counts = Counter(id for _, new in windows for id in new)
    assert set(counts.values()) == {1}
    assert slide > length or counts.keys() == set(range(120))


@pytest.mark.sized
@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize(("length", "slide"), [(4, 4), (6, 2)])
def test_windows_of_event_time(cluster: LocalCluster, length: int, slide: int, seed: int) -> None:
    """Tuples that were in no window yet when it went back can come late: the lag allows for most."""
    rng = random.Random(seed)
    rows: list[list[Any]] = [[number, number / 4 + rng.uniform(-2, 2)] for number in range(160)]
    at = {number: at_s for number, at_s in rows}
    rows.append([1000, 1000.0])  # brings the watermark past all others
    windows = run(
        cluster,
        seed,
        rows,
        lambda bolt: _with_ids(
            bolt.with_window(Duration(length), Duration(slide)).with_timestamp_field("at").with_lag(Duration(20))
        ),
    )
    in_windows = Counter(id for tuples, _ in windows for id in tuples)
    counts = Counter(id for _, new in windows for id in new)
    assert set(counts.values()) == {1}
    assert set(in_windows.values()) <= {length // slide}
    assert counts.keys() == set(range(160))
    for tuples, _ in windows:
        assert [at[id] for id in tuples] == sorted(at[id] for id in tuples)
        assert max(at[id] for id in tuples) // slide - min(at[id] for id in tuples) // slide < length // slide


@pytest.mark.sized
@pytest.mark.parametrize("seed", range(SEEDS))
def test_tumbling_windows_of_processing_time(cluster: LocalCluster, seed: int) -> None:
    rows = [[number, 0] for number in range(120)]
    windows = run(cluster, seed, rows, lambda bolt: _with_ids(bolt.with_tumbling_window(Duration(3))))
    assert sorted(id for tuples, _ in windows for id in tuples) == list(range(120))


def _with_ids(bolt: Any) -> StatefulWindowedBolt:
    found: StatefulWindowedBolt = bolt.with_message_id_field("id")
    return found


def test_what_does_not_come_back_is_given_up_after_a_message_timeout(cluster: LocalCluster) -> None:
    feed, committed, refusals = Log(), Log(), Log()
    bolt = _with_ids(Journal(committed, refusals).with_window(Count(3), Count(1)))
    conf = {**CONF, "topology.message.timeout.secs": 30}
    cluster.submit("t", journal({"a": Untracked(feed, Log(), 0)}, bolt), conf)
    feed.extend([[number, 0] for number in range(3)])
    cluster.wait_quiet()
    cluster.advance(3)
    cluster.wait_quiet()
    assert list(committed)[-1] == [[0, 1, 2], [2]]
    refusals.append("not now")
    cluster.advance(3)
    feed.append([3, 0])
    cluster.wait_quiet()
    assert len(committed) == 3
    cluster.advance(35)
    cluster.wait_quiet()
    assert list(committed)[3:] == [[[3], [3]]]


class Untracked(Numbered):
    def next_tuple(self) -> None:
        if self.taken < len(self.feed):
            self.collector.emit(self.feed[self.taken])
            self.taken += 1


def test_a_tuple_without_an_id_is_failed_and_reported(cluster: LocalCluster) -> None:
    feed, acked, committed = Log(), Log(), Log()
    feed.extend([[0, 0], [1, 0]])
    spout = Once(feed, acked, 0)
    feed[0][0] = 1.5
    cluster.submit("t", journal({"a": spout}, _with_ids(Journal(committed, Log()).with_window(Count(1)))), CONF)
    cluster.wait_quiet()
    cluster.advance(3)
    cluster.wait_quiet()
    assert list(committed) == [[[1], [1]]]
    [(component, error)] = cluster.errors("t")
    assert component == "journal" and isinstance(error, TopologyError) and error.field == "id"
    assert "message id field 'id' of a tuple of 'a', stream 'default' is 1.5, which is neither" in str(error)


class Once(Numbered):
    """Does not repeat what fails."""

    def fail(self, msg_id: Any) -> None:
        pass


class Forgetful(StatefulWindowedBolt):
    outputs = ["ids"]

    def init_state(self, state: Any) -> None:
        self.windows = state


def test_an_init_state_that_leaves_out_the_windows_is_told(cluster: LocalCluster) -> None:
    feed = Log()
    feed.append([1, 0])
    bolt = _with_ids(Forgetful().with_window(Count(1)))
    cluster.submit("t", journal({"a": Numbered(feed, Log(), 0)}, bolt), CONF)
    with pytest.raises(TaskFailedError, match=r"Forgetful\.init_state must call super\(\)\.init_state\(state\)"):
        cluster.wait_until(lambda: cluster.advance(1))


def test_a_message_id_field_is_wanted_when_the_topology_is_built() -> None:
    with pytest.raises(TopologyError, match="bolt 'journal': has no message id field") as caught:
        journal({"a": Numbered(Log(), Log(), 0)}, Journal(Log(), Log()).with_window(Count(1)))
    assert caught.value.field == "message_id_field"
    with pytest.raises(TopologyError, match="bolt 'journal': needs field 'number' of every input"):
        journal(
            {"a": Numbered(Log(), Log(), 0)},
            Journal(Log(), Log()).with_window(Count(1)).with_message_id_field("number"),
        )


def test_aligned_checkpoints_are_refused(cluster: LocalCluster) -> None:
    bolt = _with_ids(Journal(Log(), Log()).with_window(Count(1)))
    conf = {**CONF, "topology.state.checkpoint.aligned": True}
    cluster.submit("t", journal({"a": Numbered(Log(), Log(), 0)}, bolt), conf)
    with pytest.raises(TaskFailedError, match="an aligned checkpoint would wait"):
        cluster.wait_until(lambda: cluster.advance(1))
