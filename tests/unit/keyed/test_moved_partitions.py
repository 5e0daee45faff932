"""Partitions that move between the tasks of a source: what is behind is not late, and nothing waits for good."""

from __future__ import annotations

from random import Random

import pytest

from tupletree.keyed.partition_times import HANDOVER_MS, START_MS, PartitionTimes
from tupletree.keyed.watermark import ABSENT, ANEW, BEFORE_ALL, Watermark


class Member:
    """A task of a source whose partitions move."""

    def __init__(self) -> None:
        self.times = PartitionTimes(None)
        self.at: dict[str, int] = {}
        self.times.follow(lambda: self.at, bool, is_complete=False, are_moved=True)

    def assign(self, name: str, position: int = 0) -> None:
        self.at[name] = position
        self.times.assign(name)

    def revoke(self, name: str) -> None:
        del self.at[name]
        self.times.revoke(name)

    def emit(self, name: str, position: int, time_ms: int) -> None:
        self.times.select(name)
        self.times.newest[0] = max(self.times.newest[0], time_ms)
        self.at[name] = position

    def look(self, now_ms: int = 0, **ends: int) -> list[int]:
        self.times.set_ends(ends, now_ms)
        return list(self.times.report())


def hear(watermark: Watermark, sender: int, progress: list[int]) -> int:
    """Tell a watermark of the progress of a task, as a KeyedProcess does; return its value."""
    for time_ms in progress:
        if time_ms == ANEW:
            watermark.begin_anew(sender)
        elif time_ms == ABSENT:
            watermark.leave(sender)
        else:
            watermark.back(sender)
            if time_ms > watermark.newest.get(sender, BEFORE_ALL):
                watermark.came(sender, time_ms)
    return watermark.value


def test_a_task_that_takes_over_a_partition_further_behind_is_waited_for() -> None:
    watermark, first, second = Watermark([1, 2], 0, None, 0), Member(), Member()
    first.assign("a")
    second.assign("b")
    first.look(0, a=1)
    second.look(0, b=9)
    first.emit("a", 1, 100)
    second.emit("b", 1, 10)
    hear(watermark, 1, first.look(START_MS, a=1))
    assert hear(watermark, 2, second.look(START_MS, b=9)) == 10
    second.revoke("b")  # and hears of it before the other one
    lost_ms = START_MS + HANDOVER_MS
    assert hear(watermark, 2, second.look(START_MS)) == 10
    assert hear(watermark, 2, second.look(lost_ms - 1)) == 10
    first.assign("b", 1)
    assert hear(watermark, 1, first.look(lost_ms, a=1, b=9)) == 10
    progress = second.look(lost_ms)
    assert progress[-1] == ABSENT
    assert hear(watermark, 2, progress) == 10
    first.emit("b", 2, 20)
    assert hear(watermark, 1, first.look(lost_ms, a=1, b=9)) == 20
    first.emit("b", 9, 90)
    assert hear(watermark, 1, first.look(lost_ms, a=1, b=9)) == 100


def test_a_task_that_loses_one_of_two_partitions_stands_still_until_the_other_task_has_it() -> None:
    member = Member()
    member.assign("a")
    member.assign("b")
    member.emit("a", 1, 100)
    member.emit("b", 1, 10)
    assert member.look(0, a=1, b=9) == [ANEW, BEFORE_ALL]
    assert member.look(START_MS, a=1, b=9) == [10]
    member.revoke("b")
    assert member.look(START_MS, a=1) == [10]
    assert member.look(START_MS + HANDOVER_MS - 1, a=1) == [10]
    assert member.look(START_MS + HANDOVER_MS, a=1) == [100]


def test_what_was_told_holds_again_when_all_is_read() -> None:
    """The partition comes back without new elements, after a lost connection."""
    member = Member()
    member.assign("a")
    member.emit("a", 1, 100)
    member.look(0, a=1)
    assert member.look(START_MS, a=1) == [100]
    member.revoke("a")
    member.assign("a", 1)
    assert member.look(START_MS, a=1) == [ANEW, BEFORE_ALL]
    assert member.look(START_MS + HANDOVER_MS, a=1) == [100]


def test_a_task_that_starts_again_with_another_partition_does_not_stand_where_it_stood() -> None:
    """Watermarks are stored with the newest time of each task: these are of the partitions that it had then."""
    watermark = Watermark([1, 2], 0, None, 0)
    watermark.restore(10, {1: 100, 2: 10})
    first, second = Member(), Member()
    first.assign("b", 1)
    first.emit("b", 2, 20)
    second.assign("a", 1)
    second.emit("a", 2, 101)
    assert hear(watermark, 2, second.look(0, a=2)) == 10  # the other one has not said yet that it has begun anew
    assert hear(watermark, 1, first.look(0, b=9)) == 10
    assert hear(watermark, 2, second.look(START_MS, a=2)) == 10
    assert hear(watermark, 1, first.look(START_MS, b=9)) == 20


def test_a_task_that_waits_and_starts_again_hears_that_another_one_has_begun_anew() -> None:
    """Its state is of before: there, the other task has come to 100, and what that has lost since counts no more."""
    first = Member()
    first.assign("a")
    first.emit("a", 1, 100)
    first.look(0, a=1)
    assert first.look(START_MS, a=1)[-1] == 100
    first.assign("b")
    assert first.look(START_MS, a=1, b=9) == [ANEW, BEFORE_ALL]  # nobody has heard that
    watermark = Watermark([1, 2], 0, None, 0)
    watermark.restore(10, {1: 100, 2: 10})
    hear(watermark, 1, first.look(START_MS, a=1, b=9))
    assert hear(watermark, 2, [90]) == 10
    first.emit("b", 1, 20)
    assert hear(watermark, 1, first.look(START_MS, a=1, b=9)) == 20


def test_a_log_whose_partitions_stay_goes_on_where_it_stood() -> None:
    times = PartitionTimes(None)
    times.follow(lambda: {"a": 1}, bool, is_complete=False)
    times.assign("a")
    times.set_ends({"a": 1}, 0)
    assert times.report() == [BEFORE_ALL]
    times.restart()
    times.assign("a")
    assert times.report() == [BEFORE_ALL]


class Scene:
    """Partitions that are written, read and moved between two tasks at random, and the watermark behind these."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.written = {name: list[int]() for name in "abcd"}  # event times, which are those of writing
        self.read = dict.fromkeys(self.written, 0)
        self.members = [Member(), Member()]
        self.watermark = Watermark([0, 1], 0, None, 0)
        self.owners = {name: random.randrange(2) for name in self.written}
        self.moving: dict[str, tuple[int, int]] = {}  # when a partition that was revoked is assigned, and to whom
        self.writes = {name: random.choice([0, 0.1, 0.5, 1]) for name in self.written}
        self.reads = {name: random.choice([0.05, 0.3, 1]) for name in self.written}
        for name, owner in self.owners.items():
            self.members[owner].assign(name)

    def write(self, now_ms: int) -> None:
        for name, times in self.written.items():
            if self.random.random() < self.writes[name]:
                times.extend([now_ms] * self.random.randint(1, 3))

    def emit(self) -> None:
        for name, owner in self.owners.items():
            if name in self.moving or self.random.random() > self.reads[name]:
                continue
            at = self.read[name]
            for time_ms in self.written[name][at : at + self.random.randint(1, 20)]:
                assert time_ms >= self.watermark.value, f"an element of {name} is late"
                self.read[name] += 1
                self.members[owner].emit(name, self.read[name], time_ms)

    def move(self, now_ms: int) -> None:
        name = self.random.choice("abcd")
        if name not in self.moving and self.random.random() < 0.02:
            self.members[self.owners[name]].revoke(name)
            self.moving[name] = now_ms + self.random.randrange(0, HANDOVER_MS - 200, 100), 1 - self.owners[name]
        for moved, (at_ms, owner) in list(self.moving.items()):
            if now_ms >= at_ms:
                del self.moving[moved]
                self.owners[moved] = owner
                self.members[owner].assign(moved, self.read[moved])

    def look(self, now_ms: int) -> None:
        for sender, member in enumerate(self.members):
            ends = {name: len(self.written[name]) for name in member.at}
            hear(self.watermark, sender, member.look(now_ms, **ends))


@pytest.mark.parametrize("seed", range(30))
def test_nothing_is_late_however_partitions_move(seed: int) -> None:
    scene = Scene(Random(seed))
    for now_ms in range(0, 60_000, 100):
        scene.write(now_ms)
        scene.emit()
        scene.move(now_ms)
        if now_ms % 200 == 0:
            scene.look(now_ms)
