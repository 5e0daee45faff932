"""Hooks of workers in a LocalCluster: started before the components, shut down after them."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from local_components import Log

from tupletree import BasicBolt, TopologyBuilder
from tupletree.errors import ConfigError, TopologyError
from tupletree.hooks import WorkerHook
from tupletree.testing import FeederSpout, LocalCluster, complete_topology

EVENTS = Log()


class Notes(WorkerHook):
    def __init__(self, name: str = "named", log: Any = EVENTS, fails: str = "") -> None:
        self.name = name
        self.log = log
        self.fails = fails

    def start(self, conf: Any, context: Any) -> None:
        if self.fails == "start":
            raise ValueError("no tracing here")
        pool = context.shared("pool", lambda: self.log.append("pool") or "pool", lambda _: self.log.append("close"))
        self.log.append(
            (self.name, "start", conf["topology.message.timeout.secs"], pool, context.topology_id,
             dict(context.components), list(context.local_tasks))
        )  # fmt: skip

    def shutdown(self) -> None:
        self.log.append((self.name, "shutdown"))
        if self.fails == "shutdown":
            raise ValueError("still busy")


class Upper(BasicBolt):
    def __init__(self, log: Any) -> None:
        self.log = log

    def setup(self) -> None:
        self.log.append("setup")

    def teardown(self) -> None:
        self.log.append("teardown")

    def execute(self, tup: Any, collector: Any) -> None:
        pass


@pytest.fixture(autouse=True)
def _events() -> Any:
    EVENTS.clear()
    yield
    EVENTS.clear()


def builder_of(feed: FeederSpout, *hooks: WorkerHook) -> TopologyBuilder:
    builder = TopologyBuilder()
    builder.set_bolt("upper", Upper(EVENTS)).shuffle_grouping(builder.set_spout("words", feed))
    for hook in hooks:
        builder.add_worker_hook(hook)
    return builder


def test_hooks_start_before_components_and_shut_down_after_them_the_last_first() -> None:
    feed = FeederSpout(["word"])
    builder = builder_of(feed, Notes("first", fails="shutdown"), Notes("second"))
    with LocalCluster() as cluster:
        conf = {"topology.worker.hooks": [f"{__name__}:Notes"], "topology.message.timeout.secs": 7}
        cluster.submit("t", builder.create_topology(), conf)
        feed.feed(["a"], 1)
        cluster.wait_until(lambda: feed.acked == [1])
    seen = ("start", 7, "pool", "t", {"upper": range(1, 2), "words": range(2, 3)}, [1, 2])
    started = [(name, *seen) for name in ("first", "second", "named")]
    ended = [(name, "shutdown") for name in ("named", "second", "first")]
    found = [
        (*entry[:5], {name: range(tasks[0], tasks[-1] + 1) for name, tasks in entry[5].items()}, entry[6])
        if isinstance(entry, tuple) and entry[1] == "start"
        else entry
        for entry in EVENTS
    ]
    assert found == ["pool", *started, "setup", "teardown", "close", *ended]


def test_a_hook_that_does_not_start_ends_what_was_started_and_the_submission() -> None:
    builder = builder_of(FeederSpout(["word"]), Notes("first"), Notes(fails="start"))
    with LocalCluster() as cluster:
        with pytest.raises(TopologyError, match=r"worker hook Notes cannot start: ValueError: no tracing here"):
            cluster.submit("t", builder.create_topology())
        assert EVENTS[-2:] == ["close", ("first", "shutdown")]
        assert "setup" not in EVENTS
        cluster.submit("t", builder_of(FeederSpout(["word"])).create_topology())


def test_what_is_no_hook_is_refused() -> None:
    builder = TopologyBuilder()
    with pytest.raises(TopologyError, match=r"add_worker_hook takes an object of a class that extends WorkerHook"):
        builder.add_worker_hook(Upper)  # type: ignore[arg-type]
    hook = Notes()
    hook.log = threading.Lock()
    with pytest.raises(TopologyError, match=r"worker hook Notes cannot be copied to the workers: .*in start"):
        builder.add_worker_hook(hook)


@pytest.mark.parametrize("key", ["topology.worker.hooks", "topology.auto.task.hooks", "topology.event.logger.register"])
@pytest.mark.parametrize("value", [["tracing"], ["a.b.C"], [], [1], "a:b:c"])
def test_names_of_classes_have_a_module(key: str, value: Any) -> None:
    topology = builder_of(FeederSpout(["word"])).create_topology()
    with pytest.raises(ConfigError, match=r"takes a list of classes such as orders\.hooks:Timing"):
        complete_topology(topology, {"words": [["a"]]}, {key: value})


def test_a_class_of_the_configuration_that_is_none_is_named() -> None:
    topology = builder_of(FeederSpout(["word"])).create_topology()
    with pytest.raises(TopologyError, match=r"is not a class that extends tupletree\.hooks\.WorkerHook"):
        complete_topology(topology, {"words": [["a"]]}, {"topology.worker.hooks": [f"{__name__}:Upper"]})
    with pytest.raises(TopologyError, match=r"is not a class that extends tupletree\.hooks\.EventLogger"):
        complete_topology(topology, {"words": [["a"]]}, {"topology.event.logger.register": [f"{__name__}:Notes"]})
    assert topology.replacing({}).worker_hooks == ()
