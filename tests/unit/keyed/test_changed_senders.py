"""The watermark of a task whose senders have another number of tasks than at the checkpoint."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tupletree.keyed.progress import PROGRESS, Progress
from tupletree.keyed.settings import KeyedSettings
from tupletree.state.buffered import BufferedState
from tupletree.state.memory import MemoryBackend, Namespace

SETTINGS = KeyedSettings(
    key=("user",),
    event_time="at",
    max_lag_ms=0,
    idle_timeout_ms=None,
    ttl_ms=None,
    late_stream=None,
    timer_interval_s=1.0,
)


def continued(state: BufferedState[object, object], tasks: int) -> Progress:
    progress = Progress(SETTINGS, {10 * tasks + index: ("log", index) for index in range(tasks)}, 0)
    progress.restore(state)
    return progress


def stored(newest: Sequence[int]) -> BufferedState[object, object]:
    """A state after each sender has brought a tuple of its time."""
    state: BufferedState[object, object] = BufferedState("sessions", MemoryBackend("sessions", Namespace()))
    progress = continued(state, 3)
    for index, at_ms in enumerate(newest):
        progress.watermark.came(30 + index, at_ms)
    progress.save(state)
    return state


@pytest.mark.parametrize("tasks", [2, 4])
def test_a_partition_that_another_task_reads_on_is_not_late(tasks: int) -> None:
    watermark = continued(stored([100, 50, 60]), tasks).watermark
    assert watermark.value == 50
    watermark.came(10 * tasks + 1, 101)  # what the first task had read until now
    assert watermark.value == 50
    watermark.came(10 * tasks, 51)
    assert watermark.value == (51 if tasks == 2 else 50)


def test_a_sender_that_had_brought_nothing_holds_the_watermark_back_as_before() -> None:
    watermark = continued(stored([100, 50]), 2).watermark
    watermark.came(21, 101)
    assert watermark.newest == {21: 101}


def test_the_same_number_of_senders_goes_on_where_each_was() -> None:
    state = stored([100, 50, 60])
    assert continued(state, 3).watermark.newest == {30: 100, 31: 50, 32: 60}
    progress = state.get(PROGRESS)
    assert isinstance(progress, dict) and progress.pop("senders") == [["log", 3]]
    state.put(PROGRESS, progress)
    assert continued(state, 2).watermark.newest == {20: 100, 21: 50}, "a state of an earlier version"
