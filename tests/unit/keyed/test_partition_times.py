"""The progress of a source over its partitions: never ahead of what is known to be unread, and never held for good."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tupletree.keyed.partition_times import PartitionTimes
from tupletree.keyed.settings import MAX_TIME_MS
from tupletree.keyed.watermark import ABSENT, ALIVE, ANEW, BEFORE_ALL, Watermark

NAMES = ("a", "b", "c")


class Log:
    """Partitions with event times, and a reader that emits them."""

    def __init__(self, times: PartitionTimes, *, is_complete: bool = False) -> None:
        self.times = times
        self.partitions: dict[str, list[int]] = {}
        self.at: dict[str, int] = {}
        self.has_read_all = False
        times.follow(lambda: dict(self.at), lambda: self.has_read_all, is_complete=is_complete)

    def assign(self, name: str, *at_ms: int) -> None:
        self.partitions.setdefault(name, []).extend(at_ms)
        self.at[name] = 0
        self.times.assign(name)

    def revoke(self, name: str) -> None:
        del self.at[name]
        self.times.revoke(name)

    def look(self, now_ms: int = 0, *, is_known: bool = True) -> None:
        ends = {name: len(self.partitions[name]) for name in self.at}
        self.times.set_ends(ends if is_known else None, now_ms)

    def emit(self, name: str, count: int = 1_000, *, are_timed: bool = True) -> list[int]:
        """Emit the next elements of a partition; return their times. ``are_timed``: false if all are filtered out."""
        self.times.select(name)
        emitted = self.partitions[name][self.at[name] :][:count]
        self.at[name] += len(emitted)
        if are_timed:
            self.times.newest[0] = max([self.times.newest[0], *emitted])
        return emitted


def log(idle_timeout_ms: int | None = None, *, is_complete: bool = False) -> Log:
    return Log(PartitionTimes(idle_timeout_ms), is_complete=is_complete)


def time_of(one: Log, now_ms: int = 0) -> int:
    """Return the progress after a look."""
    one.look(now_ms)
    return one.times.report()[0]


KINDS = [*("write", "emit", "look") * 4, "assign", "revoke", "outage"]
steps = st.lists(st.tuples(st.sampled_from(KINDS), st.sampled_from(NAMES), st.integers(1, 3)), min_size=20, max_size=60)
"""What happens, to which partition, and with how many elements."""


@settings(max_examples=400)
@given(steps)
def test_nothing_is_late_however_far_behind_a_partition_is_read(steps: list[tuple[str, str, int]]) -> None:
    """Times are those of writing. What is there when the task gets a partition may be late, if others are ahead."""
    one, written = log(), {name: list[int]() for name in NAMES}
    one.partitions = written
    first = {"a": 0, "b": 0}  # elements before this time may be late
    for name in first:
        one.assign(name)
    progress = BEFORE_ALL
    for now_ms, (step, name, count) in enumerate(steps):
        if step == "write":
            written[name] += [now_ms] * count
        elif step == "emit" and name in one.at:
            assert all(at_ms >= progress or at_ms < first[name] for at_ms in one.emit(name, count))
        elif step == "assign" and name not in one.at:
            one.assign(name)
            first[name] = now_ms if progress > BEFORE_ALL else 0
        elif step == "revoke" and name in one.at:
            one.revoke(name)
        elif step in ("look", "outage"):
            one.look(is_known=step == "look")
        progress = max(progress, one.times.report()[0])
    for name in one.at:
        one.emit(name)
    one.look()
    emitted = [at_ms for name in one.at for at_ms in written[name]]
    assert one.times.report()[0] >= max(emitted, default=BEFORE_ALL - 1)  # and nothing is held back for good


@settings(max_examples=200)
@given(
    st.dictionaries(st.sampled_from(NAMES), st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1),
    st.permutations(NAMES),
)
def test_progress_is_the_least_of_the_partitions_that_are_not_read_to_their_ends(
    read: Mapping[str, tuple[int, int]], order: list[str]
) -> None:
    """``read``: the number of elements of each partition, and how many of them are emitted. Times of each ascend."""
    one = log()
    for name, (count, _) in read.items():
        one.assign(name, *range(100 * ord(name), 100 * ord(name) + count))
    for name in order:
        if name in read:
            one.emit(name, read[name][1])
    newest = {
        name: 100 * ord(name) + min(emitted, count) - 1 if min(emitted, count) else BEFORE_ALL
        for name, (count, emitted) in read.items()
    }
    behind = [newest[name] for name, (count, emitted) in read.items() if emitted < count]
    assert time_of(one) == (min(behind) if behind else max(newest.values()))


def test_a_partition_holds_back_from_its_assignment_until_its_end_is_reached() -> None:
    one = log()
    one.assign("a", 1, 2, 3)
    one.assign("b", 1, 2)
    one.emit("a")
    assert one.times.report() == [BEFORE_ALL]  # nobody has looked
    assert time_of(one) == BEFORE_ALL  # nothing is read of b
    one.emit("b", 1)
    assert time_of(one) == 1
    one.emit("b")
    assert one.times.report() == [1]  # more of b might have come
    assert time_of(one) == 3


def test_empty_revoked_and_deleted_partitions_do_not_hold_back() -> None:
    one = log()
    one.assign("a", 1, 2, 3, 4)
    one.assign("b")
    one.assign("c", 1)
    one.emit("a", 2)
    assert time_of(one) == BEFORE_ALL  # c
    one.revoke("c")
    assert time_of(one) == 2
    one.assign("d", 1)
    one.emit("a", 1)
    one.look()
    assert one.times.report() == [ANEW, BEFORE_ALL]  # d may have older elements
    one.times.set_ends({"a": 4, "b": 0}, 0)  # d is gone
    assert one.times.report() == [3]


def test_a_partition_that_is_there_and_not_assigned_yet_holds_back() -> None:
    one = log()
    one.assign("a", 1, 2)
    one.emit("a")
    one.times.set_ends({"a": 2, "b": math.inf}, 0)
    assert one.times.report() == [BEFORE_ALL]
    one.times.set_ends({"a": 2}, 0)  # gone before it was assigned
    assert one.times.report() == [2]


def test_where_ends_are_not_known_all_partitions_count() -> None:
    one = log()
    one.assign("a", 1, 2)
    one.assign("b", 1)
    one.emit("a")
    one.emit("b")
    one.times.set_ends(None, 0)
    assert one.times.report() == [1]
    assert time_of(one) == 2


def test_with_an_idle_timeout_a_partition_at_its_end_holds_back_until_it_was_silent_for_so_long() -> None:
    one = log(1_000)
    one.assign("a", 1, 2, 3, 4, 5)
    one.assign("b", 1)
    one.emit("b")
    one.emit("a", 3)
    assert time_of(one, 10_000) == 1
    assert time_of(one, 10_900) == 1  # no more than half of the timeout counts between two looks
    one.emit("a", 1)
    assert time_of(one, 11_300) == 1
    assert time_of(one, 11_400) == 4
    one.partitions["b"].append(4)
    one.emit("b")
    one.emit("a")
    assert time_of(one, 11_500) == 4


def test_with_an_idle_timeout_a_task_that_brings_elements_is_alive_while_a_partition_is_further_behind() -> None:
    for is_complete in (False, True):
        one = log(1_000, is_complete=is_complete)
        one.assign("a", 1, 2, 3)
        one.assign("b", 1)
        one.emit("a", 1)
        one.look()
        assert one.times.report() == [BEFORE_ALL, ALIVE]
        assert one.times.report() == [BEFORE_ALL]  # nothing has come
        one.emit("a", 1)
        assert one.times.report() == [BEFORE_ALL, ALIVE]
        one.emit("b")
        one.emit("a")
        one.look(500)
        assert one.times.report() == [3 if is_complete else 1]  # new progress


def test_a_sender_that_is_alive_holds_the_watermark_back_without_progress() -> None:
    watermark = Watermark([1, 2], 0, 1_000, 0)
    watermark.came(1, 10)
    for now_ms in range(400, 4_000, 400):
        watermark.alive(2)
        watermark.came(1, now_ms)
        watermark.tick(now_ms)
        assert watermark.value == BEFORE_ALL
    for now_ms in range(4_000, 5_600, 400):
        watermark.came(1, now_ms)
        watermark.tick(now_ms)
    assert watermark.value == 5_200
    watermark.alive(2)
    watermark.came(1, 6_000)
    assert watermark.value == 5_200


@pytest.mark.parametrize(("idle_timeout_ms", "patience_ms"), [(None, 10_000), (1_000, 1_000)])
def test_a_partition_none_of_whose_messages_has_a_time_does_not_hold_back_for_ever(
    idle_timeout_ms: int | None, patience_ms: int
) -> None:
    """At no look it is read to its end."""
    one = log(idle_timeout_ms)
    one.assign("a", 1, 1)
    one.assign("b", 0, 0)
    now_ms = 0
    while now_ms < patience_ms:
        one.partitions["a"].append(now_ms)
        one.emit("a")
        one.partitions["a"].append(now_ms)
        assert time_of(one, now_ms) == BEFORE_ALL
        one.emit("b", are_timed=False)
        one.partitions["b"] += [now_ms]
        now_ms += patience_ms // 10
    assert time_of(one, now_ms) == now_ms - patience_ms // 10
    one.emit("b", are_timed=False)
    one.partitions["b"] += range(now_ms, now_ms + 100)
    one.emit("b", 5)
    one.partitions["a"].append(now_ms + 100)
    one.emit("a")
    assert time_of(one, now_ms + 10) == now_ms + 4, "it has times now"


def test_a_backlog_without_times_at_its_beginning_holds_back_until_it_is_read_as_far_as_it_went() -> None:
    one = log()
    one.assign("a", 1)
    one.assign("b")
    one.emit("a")
    for now_ms in range(0, 50_000, 5_000):
        assert time_of(one, now_ms) == 1
    one.partitions["a"] += [100, 101]
    one.partitions["b"] += range(50)
    one.emit("a", 1)
    for now_ms in range(50_000, 100_000, 5_000):
        assert time_of(one, now_ms) == 1, "b was at its end for long, and is not now"
        one.emit("b", 4, are_timed=False)
    one.emit("b", 5)
    assert time_of(one, 100_000) == 44


def test_a_partition_whose_messages_all_have_the_same_time_is_not_silent() -> None:
    one = log(1_000)
    one.assign("a", *[60] * 100)
    one.assign("b", 120, 180)
    one.emit("b")
    for now_ms in range(0, 5_000, 100):
        one.emit("a", 1)
        one.look(now_ms)
        assert one.times.report() == ([60] if now_ms == 0 else [60, ALIVE])
    one.emit("a")
    one.look(5_000)
    assert one.times.report() == [60, ALIVE]
    assert time_of(one, 5_500) == 60
    assert time_of(one, 6_000) == 180


def test_messages_without_times_are_silence_to_an_idle_timeout() -> None:
    one = log(1_000)
    one.assign("a", 1, 2, 3)
    one.assign("b", *[0] * 100)
    one.emit("a", 2)
    one.partitions["b"] = [0]
    for now_ms in range(0, 1_000, 100):
        one.emit("b", are_timed=False)
        assert time_of(one, now_ms) == BEFORE_ALL
        one.partitions["b"].append(0)
    one.emit("b", are_timed=False)
    assert time_of(one, 1_000) == 2


def test_where_ends_are_not_known_an_idle_timeout_counts() -> None:
    one = log(1_000)
    one.assign("a", 1, 2, 3)
    one.assign("b", 0)
    one.emit("a")
    for now_ms in range(0, 1_000, 100):
        one.look(now_ms, is_known=False)
        assert one.times.report()[0] == BEFORE_ALL
    one.look(1_000, is_known=False)
    assert one.times.report() == [3]
    behind = log(1_000)
    behind.assign("a", 1, 2, 3)
    behind.assign("b", 0)
    behind.emit("a")
    behind.look()
    for now_ms in range(0, 5_000, 100):
        behind.look(now_ms, is_known=False)
        assert behind.times.report()[0] == BEFORE_ALL, "it is known that b was not read to its end"


def test_partitions_of_a_complete_log_wait_for_no_idle_timeout() -> None:
    one = log(1_000, is_complete=True)
    one.assign("a", 1, 2)
    one.assign("b", 1)
    one.emit("b")
    one.emit("a")
    assert time_of(one) == 2


def test_a_task_without_partitions_or_with_all_read_is_absent() -> None:
    one = log()
    assert one.times.report() == [BEFORE_ALL]  # its share is not known
    one.look()
    assert one.times.report() == [ABSENT]
    one.assign("a", 1)
    assert one.times.report() == [BEFORE_ALL]
    one.revoke("a")
    assert one.times.report() == [BEFORE_ALL]  # a lost connection, or another partition instead
    one.look()
    assert one.times.report() == [ABSENT]
    one.assign("a")
    one.emit("a")
    one.has_read_all = True
    assert one.times.report() == [1, ABSENT]
    assert one.times.report() == [1, ABSENT]  # a task that has started again has not heard it
    one.times.restart()
    assert one.times.report() == [BEFORE_ALL]
    one.times.end()
    assert one.times.report() == [MAX_TIME_MS]


def test_a_spout_that_tells_of_no_partitions_has_the_newest_time() -> None:
    times = PartitionTimes(None)
    assert times.report() == []
    times.newest[0] = 7
    assert times.report() == [7]


def test_an_element_that_is_emitted_again_belongs_to_its_own_partition() -> None:
    one = log()
    one.assign("a", 5, 6)
    one.assign("b", 50, 60)
    one.emit("b", 1)
    one.times.select("a")
    one.times.newest[0] = 5
    one.times.select("b")
    assert time_of(one) == 5
    one.emit("a")
    assert time_of(one) == 50  # as before the other was emitted again


def test_an_absent_sender_holds_the_watermark_back_no_longer_until_it_is_back() -> None:
    watermark = Watermark([1, 2], 0, None, 0)
    watermark.came(1, 10)
    assert watermark.value == BEFORE_ALL
    watermark.leave(2)
    assert watermark.value == 10
    watermark.came(1, 11)
    assert watermark.value == 11
    watermark.back(2)
    watermark.came(1, 20)
    assert watermark.value == 11
    watermark.came(2, 15)
    assert watermark.value == 15
    assert not watermark.is_alone
    watermark.leave(1)
    watermark.leave(2)
    assert watermark.is_alone and watermark.value == 20
    watermark.restore(5, {1: 5, 2: 5})
    watermark.came(1, 30)
    assert watermark.value == 5
