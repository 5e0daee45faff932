"""A timeline does what a sorted list does, in chunks of bounded size, and writes only those that change."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from tupletree.joins.timeline import MAX_CHUNK, Timeline, new_record
from tupletree.state.buffered import BufferedState, Changes
from tupletree.state.memory import MemoryBackend, Namespace

TIMES = st.integers(0, 12)
CALLS = st.one_of(
    st.tuples(st.sampled_from(["add", "add", "add", "add", "replace", "take", "drop", "newest", "oldest"]), TIMES),
    st.tuples(st.sampled_from(["between", "mark"]), TIMES, TIMES),
)

Stored = list[tuple[int, int, bool]]


class Sorted:
    """The same as a timeline, in one list of times, values and marks."""

    def __init__(self) -> None:
        self.stored: Stored = []

    def add(self, time: int, value: int) -> None:
        self.stored.append((time, value, False))
        self.stored.sort(key=lambda one: one[0])

    def replace(self, time: int, value: int) -> None:
        if same := [one for one in self.stored if one[0] == time]:
            self.stored[self.stored.index(same[-1])] = (time, value, same[-1][2])
        else:
            self.add(time, value)

    def between(self, first: int, last: int) -> list[int]:
        return [value for time, value, _ in self.stored if first <= time <= last]

    def mark(self, first: int, last: int) -> None:
        self.stored = [(time, value, mark or first <= time <= last) for time, value, mark in self.stored]

    def take_before(self, end: int) -> Stored:
        taken = [one for one in self.stored if one[0] < end]
        self.stored = [one for one in self.stored if one[0] >= end]
        return taken


def contents(record: list[Any], state: BufferedState[Any, Any]) -> Stored:
    """All that is stored; checks that no chunk is too large, and that no other chunk is in the state."""
    chunks = [state.get(("$t", "k", number)) for _, number in record[0]] + [record[2]]
    assert all(len(set(map(len, chunk))) == 1 and len(chunk[0]) <= 3 for chunk in chunks)
    assert all(chunk[0] for chunk in chunks[:-1])
    assert {key for key, _ in state.items()} == {("$t", "k", number) for _, number in record[0]}
    return [one for chunk in chunks for one in zip(*chunk, strict=True)]


@given(st.lists(CALLS, max_size=60))
@example([("add", 0), ("add", 0), ("add", 0), ("add", 0), ("replace", 0)])
def test_a_timeline_does_what_a_sorted_list_does(calls: list[Any]) -> None:
    state: BufferedState[Any, Any] = BufferedState("test", MemoryBackend("test", Namespace()))
    record, model = new_record(), Sorted()
    timeline = Timeline(record, state, "$t", "k", max_chunk=3)
    for number, (call, time, *more) in enumerate(calls):
        if call in ("add", "replace"):
            getattr(timeline, call)(time, number)
            getattr(model, call)(time, number)
        elif call == "take":
            assert timeline.take_before(time) == model.take_before(time)
        elif call == "drop":
            timeline.drop_before(time)
            kept = contents(record, state)
            assert [one for one in kept if one[0] >= time] == [one for one in model.stored if one[0] >= time]
            model.stored = kept
        elif call == "newest":
            expected = [(one[0], one[1]) for one in model.stored if one[0] <= time]
            assert timeline.newest_until(time) == (expected[-1] if expected else None)
        elif call == "oldest":
            assert timeline.oldest(time % 5) == [one[:2] for one in model.stored[: time % 5]]
        else:
            assert getattr(timeline, call)(time, *more) == getattr(model, call)(time, *more)
        assert contents(record, state) == model.stored
        assert bool(timeline) == bool(model.stored)
        check_due(timeline, model.stored)


def check_due(timeline: Timeline, stored: Stored) -> None:
    """Check that what is due makes a call of ``take_before`` or ``drop_before`` right after it worthwhile."""
    times, alone = [time for time, _, _ in stored], [time for time, _, mark in stored if not mark]
    due, unmarked_due = timeline.due(), timeline.due(unmarked=True)
    if not stored:
        assert due is None and unmarked_due is None
        return
    assert due is not None and unmarked_due is not None
    assert times[0] <= due <= times[-1] and times[0] <= unmarked_due
    assert not alone or unmarked_due <= alone[0]


class Counting(MemoryBackend):
    """Counts the bytes of the last checkpoint."""

    size = 0

    def prepare(self, txid: int, changes: Changes) -> None:
        self.size = sum(len(key) + len(value or b"") for key, value in changes.items())
        super().prepare(txid, changes)


def checkpoint_bytes(values: int) -> int:
    """Return the bytes of a checkpoint after one more value, for a key that has had ``values`` of 50 bytes before."""
    backend = Counting("test", Namespace())
    state: BufferedState[Any, Any] = BufferedState("test", backend)
    record = new_record()
    timeline = Timeline(record, state, "$t", "k")
    for txid, times in enumerate((range(values), range(values, values + 1)), 1):
        for time in times:
            timeline.add(1_700_000_000_000 + time, "v" * 50)
        state.put("k", record)
        state.prepare_commit(txid)
        state.commit(txid)
    return backend.size


def test_a_checkpoint_does_not_write_all_values_of_a_key_anew() -> None:
    few, many = checkpoint_bytes(MAX_CHUNK), checkpoint_bytes(100 * MAX_CHUNK)
    index = 100 * MAX_CHUNK // (MAX_CHUNK // 2) * 13
    assert many < few + index + 64 * MAX_CHUNK
