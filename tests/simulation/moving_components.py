"""The components of the topology whose states move, in each version of their code.

    events (positioned spout over a log of partitions)
      --fields--> count      a stateful bolt: the ids of the events of each key
      --fields--> timers     a KeyedProcess: the ids of each key and bucket, emitted by a timer; counts the clock's
      --fields--> tumbling   a KeyedWindow
      --fields--> sessions   a KeyedWindow
      --fields--> extra      as count; in some versions of the code alone
    timers, tumbling, sessions --fields--> results   a stateful bolt: the rows of each key and window
                               --global--> late      a stateful bolt, which stays empty

Values of ``count``, ``timers``, ``results`` and ``extra`` begin with the ``state_version`` that has stored them. A
value that another version has stored than its reader is told is marked, which the judge finds.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from moving_nouns import BUCKET_MS, EXTRA, GAP_MS, PARTITIONS, SIZE_MS, Code

from tupletree import KeyedProcess, KeyedWindow, Session, TopologyBuilder, Tumbling
from tupletree.component import BasicStatefulBolt, Spout, StatefulBolt
from tupletree.connectors.log_spout import LogSpout
from tupletree.keyed import KeyState, Timers, WindowBounds
from tupletree.topology import Topology
from tupletree.v1.topology_pb2 import TopologySpec

CLOCK = -1
"""The start of the rows that timers in processing time emit."""
CLOCK_MS = 300


class Events(Spout):
    """Reads the partitions whose number modulo the number of tasks is the task's index, in the order of their times.

    Positions are those of a LogSpout: ``-1 - p`` is a position that another task has reached.
    """

    outputs = ("key", "at", "id")
    worker: Any

    def open(self, conf: Any, context: Any, collector: Any) -> None:
        tasks = len(context.component_tasks(context.component_id))
        self.own = [one for one in range(PARTITIONS) if one % tasks == context.task_index]
        self.positions = dict.fromkeys(map(str, self.own), 0)

    def next_tuple(self) -> None:
        world = self.worker.world
        world.mishap("dies")
        following = [
            (world.log.partitions[one][at], one)
            for one in self.own
            if (at := self.positions[str(one)]) < len(world.log.partitions[one])
        ]
        if not following:
            return
        event, partition = min(following, key=lambda one: one[0].at)
        if world.is_there(event):
            self.positions[str(partition)] += 1
            self.collector.emit([event.key, event.at, event.id], event.id)

    def checkpoint_state(self) -> dict[str, int]:
        self.worker.world.mishap("raises")
        return dict(self.positions)

    def restore_state(self, state: Mapping[str, int]) -> None:
        begun = dict.fromkeys(map(str, self.own), 0)
        self.positions = {**begun, **state}
        for one in begun:
            self.positions[one] = max(self.positions[one], -1 - self.positions[one])

    def merge_states(self, states: Sequence[Mapping[str, int]]) -> dict[str, int]:
        return LogSpout.merge_states(self, states)  # type: ignore[arg-type]

    def fail(self, msg_id: Any) -> None:
        raise AssertionError("a positioned spout is not told of failures")


class Stored:
    """The values of a bolt: a list that begins with the ``state_version`` that has stored it."""

    state_version: int
    worker: Any

    def __init__(self, version: int = 1) -> None:
        self.state_version = version

    def migrate_value(self, key: Any, value: Any, version: int) -> Any:
        self.worker.world.counts["migrated"] += 1
        is_as_told = value[0] == version < self.state_version
        return [self.state_version, *value[1:], *([] if is_as_told else [f"{value[0]} migrated from {version}"])]

    def read(self, value: Any, *fresh: Any) -> Any:
        """A value, or a fresh one."""
        if value is None:
            return [self.state_version, *fresh]
        return value if value[0] == self.state_version else [*value, f"read by version {self.state_version}"]


class Count(Stored, StatefulBolt):
    is_divisible = True

    def execute(self, tup: Any) -> None:
        self.worker.world.mishap("fails", "dies")
        self.state.put(tup["key"], [*self.read(self.state.get(tup["key"], None)), tup["id"]])
        self.collector.ack(tup)

    def pre_prepare(self, txid: int) -> None:
        self.worker.world.mishap("raises", "dies")


class Results(Stored, StatefulBolt):
    is_divisible = True

    def execute(self, tup: Any) -> None:
        window = tup["window"], tup["start"]
        self.state.put(window, [*self.read(self.state.get(window, None)), tup["ids"]])
        self.collector.ack(tup)


class Buckets(Stored, KeyedProcess):
    key, event_time, late_stream = "key", "at", "late"
    max_lag = timedelta(0)
    outputs = ("window", "start", "ids")

    def on_tuple(self, tup: Any, state: KeyState[Any], timers: Timers) -> None:
        self.worker.world.mishap("dies")
        if state.value is None:
            timers.set_processing(timers.now + CLOCK_MS)
        version, buckets, fired, *marks = self.read(state.value, {}, 0)
        start = tup["at"] // BUCKET_MS * BUCKET_MS
        state.value = [version, {**buckets, start: [*buckets.get(start, ()), tup["id"]]}, fired, *marks]
        timers.set(start + BUCKET_MS)

    def on_timer(self, key: Any, time: int, state: KeyState[Any], timers: Timers) -> Iterator[list[Any]]:
        version, buckets, fired, *marks = self.read(state.value, {}, 0)
        if timers.is_processing:
            timers.set_processing(timers.now + CLOCK_MS)
            state.value = [version, buckets, fired + 1, *marks]
            yield [f"timers:{key}", CLOCK, [fired]]
            return
        start = time - BUCKET_MS
        state.value = [version, {one: ids for one, ids in buckets.items() if one != start}, fired, *marks]
        yield [f"timers:{key}", start, buckets.get(start, ["a timer without a bucket"])]


class Windows(KeyedWindow):
    key, event_time, late_stream = "key", "at", "late"
    max_lag = timedelta(0)
    outputs = ("window", "start", "ids")
    worker: Any

    def __init__(self, name: str, window: Any) -> None:
        self.name = name
        self.window = window

    def initial(self) -> list[str]:
        return []

    def add(self, value: list[str], tup: Any) -> list[str]:
        self.worker.world.mishap("dies")
        return [*value, tup["id"]]

    def merge(self, first: list[str], second: list[str]) -> list[str]:
        return first + second

    def on_window(self, key: Any, window: WindowBounds, value: list[str]) -> Iterator[list[Any]]:
        yield [f"{self.name}:{key}", window.start, value]


class Late(BasicStatefulBolt):
    def execute(self, tup: Any) -> None:
        self.state[tup["late_tuple"]["id"]] = True


class CannotStart(Count):
    def prepare(self, conf: Any, context: Any, collector: Any) -> None:
        raise LookupError("no such table")


def _bolt(name: str, version: int) -> Any:
    match name:
        case "timers":
            return Buckets(version)
        case "tumbling":
            return Windows(name, Tumbling(timedelta(milliseconds=SIZE_MS)))
        case "sessions":
            return Windows(name, Session(timedelta(milliseconds=GAP_MS)))
    return Count(version)


def topology_of(code: Code) -> Topology:
    """A version of the topology."""
    builder = TopologyBuilder()
    builder.set_spout("events", Events(), code.tasks["events"])
    timed = []
    for name, tasks in code.tasks.items():
        if name not in ("events", "results", EXTRA):
            bolt = builder.set_bolt(name, _bolt(name, code.versions.get(name, 1)), tasks)
            bolt.fields_grouping("events", "key")
            timed += [name] if name != "count" else []
    if timed:
        results = builder.set_bolt("results", Results(code.versions.get("results", 1)), code.tasks["results"])
        late = builder.set_bolt("late", Late())
        for name in timed:
            results.fields_grouping(name, ["window", "start"])
            late.global_grouping(name, "late")
    if code.has_extra or not code.starts:
        kind = Count if code.starts else CannotStart
        builder.set_bolt(EXTRA, kind(code.versions.get(EXTRA, 1)), code.tasks[EXTRA]).fields_grouping("events", "key")
    return builder.create_topology()


def spec_of(topology: Topology) -> TopologySpec:
    """The spec that workers build their tasks from. Its objects are pickled by reference."""
    spec = topology.outline()
    for component in spec.components:
        component.object = pickle.dumps(topology.components[component.id].component)
    return spec
