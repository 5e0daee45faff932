"""The message ids of tuples that are sampled in a spout: of each kind of emit, and beside hooks and traces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hand_driven import HandDriven

from tupletree import Backoff, Bolt, Spout, TopologyBuilder
from tupletree.hooks import SampledTuple, TaskHook
from tupletree.worker.core.bolt_task import BoltTask
from tupletree.worker.core.spout_task import SpoutTask
from tupletree.worker.debugging.event_log import EventLog
from tupletree.worker.debugging.sampling import Sampler
from tupletree.worker.debugging.settings import Switches
from tupletree.worker.debugging.tracing import Tracer, follow_collector
from tupletree.worker.hooks.event_loggers import EventLoggers

STEPS: list[Callable[[Any], object]] = []
HOOKED: list[Any] = []


@pytest.fixture(autouse=True)
def _nothing_left() -> Any:
    yield
    STEPS.clear()
    HOOKED.clear()


class Script(Spout):
    """Does the next of ``STEPS`` with its collector."""

    def declare_output_fields(self, declarer: Any) -> None:
        declarer.declare(["number"])
        declarer.declare_stream("direct", ["number"], direct=True)

    def next_tuple(self) -> None:
        if STEPS:
            STEPS.pop(0)(self)

    def ack(self, msg_id: Any) -> None:
        """Nothing is to be done."""

    def fail(self, msg_id: Any) -> None:
        """Nothing is to be done."""


class Forward(Bolt):
    outputs = ("number",)

    def execute(self, tup: Any) -> None:
        self.collector.emit([tup["number"]], tup)
        self.collector.ack(tup)


class Sink(Bolt):
    def execute(self, tup: Any) -> None:
        self.collector.ack(tup)


class Begins(TaskHook):
    def spout_ack(self, info: Any) -> None:
        HOOKED.append(info.message_id)

    def bolt_ack(self, info: Any) -> None:
        HOOKED.append(info.tuple["number"])


class Scene:
    """A topology that is stepped by hand and sampled as a whole; ``told``: the values and message ids of samples."""

    def __init__(
        self, conf: dict[str, Any] | None = None, is_tracked: bool = True, retry: Backoff | None = None
    ) -> None:
        builder = TopologyBuilder()
        numbers = builder.set_spout("numbers", Script())
        if retry is not None:
            numbers.set_retry(retry)
        builder.set_bolt("forward", Forward(), 2).shuffle_grouping(numbers)
        builder.set_bolt("sink", Sink()).all_grouping("forward").direct_grouping("numbers", "direct")
        self.hand = HandDriven(builder.create_topology(), conf, is_tracked=is_tracked)
        self.tasks = [task for executor in self.hand.executors for task in executor.tasks]
        self.sampled: list[SampledTuple] = []
        self.sampler = Sampler(self.tasks, EventLog(None, "worker", 1, 1), self.sampled.append)
        self.hand.step("numbers")  # opens the task

    @property
    def spout(self) -> SpoutTask:
        [task] = [task for task in self.tasks if isinstance(task, SpoutTask)]
        return task

    def sample(self, percent: float) -> None:
        self.sampler.apply(Switches(shares={"": percent / 100} if percent else {}))

    def run(self, *steps: Callable[[Any], object]) -> list[tuple[int, Any]]:
        STEPS.extend(steps)
        for _ in range(len(steps) + 2):
            self.hand.step("numbers")
        told = [(one.values[0], one.message_id) for one in self.sampled if one.component_id == "numbers"]
        self.sampled.clear()
        return told


def emit(number: int, msg_id: Any = None) -> Callable[[Any], object]:
    return lambda spout: spout.collector.emit([number], msg_id)


@pytest.mark.parametrize("is_tracked", [True, False])
def test_each_emit_has_its_own_message_or_none(is_tracked: bool) -> None:
    scene = Scene(is_tracked=is_tracked)
    scene.sample(100)

    def several(spout: Any) -> None:
        spout.collector.emit([1], "one")
        spout.collector.emit([2])
        spout.collector.emit([3], "three")
        spout.collector.emit([4])

    assert scene.run(several) == [(1, "one"), (2, None), (3, "three"), (4, None)]
    assert scene.run(emit(5)) == [(5, None)], "it does not wait for another emit"
    assert scene.run(emit(6, ["no hash"]), emit(7, 0)) == [(6, ["no hash"]), (7, 0)]


def test_other_kinds_of_emits_have_their_message() -> None:
    scene = Scene()
    scene.sample(100)
    sink = scene.hand.tasks["sink"][0]
    assert scene.run(
        lambda spout: spout.collector.emit_many([[1], [2]], ["one", "two"]),
        lambda spout: spout.collector.emit_tree([("default", [3]), ("default", [4])], msg_id="tree"),
        lambda spout: spout.collector.emit_direct(sink, [5], "direct", "direct"),
        lambda spout: spout.collector.emit_many([[6], [7]]),
    ) == [(1, "one"), (2, "two"), (3, "tree"), (4, "tree"), (5, "direct"), (6, None), (7, None)]


def test_a_spout_with_retries_shows_the_message_s_own_id() -> None:
    scene = Scene(retry=Backoff(max_attempts=2))
    scene.sample(100)
    assert scene.run(emit(1, "one")) == [(1, "one")]


def test_a_bolt_s_tuples_have_no_message() -> None:
    scene = Scene()
    scene.sample(100)
    STEPS.append(emit(1, "one"))
    scene.hand.step("numbers")
    for index in (0, 1):
        scene.hand.step("forward", index)
    assert [(one.component_id, one.message_id) for one in scene.sampled] == [("numbers", "one"), ("forward", None)]


def test_the_task_is_as_before_when_sampling_ends_and_without_loggers() -> None:
    scene = Scene()
    before: Any = scene.spout.collector._task
    scene.sample(100)
    assert scene.spout.collector._task is not before
    scene.sample(50)
    scene.sample(0)
    assert scene.spout.collector._task is before
    assert scene.run(emit(1, "one")) == []

    without = Sampler(scene.tasks, EventLog(None, "worker", 1, 1))
    without.apply(Switches(shares={"": 1.0}))
    assert scene.spout.collector._task is before
    loggers = EventLoggers([], None, lambda *_: None)  # type: ignore[arg-type]
    assert loggers.receiver is None


@pytest.mark.parametrize("order", ["sample first", "trace first"])
def test_hooks_traces_and_samples_come_and_go_in_any_order(order: str) -> None:
    scene = Scene({"topology.auto.task.hooks": ["test_sampled_messages:Begins"]})
    before: Any = scene.spout.collector._task

    def trace(is_on: bool) -> None:
        tracer = Tracer(1, EventLog(None, "worker", 1, 1)) if is_on else None
        for task in scene.tasks:
            if isinstance(task, SpoutTask | BoltTask):
                follow_collector(task, tracer)

    changes = [lambda: scene.sample(100), lambda: trace(True)]
    for change in changes if order == "sample first" else reversed(changes):
        change()
    assert scene.run(emit(1, "one")) == [(1, "one")]
    trace(False)
    assert scene.run(emit(2, "two")) == [(2, "two")]
    trace(True)
    scene.sample(0)
    assert scene.run(emit(3, "three")) == []
    trace(False)
    assert scene.spout.collector._task is before and before.inner is scene.spout
    assert len(scene.spout.pending) == 3
    scene.spout.on_acked(list(scene.spout.pending))
    assert sorted(HOOKED) == ["one", "three", "two"]
