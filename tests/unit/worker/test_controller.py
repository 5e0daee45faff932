"""What a worker does while operators look inside: switches that end, sampled tuples, followed trees, events on disk."""

from __future__ import annotations

import json
import logging
import random
import tracemalloc
from array import array
from pathlib import Path
from typing import Any

import pytest

from tupletree import BasicBolt, Bolt, Spout, TopologyBuilder
from tupletree._wire.events import MAX_VALUE_LENGTH, decode_event
from tupletree.cli.tracing import join
from tupletree.testing import LocalCluster, wait_until
from tupletree.tuples import Origin
from tupletree.v1 import topology_pb2 as pb
from tupletree.worker.core.output_streams import OutStream
from tupletree.worker.core.routing import Fixed, Watched
from tupletree.worker.core.trace_filter import Followed
from tupletree.worker.debugging.event_log import EventLog
from tupletree.worker.debugging.log_levels import LogLevels
from tupletree.worker.debugging.sampling import MAX_PER_SECOND, Lens, RateLimit, Sampler, shown
from tupletree.worker.debugging.settings import DebugSettings, Switches
from tupletree.worker.debugging.tracing import Tracer, follow_collector
from tupletree.worker.engine import Engine

NOW = 1_700_000_000.0


class Kept(EventLog):
    """Events that are kept in memory."""

    def __init__(self) -> None:
        super().__init__(None, "here:1", 1000, 1)
        self.events: list[dict[str, Any]] = []
        self.count = 0

    def put(self, event: dict[str, Any]) -> None:
        self.events.append(event)

    def left_out(self, count: int) -> None:
        self.count += count


def test_switches_hold_until_their_end() -> None:
    record = pb.TopologyRecord(
        log_levels={"a": pb.LogLevel(level="DEBUG", until_unix_s=NOW + 10)},
        sampled_percent={"split": 50, "": 1},
        sampled_until_unix_s={"split": NOW + 20},
        traced_one_in=7,
        traced_until_unix_s=NOW + 30,
    )
    observed = DebugSettings.of(record)
    assert observed.at(NOW) == Switches({"a": "DEBUG"}, {"split": 0.5, "": 0.01}, 7)
    ends = []
    at: float | None = NOW
    while (at := observed.next_end(at)) is not None:
        ends.append(at - NOW)
    assert ends == [10, 20, 30]
    assert observed.at(NOW + 20) == Switches({}, {"": 0.01}, 7)
    assert observed.at(NOW + 20).share_of("split") == 0.01
    assert observed.at(NOW + 30).one_in == 0
    assert not DebugSettings().at(NOW).wants_events


def test_loggers_get_back_what_they_had() -> None:
    logger = logging.getLogger("test.loggers.of.mine")
    logger.setLevel(logging.ERROR)
    loggers = LogLevels()
    for levels in ({logger.name: "DEBUG"}, {logger.name: "OFF"}):
        loggers.apply(levels)
        loggers.apply(levels)
    assert logger.level > logging.CRITICAL
    loggers.apply({})
    assert logger.level == logging.ERROR


# Events


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_events_are_written_rotated_and_found_after_closing(tmp_path: Path) -> None:
    events = EventLog(str(tmp_path), "here:1", 1500, 3)
    events.open()
    for number in range(40):
        events.put({"at": NOW, "kind": "ack", "root": f"{number:016x}", "task": number})
    events.close()
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == ["events.jsonl", "events.jsonl.1", "events.jsonl.2"]
    found = [event for file in reversed(files) for event in read(file)]
    assert [event["task"] for event in found] == list(range(40))
    assert {event["worker"] for event in found} == {"here:1"}
    events.open()
    events.put({"at": NOW, "kind": "ack"})
    events.close()
    assert decode_event((tmp_path / "events.jsonl").read_text().splitlines()[-1]) == {
        "at": NOW,
        "kind": "ack",
        "worker": "here:1",
    }


def test_what_is_too_much_is_left_out_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tupletree.worker.debugging.event_log.MAX_WAITING", 10)
    events = EventLog(str(tmp_path), "here:1", 10**6, 1)
    for number in range(25):
        events.put({"at": NOW, "kind": "ack", "task": number})
    events.open()
    wait_until(lambda: (tmp_path / "events.jsonl").exists() and len(read(tmp_path / "events.jsonl")) == 11, 10)
    events.close()
    assert read(tmp_path / "events.jsonl")[-1]["count"] == 15


def test_a_worker_without_a_directory_writes_nothing() -> None:
    events = EventLog(None, "here:1", 1000, 1)
    events.open()
    events.put({"at": NOW, "kind": "ack"})
    events.close()


@pytest.mark.parametrize(
    "line",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"kind": "ack"}',
        '{"kind": "ack", "at": NaN}',
        '{"kind": ["ack"], "at": 1}',
        '{"kind": "other", "at": 1}',
        '{"kind": "ack", "at": true}',
        "[" * 5000,
        '{"kind":"ack","at":1,"x":"' + "y" * 70000 + '"}',
    ],
    ids=range(11),
)
def test_lines_that_are_no_events(line: str) -> None:
    assert decode_event(line) is None


# Samples


class Awkward:
    def __repr__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("word", "'word'"),
        (7, "7"),
        (None, "None"),
        ("it's\n", '"it\'s\\n"'),
        ([1, 2], "[1, 2]"),
    ],
    ids=range(5),
)
def test_values_are_shown_as_they_are(value: Any, text: str) -> None:
    assert shown(value) == text


@pytest.mark.parametrize(
    "value",
    ["x" * 10**6, "\0" * (MAX_VALUE_LENGTH - 2), list(range(10**5)), {n: "y" * 1000 for n in range(1000)}, 10**3000],
    ids=range(5),
)
def test_large_values_are_cut(value: Any) -> None:
    assert len(shown(value)) <= MAX_VALUE_LENGTH


@pytest.mark.parametrize("kind", [bytes, bytearray])
def test_of_many_bytes_only_the_first_are_written_out(kind: type) -> None:
    value = kind(2**24)
    tracemalloc.start()
    try:
        assert len(shown(value)) <= MAX_VALUE_LENGTH and len(shown([value])) <= MAX_VALUE_LENGTH
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()
    assert shown(kind(b"ab")) == repr(kind(b"ab"))


def stream_to(task: int) -> OutStream:
    stream = OutStream(Origin("split", 5, "default", ["word"]), False, 10)
    stream.choose_one = Fixed(stream.port_to(task, "here", False))
    return stream


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5, 1.0])
def test_about_the_share_that_was_asked_for_is_sampled(share: float) -> None:
    events, ticks = Kept(), iter(range(10**9))
    stream = stream_to(3)
    lens = Lens(stream, share, RateLimit(events, lambda: next(ticks)), events, random.Random(7))
    assert stream.choose_one is not None
    chooser = Watched(stream.choose_one, lens.record_one, lens.draw())
    for _ in range(20_000):
        assert chooser.choose(["word"]) is stream.ports[3]
    expected = 20_000 * share
    assert abs(len(events.events) - expected) <= 5 * (expected * (1 - share)) ** 0.5
    event = events.events[0]
    assert (event["component"], event["task"], event["targets"], event["values"]) == ("split", 5, [3], ["'word'"])


def test_a_worker_writes_no_more_than_so_many_samples_a_second() -> None:
    events = Kept()
    now_s = [1.0]
    pace = RateLimit(events, lambda: now_s[0])
    assert sum(pace.allows() for _ in range(MAX_PER_SECOND + 100)) == MAX_PER_SECOND
    now_s[0] = 2.0
    assert pace.allows()
    assert events.count == 100


class FakeTask:
    """As much of a task as the sampler looks at."""

    component_id = "split"
    task_id = 5

    def __init__(self) -> None:
        self.streams = {"default": stream_to(3), "__ack": stream_to(4)}


def test_a_stream_is_what_it_was_when_sampling_ends() -> None:
    events = Kept()
    task = FakeTask()
    before = {name: (one.choose_one, one.choose_many, one.observe) for name, one in task.streams.items()}
    sampler = Sampler([task], events)  # type: ignore[list-item]
    sampler.apply(Switches(shares={"": 1.0}))
    assert isinstance(task.streams["default"].choose_one, Watched)
    assert not isinstance(task.streams["__ack"].choose_one, Watched), "streams of ours are not sampled"
    sampler.apply(Switches(shares={"split": 0.5}))
    sampler.apply(Switches(shares={"split": 0.0, "": 1.0}))
    assert {name: (one.choose_one, one.choose_many, one.observe) for name, one in task.streams.items()} == before


# Followed trees


@pytest.mark.parametrize("one_in", [1, 2, 3, 7, 64, 1000, 1001, 65_536, 2**31 - 1, 2**32 - 2])
def test_followed_are_the_trees_whose_root_is_a_multiple(one_in: int) -> None:
    rng = random.Random(one_in)
    multiples = [one_in * rng.randrange(1, 2**64 // one_in) for _ in range(200)]
    near = [root + step for root in multiples for step in (-1, 1) if root + step < 2**64]
    roots = [0, 1, 2**63, 2**64 - 1, one_in, *multiples, *near, *(rng.getrandbits(64) for _ in range(2000))]
    followed = Followed(one_in)
    expected = [root for root in roots if root and root % one_in == 0]
    assert [root for root in roots if followed.holds(root)] == expected
    assert followed.among(roots) == expected
    column = array("Q", roots)
    assert [column[row] for row in followed.rows(column, 0, len(column))] == expected
    assert followed.rows(column, 5, 105) == [row for row in followed.rows(column, 0, len(column)) if 5 <= row < 105]
    assert followed.rows(array("Q"), 0, 0) == []


def test_what_stands_between_a_collector_and_its_task_passes_on_what_it_does_not_see() -> None:
    builder = TopologyBuilder()
    builder.set_spout("lines", Lines())
    builder.set_bolt("hold", Hold()).shuffle_grouping("lines")
    events = Kept()
    with LocalCluster() as cluster:
        cluster.submit("words", builder.create_topology(), inactive=True)
        engine = cluster._find("words").engine
        tasks = [task for executor in engine.executors for task in executor.tasks]
        follow(engine, Tracer(2**31 - 1, events))  # practically none
        for task in tasks:
            between = task.collector._task  # type: ignore[attr-defined]
            assert between is not task
            assert (between.component_id, between.is_tracked) == (task.component_id, True)
            assert between.updates is task.updates and between.ack_updates is task.ack_updates
            with pytest.raises(AttributeError):
                _ = between.nothing_of_that_name
        cluster.activate("words")
        spout, hold = tasks
        wait_until(lambda: spout.counters.acked == 18, 30)  # and two are held for a third
        assert hold.counters.acked == 18
        assert events.events == []


# In a real engine


class Lines(Spout):
    outputs = ["line"]

    def open(self, conf: Any, context: Any, collector: Any) -> None:
        self.collector, self.left = collector, 20

    def next_tuple(self) -> None:
        if self.left:
            self.left -= 1
            self.collector.emit(["a b c"], msg_id=self.left)


class Split(BasicBolt):
    outputs = ["word"]

    def execute(self, tup: Any, collector: Any) -> None:
        for word in tup["line"].split():
            collector.emit([word])


class Hold(Bolt):
    """Emits for three tuples at once."""

    outputs = ["word"]

    def prepare(self, conf: Any, context: Any, collector: Any) -> None:
        self.collector, self.held = collector, []

    def execute(self, tup: Any) -> None:
        self.held.append(tup)
        if len(self.held) == 3:
            for one in self.held:
                self.collector.emit(one.values, anchors=one)
                self.collector.ack(one)
            self.held = []


class Sink(BasicBolt):
    def execute(self, tup: Any, collector: Any) -> None:
        pass


def follow(engine: Engine, tracer: Tracer | None) -> None:
    for executor in engine.executors:
        executor.tracer = tracer
        for task in executor.tasks:
            follow_collector(task, tracer)


def test_all_trees_of_a_local_topology_can_be_followed() -> None:
    builder = TopologyBuilder()
    builder.set_spout("lines", Lines())
    builder.set_bolt("split", Split()).shuffle_grouping("lines")
    builder.set_bolt("hold", Hold()).shuffle_grouping("split")
    builder.set_bolt("sink", Sink()).shuffle_grouping("hold")
    events = Kept()
    with LocalCluster() as cluster:
        cluster.submit("words", builder.create_topology(), inactive=True)
        engine = cluster._find("words").engine
        follow(engine, Tracer(1, events))
        cluster.activate("words")
        wait_until(lambda: sum(event["kind"] == "verdict" for event in events.events) == 20, 30)
        follow(engine, None)
        assert all(task.collector._task is task for executor in engine.executors for task in executor.tasks)  # type: ignore[attr-defined]
    trees = join({"worker": "here:1", **event} for event in events.events)
    assert len(trees) == 20
    for tree in trees:
        assert tree.is_whole
        assert tree.verdict == "acked"
        [split] = tree.hops
        assert [hop.component for hop in split.children] == ["hold"] * 3
        assert sorted(hop.component for one in split.children for hop in one.children) == ["sink"] * 3
        assert all(hop.outcome == "acked" for hop in tree.all_hops())
