"""A log that shares its partitions out and keeps positions, as a consumer group does."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import pytest
from queue_components import History, new_history, watched

from tupletree import Backoff
from tupletree.connectors.formats import Json, Raw, Text, decoded
from tupletree.connectors.log_source import (
    Assigned,
    Bounds,
    LogEvent,
    LogFollower,
    LogSource,
    Records,
    Revoked,
    Rewound,
)
from tupletree.connectors.log_spout import LogSpout
from tupletree.connectors.messages import LogRecord
from tupletree.errors import FailedException, UnavailableError
from tupletree.testing import LocalCluster
from tupletree.testing.simulation.external import current, external

FAST = Backoff(first_s=0.05, factor=2, max_s=0.2, max_attempts=None)


class Group:
    """Partitions of messages with one member at a time, in this process."""

    def __init__(self) -> None:
        self.lists: dict[str, list[bytes | None]] = {"a": [], "b": []}
        self.committed: dict[str, int] = {}
        self.revoked: set[str] = set()
        self.is_cut = False
        self.refusals = 0  # of ``open``
        self.given: list[Mapping[str, int] | None] = []
        self.lock = threading.Lock()

    def revoke(self, *names: str) -> None:
        with self.lock:
            self.revoked = set(names)


class GroupFollower(LogFollower):
    def __init__(self, group: Group, positions: Mapping[str, int] | None) -> None:
        self.group = group
        self.mine: dict[str, int] = {}
        self.starts = group.committed if positions is None else positions

    def poll(self, limit: int, wait_s: float) -> Sequence[LogEvent]:
        group = self.group
        if group.is_cut:
            raise ConnectionError("cut")
        with group.lock:
            events: list[LogEvent] = []
            for name, messages in group.lists.items():
                if name in group.revoked:
                    if self.mine.pop(name, None) is not None:
                        events.append(Revoked(name))
                elif name not in self.mine:
                    self.mine[name] = self.starts.get(name, 0)
                    events.append(Assigned(name, self.mine[name]))
                elif self.mine[name] > len(messages):
                    self.mine[name] = 0
                    events.append(Rewound(name, 0))
                elif self.mine[name] < len(messages):
                    start, end = self.mine[name], min(len(messages), self.mine[name] + limit)
                    records = [LogRecord(messages[at], at, at + 1) for at in range(start, end)]
                    self.mine[name] = end
                    events.append(Records(name, records, end))
        if not events:
            time.sleep(min(wait_s, 0.01))
        return events

    def processed(self, positions: Mapping[str, int]) -> None:
        self.group.committed.update(positions)

    def close(self) -> None:
        pass


class GroupLog(LogSource):
    title = "group"
    keeps_positions = True

    def __init__(self, group: Any) -> None:
        self.group = group

    def open(self) -> None:
        if self.group.is_cut:
            raise ConnectionError("cut")
        if self.group.refusals:
            self.group.refusals -= 1
            raise FailedException("a leader is being elected")

    def partitions(self) -> Sequence[str]:
        return list(self.group.lists)

    def bounds(self, partition: str) -> Bounds:
        return Bounds(0, len(self.group.lists[partition]))

    def read(self, partition: str, start: int, end: int) -> Iterator[Sequence[LogRecord]]:
        raise AssertionError("it is followed")

    def follow(self, positions: Mapping[str, int] | None, task_index: int, tasks: int) -> LogFollower:
        self.group.given.append(positions)
        return GroupFollower(self.group, positions)

    def close(self) -> None:
        pass


@pytest.fixture
def scene() -> Iterator[tuple[LocalCluster, Group, Any]]:
    stand_in = external(Group)
    group: Group = current(stand_in)
    with LocalCluster() as cluster:
        yield cluster, group, stand_in


def submit(cluster: LocalCluster, stand_in: Any, before: Any = None, format: Any = None, **options: Any) -> History:
    history = new_history()
    made: History = current(history)
    if before is not None:
        before(made)
    spout = LogSpout(GroupLog(stand_in), format or Text(), **options)
    spout.reconnect = FAST
    cluster.submit("watched", watched(spout, history, retry=FAST))
    return made


def test_positions_are_told_to_the_log_without_a_gap(scene: Any) -> None:
    cluster, group, stand_in = scene
    group.lists["a"] = [b"a%d" % n for n in range(10)]
    history = submit(cluster, stand_in, lambda history: history.held_texts.add("a4"))
    cluster.wait_until(lambda: len(history.executed) == 10)
    cluster.wait_until(lambda: group.committed.get("a") == 4)
    history.finish()
    cluster.wait_until(lambda: group.committed.get("a") == 10)
    assert group.given == [None]


def test_what_is_heard_of_a_revoked_partition_is_ignored(scene: Any) -> None:
    cluster, group, stand_in = scene
    group.lists.update(a=[b"a0", b"a1"], b=[b"b0", b"b1"])
    history = submit(cluster, stand_in, lambda history: setattr(history, "holds", True))
    cluster.wait_until(lambda: len(history.executed) == 4)
    group.revoke("a")
    cluster.wait_until(lambda: _outstanding(cluster) == 2)
    history.finish()
    cluster.wait_until(lambda: group.committed.get("b") == 2)
    assert group.committed.get("a", 0) == 0, "another member reads these messages"
    group.revoke()
    cluster.wait_until(lambda: group.committed.get("a") == 2)
    assert history.executed == Counter(a0=2, a1=2, b0=1, b1=1)


def _outstanding(cluster: LocalCluster) -> float:
    lines = cluster.metrics("watched").splitlines()
    return float(next(line for line in lines if line.startswith("tupletree_spout_outstanding_messages{")).split()[-1])


def test_a_lost_connection_has_the_partitions_shared_out_again(scene: Any) -> None:
    cluster, group, stand_in = scene
    group.lists["a"] = [b"a0", b"a1"]
    history = submit(cluster, stand_in, lambda history: setattr(history, "holds", True))
    cluster.wait_until(lambda: len(history.executed) == 2)
    group.is_cut = True
    cluster.wait_until(lambda: cluster.errors("watched"))
    assert isinstance(cluster.errors("watched")[0][1], UnavailableError)
    group.is_cut = False
    cluster.wait_until(lambda: history.executed == Counter(a0=2, a1=2))
    history.finish()
    cluster.wait_until(lambda: group.committed.get("a") == 2)
    assert group.given == [None, None]


class Stored(GroupLog):
    keeps_positions = False


def test_a_partition_that_begins_anew_is_read_from_there_also_after_a_restart(scene: Any) -> None:
    cluster, group, stand_in = scene
    group.lists["a"] = [b"old%d" % n for n in range(10)]
    for expected in (["old9"], ["new1"], ["new2", "new3"]):
        history = new_history()
        cluster.submit("watched", watched(LogSpout(Stored(stand_in), Text()), history, retry=FAST))
        if expected == ["new1"]:
            group.lists["a"] = [b"new0", b"new1"]
        cluster.wait_until(lambda history=history, expected=expected: set(expected) <= set(current(history).executed))
        cluster.wait_until(lambda: _outstanding(cluster) == 0)
        cluster.kill("watched")
        group.lists["a"] += [b"new2", b"new3"] if expected == ["new1"] else []
    assert current(history).executed == Counter(new2=1, new3=1)


def test_a_message_without_a_value_is_given_up_unless_the_format_takes_it(scene: Any) -> None:
    cluster, group, stand_in = scene
    group.lists["a"] = [b'"a0"', None, b'"a2"']
    history = submit(cluster, stand_in, format=Json("text"))
    cluster.wait_until(lambda: group.committed.get("a") == 3)
    assert history.executed == Counter(a0=1, a2=1)
    [(_, error)] = cluster.errors("watched")
    assert "a@1" in str(error) and "the message has no value" in str(error)
    assert Raw().takes_none and decoded(Raw(), None) == [None]


class Away(Text):
    """Asks a service that is away for each message, the first three times."""

    def __init__(self, asked: Any) -> None:
        super().__init__()
        self.asked = asked

    def decode(self, data: bytes) -> Sequence[Any]:
        self.asked.append(data)
        if len(self.asked) <= 3:
            raise UnavailableError("the registry is away")
        return super().decode(data)


def test_a_message_that_cannot_be_decoded_for_now_waits_and_those_after_it_too(scene: Any) -> None:
    cluster, group, stand_in = scene
    group.lists["a"] = [b"a0", b"a1"]
    history = submit(cluster, stand_in, format=Away(external(list)))
    cluster.wait_until(lambda: group.committed.get("a") == 2)
    assert list(history.executed) == ["a0", "a1"]
    assert [str(error) for _, error in cluster.errors("watched")] == ["the registry is away"] * 3


def test_a_log_that_is_not_ready_is_opened_again(scene: Any) -> None:
    cluster, group, stand_in = scene
    group.lists["a"], group.refusals = [b"a0"], 3
    history = submit(cluster, stand_in)
    cluster.wait_until(lambda: history.executed == Counter(["a0"]))
    assert [str(error) for _, error in cluster.errors("watched")] == [
        "group: no connection: a leader is being elected"
    ] * 3


class Hollow(Stored):
    """Can be opened, and does nothing else."""

    def follow(self, positions: Mapping[str, int] | None, task_index: int, tasks: int) -> LogFollower:
        self.group.given.append(positions)
        raise ConnectionError("it is hollow")


class Noted(Backoff):
    """Notes after how many failures it is asked for a pause."""

    asked: ClassVar[Any] = external(list)

    def pause_s(self, attempts: int) -> float:
        current(self.asked).append(attempts)
        return 0.01


def test_a_log_that_can_be_opened_and_no_more_is_opened_after_growing_pauses(scene: Any) -> None:
    cluster, _, stand_in = scene
    spout = LogSpout(Hollow(stand_in), Text())
    spout.reconnect = Noted()
    cluster.submit("watched", watched(spout, new_history(), retry=FAST))
    cluster.wait_until(lambda: len(current(Noted.asked)) >= 4)
    assert current(Noted.asked)[:4] == [1, 2, 3, 4]
    assert cluster.errors("watched")
