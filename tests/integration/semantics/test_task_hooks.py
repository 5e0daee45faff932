"""Hooks of tasks: each event with each kind of component, errors in hooks, and copies of components after rollbacks."""

from __future__ import annotations

from typing import Any

import pytest
from hook_scene import EVENTS, Basic, Explicit, Gathering, Notes, Sink, Stateful, Whole, Yielding, of, plain, topology
from local_components import Log
from stateful_scene import ALIGNED

from tupletree import (
    Backoff,
    BasicBolt,
    Spout,
    TopologyBuilder,
)
from tupletree.errors import TaskFailedError, TopologyError, UsageError
from tupletree.hooks import TaskHook
from tupletree.testing import FeederSpout, LocalCluster, complete_topology, run_bolt
from tupletree.worker.debugging.event_log import EventLog
from tupletree.worker.debugging.sampling import Sampler
from tupletree.worker.debugging.settings import Switches
from tupletree.worker.debugging.tracing import Tracer, follow_collector


@pytest.fixture(autouse=True)
def _events() -> Any:
    EVENTS.clear()
    yield
    EVENTS.clear()


@pytest.mark.parametrize("kind", [Basic, Yielding, Explicit, Whole, Gathering])
def test_a_hook_of_the_configuration_sees_each_tuple_of_a_bolt(kind: Any) -> None:
    feed = FeederSpout(["word"])
    with LocalCluster() as cluster:
        cluster.submit("t", topology(kind(), feed))
        feed.feed(["a"], 1)
        cluster.wait_until(lambda: feed.acked == [1])
        feed.feed(["bad"], 2)
        cluster.wait_until(lambda: feed.failed == [2])
    emits = [("emit", "default", ["A"], 2)]
    if kind is not Basic:
        emits.append(("emit", "default", ["BAD"], 2))
    assert of(EVENTS, "upper", "emit") == emits
    assert of(EVENTS, "upper", "execute") == [("execute", "a"), ("execute", "bad")]
    assert of(EVENTS, "upper", "ack", "fail") == [("ack", "a", True), ("fail", "bad", True)]
    assert (of(EVENTS, "upper")[0], of(EVENTS, "upper")[-1]) == (("prepare",), ("cleanup",))
    assert {entry[0] for entry in EVENTS} == {"upper"}


def test_hooks_of_the_whole_topology_are_of_each_task_and_see_no_streams_of_the_system() -> None:
    feed = FeederSpout(["word"])
    builder = TopologyBuilder()
    words = builder.set_spout("words", feed)
    builder.set_bolt("counts", Stateful(), 2).fields_grouping(words, "word")
    with LocalCluster() as cluster:
        conf = {**ALIGNED, "topology.auto.task.hooks": ["hook_scene:Notes"], "topology.tick.tuple.freq.secs": 0.05}
        cluster.submit("t", builder.create_topology(), conf)
        feed.feed(["a"], 1)
        cluster.wait_until(lambda: feed.acked == [1])
    assert of(EVENTS, "words", "emit") == [("emit", "default", ["a"], 1)]
    assert of(EVENTS, "words", "spout_ack") == [("spout_ack", 1, True)]
    assert of(EVENTS, "counts", "prepare", "cleanup") == [("prepare",)] * 2 + [("cleanup",)] * 2
    assert of(EVENTS, "counts", "execute") == [("execute", "a")]
    assert {entry[0] for entry in EVENTS} == {"words", "counts"}


class Adds(Spout):
    """A spout with a hook of its own, which emits to one task directly, several at a time, and a tree."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.outcomes = Log()

    def declare_output_fields(self, declarer: Any) -> None:
        declarer.declare(["number"])
        declarer.declare_stream("direct", ["number"], direct=True)

    def setup(self) -> None:
        self.context.add_task_hook(Notes(self.log))
        self.left = 1

    def next_tuple(self) -> None:
        if self.left:
            self.left = 0
            self.collector.emit_many([[0], [1]], [0, 1])
            self.collector.emit_tree([("default", [2]), ("default", [3])], msg_id=["no hash"])
            self.collector.emit_direct(self.context.component_tasks("sink")[1], [4], 4, "direct")
            self.collector.emit([5])

    def ack(self, msg_id: Any) -> None:
        self.outcomes.append(msg_id)


def test_a_hook_that_a_spout_adds_sees_emits_of_all_kinds_and_acks() -> None:
    log = Log()
    spout = Adds(log)
    builder = TopologyBuilder()
    numbers = builder.set_spout("numbers", spout)
    sink = builder.set_bolt("sink", Sink(), 2).shuffle_grouping(numbers)
    sink.direct_grouping("numbers", "direct")
    with LocalCluster() as cluster:
        cluster.submit("t", builder.create_topology())
        cluster.wait_until(lambda: len(spout.outcomes) == 4)
        cluster.wait_quiet()
    emits = of(log, "numbers", "emit")
    assert [(stream, values) for _, stream, values, _ in emits] == [
        *(("default", [number]) for number in range(4)),
        ("direct", [4]),
        ("default", [5]),
    ]
    assert {count for *_, count in emits} == {1}
    acks = sorted(of(log, "numbers", "spout_ack"), key=repr)
    assert acks == [
        ("spout_ack", 0, True),
        ("spout_ack", 1, True),
        ("spout_ack", 4, True),
        ("spout_ack", ["no hash"], False),
    ]


def test_a_spout_with_retries_shows_each_failed_attempt_and_the_message_s_own_id() -> None:
    log = Log()

    class Once(Spout):
        outputs = ("word",)

        def setup(self) -> None:
            self.context.add_task_hook(Notes(log))
            self.left = ["bad"]

        def next_tuple(self) -> None:
            if self.left:
                self.collector.emit([self.left.pop()], msg_id="m1")

    builder = TopologyBuilder()
    words = builder.set_spout("words", Once())
    words.set_retry(Backoff(first_s=0.01, max_attempts=2))
    builder.set_bolt("upper", Basic()).shuffle_grouping("words")
    with LocalCluster() as cluster:
        cluster.submit("t", builder.create_topology())
        cluster.wait_until(lambda: len(of(log, "words", "spout_fail")) == 2)
        cluster.wait_quiet()
        assert of(log, "words", "spout_fail") == [("spout_fail", "m1", True)] * 2
        assert of(log, "words", "spout_ack") == []


class Raising(TaskHook):
    def prepare(self, conf: Any, context: Any) -> None:
        raise ValueError("prepare")

    def emit(self, info: Any) -> None:
        raise ValueError("emit")

    def bolt_execute(self, info: Any) -> None:
        raise ValueError("execute")

    def bolt_ack(self, info: Any) -> None:
        raise ValueError("ack")


def test_an_exception_in_a_hook_is_an_error_of_the_component_and_the_tuple_goes_on() -> None:
    class Adding(Basic):
        def setup(self) -> None:
            self.context.add_task_hook(Raising())

    feed, log = FeederSpout(["word"]), Log()

    class Collecting(BasicBolt):
        def execute(self, tup: Any, collector: Any) -> None:
            log.append(tup[0])

    builder = TopologyBuilder()
    words = builder.set_spout("words", feed)
    upper = builder.set_bolt("upper", Adding()).shuffle_grouping(words)
    builder.set_bolt("log", Collecting()).shuffle_grouping(upper)
    with LocalCluster() as cluster:
        cluster.submit("t", builder.create_topology())
        feed.feed(["a"], 1)
        cluster.wait_until(lambda: feed.acked == [1])
        errors = [(component, str(error)) for component, error in cluster.errors("t")]
    assert log == ["A"]
    assert errors == [("upper", what) for what in ("prepare", "emit", "ack", "execute")]


def test_after_a_rollback_a_new_copy_adds_its_hook_and_hooks_of_the_configuration_stay() -> None:
    log, feed = Log(), FeederSpout(["word"])

    class Counts(Stateful):
        def setup(self) -> None:
            self.context.add_task_hook(Notes(log))

    with LocalCluster() as cluster:
        cluster.submit("t", topology(Counts(), feed), ALIGNED)
        feed.feed(["a"], 1)
        cluster.wait_until(lambda: feed.acked == [1])
        feed.feed(["bad"], 2)
        cluster.wait_until(lambda: feed.failed == [2])
        feed.feed(["b"], 3)
        cluster.wait_until(lambda: feed.acked == [1, 3])
    for name, seen in (("own", log), ("named", EVENTS)):
        assert of(seen, "upper", "ack", "fail") == [("ack", "a", True), ("fail", "bad", True), ("ack", "b", True)], name
        assert [values for _, _, values, _ in of(seen, "upper", "emit")] == [["A"], ["B"]], name
    assert of(EVENTS, "upper", "prepare", "cleanup") == [("prepare",), ("cleanup",)]
    assert of(log, "upper", "prepare", "cleanup") == [("prepare",), ("cleanup",)] * 2


def test_what_is_no_hook_is_refused() -> None:
    class Wrong(Basic):
        def setup(self) -> None:
            self.context.add_task_hook(self)  # type: ignore[arg-type]

    feed = FeederSpout(["word"])
    with pytest.raises(
        TaskFailedError, match=r"add_task_hook takes an object of a class that extends TaskHook"
    ) as info:
        complete_topology(topology(Wrong(), feed), {"words": [["a"]]})
    assert isinstance(info.value.__cause__, UsageError)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (
            "no_such_module:Hook",
            r"topology\.auto\.task\.hooks: 'no_such_module:Hook' cannot be imported: ModuleNotFound",
        ),
        (f"{__name__}:NoHook", r"cannot be imported: AttributeError"),
        ("hook_scene:Basic", r"is not a class that extends tupletree\.hooks\.TaskHook"),
        (f"{__name__}:Needy", r"cannot be created without arguments: TypeError"),
    ],
)
def test_a_class_of_the_configuration_that_is_none_is_named(name: str, sentence: str) -> None:
    with pytest.raises(TopologyError, match=sentence):
        complete_topology(plain(), {"words": [["a"]]}, {"topology.auto.task.hooks": [name]})


class Needy(TaskHook):
    def __init__(self, what: str) -> None:
        pass


def test_a_bolt_run_alone_ignores_its_hook() -> None:
    log = Log()

    class Adding(Basic):
        def setup(self) -> None:
            self.context.add_task_hook(Notes(log))

    assert run_bolt(Adding(), [{"word": "a"}]).rows() == [["A"]]
    assert log == []


def test_samples_and_traces_come_and_go_around_hooks() -> None:
    """A spout that opens while its stream is sampled adds its hook above the sampler, and keeps it afterwards."""
    log, feed = Log(), FeederSpout(["word"])

    class Adding(Explicit):
        def setup(self) -> None:
            self.context.add_task_hook(Notes(log))

    with LocalCluster() as cluster:
        cluster.submit("t", topology(Adding(), feed), {"topology.auto.task.hooks": ["hook_scene:Notes"]}, inactive=True)
        tasks = cluster._find("t").tasks
        cluster.wait_until(lambda: ("upper", "prepare") in log)
        events = EventLog(None, "w", 1000, 1)
        sampler, tracer = Sampler(tasks, events), Tracer(1, events)
        sampler.apply(Switches(shares={"": 1.0}))
        for task in tasks:
            follow_collector(task, tracer)
        cluster.activate("t")
        feed.feed(["a"], 1)
        cluster.wait_until(lambda: feed.acked == [1])
        sampled = events._queue._waiting.qsize()
        assert sampled >= 3  # two tuples, and the tree of the first
        sampler.apply(Switches())
        for task in tasks:
            follow_collector(task, None)
        feed.feed(["b"], 2)
        cluster.wait_until(lambda: feed.acked == [1, 2])
        assert events._queue._waiting.qsize() == sampled
    both = [("emit", "default", ["a"], 1), ("emit", "default", ["b"], 1)]
    assert of(EVENTS, "words", "emit") == both
    assert of(EVENTS, "words", "spout_ack") == [("spout_ack", 1, True), ("spout_ack", 2, True)]
    assert [values for _, _, values, _ in of(log, "upper", "emit")] == [["A"], ["B"]]
    assert of(log, "upper", "ack") == [("ack", "a", True), ("ack", "b", True)]


def test_a_hook_of_a_spout_that_never_opened_is_neither_prepared_nor_cleaned_up() -> None:
    with LocalCluster() as cluster:
        cluster.submit("t", plain(), {"topology.auto.task.hooks": ["hook_scene:Notes"]}, inactive=True)
        cluster.wait_until(lambda: ("upper", "prepare") in EVENTS)
        local = cluster._find("t")
        cluster.kill("t")
        assert local.errors == []
    assert list(EVENTS) == [("upper", "prepare"), ("upper", "cleanup")]
