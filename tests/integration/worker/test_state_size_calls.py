"""Questions to a worker about the sizes of its states, over real gRPC: what is measured when, and what cannot be."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from test_state_reads import answered

from tupletree.state.sizes import SizePrecision, StateSize
from tupletree.v1 import worker_pb2
from tupletree.worker.checkpoint import state_sizes
from tupletree.worker.checkpoint.state_sizes import FRESH_S, PAUSES, SCRAPED_S, StateSizes


def measured(provider: str = "memory", **fields: Any) -> Any:
    request = worker_pb2.MeasureTaskStatesRequest(**{"topology_id": "words-1-1", **fields})
    return answered(lambda stub: stub.MeasureStates(request, timeout=30), provider)


def test_all_tasks_with_a_state_are_measured() -> None:
    reply = measured()
    assert [(one.component, one.index, one.provider, one.keys, one.failure) for one in reply.tasks] == [
        ("count", 0, "memory", 0, ""),
        ("count", 1, "memory", 0, ""),
    ]
    assert not reply.tasks[0].HasField("committed")
    assert reply.tasks[0].write_refusal == ""
    assert len(measured(component="count").tasks) == 2
    assert list(measured(component="words").tasks) == []


def test_a_worker_of_another_topology_refuses() -> None:
    code, sentence = measured(topology_id="other-1-1")
    assert (code, sentence) == ("NOT_FOUND", "this is a worker of topology words-1-1, not of 'other-1-1'")


def test_a_provider_that_raises_what_it_should_not_leaves_its_tasks_without_a_size() -> None:
    reply = measured("test_state_reads:OddProvider")
    assert [one.failure for one in reply.tasks] == ["the state provider raised ValueError: an odd shelf"] * 2


def test_what_is_not_measured_in_time_has_the_reason_and_comes_first_the_next_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(state_sizes, "MEASURE_S", -1.0)
    reply = measured()
    assert [one.failure for one in reply.tasks] == ["it was not its turn within -1 s; ask again"] * 2


class Scene:
    """Sizes of tasks that need no state: each measurement is one key more."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tasks: int) -> None:
        self.now_s = 0.0
        self.order: list[int] = []
        self.sizes = StateSizes("words-1-1", [], lambda: self.now_s)
        monkeypatch.setattr(self.sizes, "_states", {task: (task, None) for task in range(tasks)})
        monkeypatch.setattr(self.sizes, "_measure", self._measure)

    def _measure(self, task: int, state: None) -> state_sizes.Measured:
        self.order.append(task)
        self.now_s += 1
        return state_sizes.Measured(StateSize(len(self.order), 0, SizePrecision.EXACT), None, "", self.now_s)

    def run(self) -> None:
        async def run() -> None:
            await asyncio.wrap_future(self.sizes._begin())

        asyncio.run(run())

    def settle(self) -> None:
        """Wait for the measurement that is under way."""
        assert self.sizes._running is not None
        self.sizes._running.result(10)


def test_a_fresh_size_is_not_measured_again_and_the_oldest_is_first(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch, 3)
    scene.run()
    scene.run()
    assert scene.order == [0, 1, 2]
    scene.now_s = FRESH_S + 2
    scene.run()
    assert scene.order == [0, 1, 2, 0, 1], "the size of the third one is fresh"
    scene.now_s = 100
    scene.run()
    assert scene.order[5:] == [2, 0, 1]


def test_many_tasks_are_measured_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch, 12)
    scene.run()
    assert scene.order == [0, 1, 2, 3, 4], "one a second, until the time is up"
    scene.run()
    scene.run()
    assert scene.order == list(range(12)) + scene.order[12:]


def test_a_scrape_begins_the_measurement_that_the_next_one_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch, 1)
    assert scene.sizes.last() == []
    scene.run()
    assert len(scene.sizes.last()) == 1
    assert scene.order == [0]
    scene.now_s = SCRAPED_S + 10  # the measurement took a second
    scene.sizes.last()
    scene.settle()
    assert scene.order == [0], "scrapes cost the store a hundredth of the time at most"
    scene.now_s = PAUSES + 10
    scene.sizes.last()
    scene.settle()
    assert scene.order == [0, 0]
