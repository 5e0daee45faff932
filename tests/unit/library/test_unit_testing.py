"""make_tuple, Recorder and run_bolt: what a user's unit tests are made of."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tupletree import (
    AsyncBolt,
    BasicBolt,
    BasicStatefulBolt,
    BatchingBolt,
    Bolt,
    CombinerBolt,
    FailedException,
    TopologyBuilder,
    WindowedBolt,
)
from tupletree.component import BasicCollector, BoltCollector, SpoutCollector
from tupletree.errors import EmitError, TopologyError, UnregisteredTypeError, UsageError
from tupletree.testing import (
    FeederSpout,
    PendingTuplesError,
    Recorder,
    complete_topology,
    make_tick,
    make_tuple,
    run_bolt,
)


def test_a_tuple_is_one_as_bolts_get_it() -> None:
    tup = make_tuple({"word": "a", "count": 2}, component="split", task=4, stream="words")
    assert (tup["word"], tup[1], tup.values, tup.fields) == ("a", 2, ["a", 2], ("word", "count"))
    assert (tup.source_component, tup.source_task, tup.source_stream, tup.is_tick) == ("split", 4, "words", False)
    assert make_tuple(["a"], ["word"])["word"] == "a"
    assert make_tick(2).is_tick and make_tick(2)[0] == 2
    with pytest.raises(UsageError, match="make_tuple takes a dict, or a list of values and a list of fields"):
        make_tuple(["a"])
    with pytest.raises(UsageError, match="make_tuple got 1 values for 2 fields: a, b"):
        make_tuple([1], ["a", "b"])


@pytest.mark.parametrize(
    ("name", "real"),
    [("spout_collector", SpoutCollector), ("bolt_collector", BoltCollector), ("basic_collector", BasicCollector)],
)
def test_a_recording_collector_has_every_method_of_the_real_one(name: str, real: type) -> None:
    recording = type(getattr(Recorder(), name))
    for method, function in inspect.getmembers(real, inspect.isroutine):
        if not method.startswith("_"):
            assert getattr(recording, method) is not function, f"{method} would raise NotImplementedError"
            names = list(inspect.signature(getattr(recording, method)).parameters)
            assert names == list(inspect.signature(function).parameters), method


def test_a_message_of_several_tuples_is_recorded_whole_or_not_at_all() -> None:
    recorder = Recorder(streams={"words": ["word"], "lines": ["line"]})
    emit_tree = recorder.spout_collector.emit_tree
    assert emit_tree([("words", ["to"]), ("lines", ["to be"])], 1) == 2
    assert emit_tree([], 2) == 0
    assert emit_tree(iter([("words", ["be"])])) == 1
    with pytest.raises(EmitError, match="emitted 2 values on stream 'lines', which declares 1: line"):
        emit_tree([("words", ["or"]), ("lines", ["or", "not"])], 3)
    assert (recorder.rows("words"), recorder.rows("lines")) == ([["to"], ["be"]], [["to be"]])
    assert [one.msg_id for one in recorder.emitted] == [1, 1, None]
    assert (recorder.empty, recorder.spout_collector.pending) == ([2], 1)


def test_a_value_that_cannot_travel_is_refused_as_a_cluster_refuses_it() -> None:
    class Emits(BasicBolt):
        outputs = ("word", "lock")

        def execute(self, tup: Any, collector: Any) -> None:
            collector.emit([tup["word"], threading.Lock()])

    with pytest.raises(UnregisteredTypeError, match="'test' emitted a value of type lock in field 'lock'"):
        run_bolt(Emits(), [{"word": "a"}])


class Joined(Bolt):
    outputs = ("pair",)

    def setup(self) -> None:
        self.held: list[Any] = []

    def execute(self, tup: Any) -> None:
        self.held.append(tup)
        if len(self.held) == 2:
            self.collector.emit(["-".join(one["word"] for one in self.held)], self.held)
            self.collector.ack_many(self.held)


def test_a_bolt_that_acks_by_hand() -> None:
    recorder = run_bolt(Joined(), [{"word": word} for word in "abc"])
    [emitted] = recorder.emitted
    assert emitted.row == ["a-b"] and [tup["word"] for tup in emitted.anchors] == ["a", "b"]
    assert [tup["word"] for tup in recorder.acked] == ["a", "b"]


class Counts(BasicStatefulBolt):
    outputs = ("word", "count")
    default_factory = int

    def execute(self, tup: Any) -> Iterator[list[Any]]:
        if tup["word"] == "bad":
            raise FailedException("no")
        self.state[tup["word"]] += 1
        yield [tup["word"], self.state[tup["word"]]]

    def tick(self) -> Iterator[list[Any]]:
        yield ["keys", len(self.state)]


def test_a_bolt_that_acks_by_itself() -> None:
    recorder = run_bolt(Counts(), [{"word": "a"}, {"word": "bad"}, {"word": "a"}, make_tick()])
    assert recorder.rows() == [["a", 1], ["a", 2], ["keys", 1]]
    assert [len(one.anchors) for one in recorder.emitted] == [1, 1, 0]
    assert (len(recorder.acked), [tup["word"] for tup in recorder.failed]) == (2, ["bad"])


class Batches(BatchingBolt):
    outputs = ("size",)
    max_batch = 2

    def execute_batch(self, tuples: Any) -> Iterator[list[int]]:
        for tup in tuples:
            if tup["n"] == 1:
                self.collector.fail(tup)
        yield [len(tuples)]


def test_a_bolt_that_gathers() -> None:
    recorder = run_bolt(Batches(), [{"n": number} for number in range(3)])
    assert recorder.rows() == [[2], [1]] and [len(one.anchors) for one in recorder.emitted] == [2, 1]
    assert ([tup["n"] for tup in recorder.acked], [tup["n"] for tup in recorder.failed]) == ([0, 2], [1])


def test_a_tick_ends_a_batch_and_is_not_in_it() -> None:
    numbers = [make_tuple({"n": number}) for number in range(4)]
    assert run_bolt(Batches(), [numbers[0], make_tick(), make_tick(), *numbers[1:]]).rows() == [[1], [2], [1]]


def test_a_window_and_a_combiner() -> None:
    class Totals(WindowedBolt):
        outputs = ("total",)

        def execute_window(self, window: Any) -> None:
            self.collector.emit([sum(tup["n"] for tup in window)])

    class Words(CombinerBolt):
        outputs = ("word", "count")

        def key_values(self, tup: Any) -> Any:
            return [(tup["word"], 1)]

    totals = run_bolt(Totals().with_tumbling_window(2), [{"n": 1}, {"n": 2}, {"n": 3}])
    assert totals.rows() == [[3]] and len(totals.acked) == 2
    words = run_bolt(Words(), [{"word": "a"}, {"word": "a"}, make_tick()])
    assert words.rows() == [["a", 2]] and len(words.acked) == 2


def test_rows_are_checked_as_on_a_cluster() -> None:
    class Wrong(Bolt):
        outputs = ("a", "b")

        def __init__(self, row: Any, stream: str = "default") -> None:
            self.row, self.stream = row, stream

        def execute(self, tup: Any) -> None:
            self.collector.emit(self.row, tup, self.stream)

    for bolt, message in (
        (Wrong("ab"), "component 'test': a row is a list of values, not 'ab'"),
        (Wrong({"a": 1, "b": 2}), "component 'test': a row is a list of values, not {'a': 1, 'b': 2}; emit"),
        (Wrong([1]), "component 'test' emitted 1 values on stream 'default', which declares 2: a, b"),
        (Wrong([1, 2], "x"), r"component 'test' declares no stream 'x' \(declared: default\)"),
    ):
        with pytest.raises(EmitError, match=message):
            run_bolt(bolt, [{"n": 1}])
    assert run_bolt(Wrong(range(2)), [{"n": 1}]).rows() == [[0, 1]]


def test_methods_are_checked_as_on_a_cluster() -> None:
    def bolt(execute: Any) -> Any:
        return type("Wrong", (BasicBolt,), {"outputs": ("n",), "execute": execute})

    async def awaited(self: Any, tup: Any, collector: Any) -> None:
        pass

    for given, error, message in (
        (bolt(lambda self, tup, collector: [[1]])(), TopologyError, "returned a list; a returned value is ignored"),
        (bolt(awaited)(), TopologyError, "Wrong.execute is 'async def', and nothing awaits it"),
        (bolt(lambda self, tup: None)(), TopologyError, "Wrong.execute takes"),
        (bolt(awaited), UsageError, "run_bolt takes an object of a Bolt or BasicBolt, not <class"),
    ):
        with pytest.raises(error, match=message):
            run_bolt(given, [{"n": 1}])


def test_an_async_bolt_needs_a_loop() -> None:
    class Calls(AsyncBolt):
        async def execute(self, tup: Any) -> None:
            pass

    with pytest.raises(UsageError, match="Calls runs on an event loop: test it with complete_topology"):
        run_bolt(Calls(), [])


class Forgetful(Bolt):
    outputs = {"default": ["n"], "odd": ["n"]}

    def execute(self, tup: Any) -> None:
        self.collector.emit([tup["n"]], tup, "odd" if tup["n"] % 2 else "default")
        if tup["n"] == 7:
            self.collector.fail(tup)
        elif tup["n"] != 3:
            self.collector.ack(tup)


def topology(bolt: Bolt) -> Any:
    builder = TopologyBuilder()
    builder.set_spout("numbers", FeederSpout(["n"]))
    builder.set_bolt("step", bolt).shuffle_grouping("numbers")
    return builder.create_topology()


def test_a_forgotten_ack_fails_a_completed_topology() -> None:
    rows = [[number] for number in range(10)]
    with pytest.raises(PendingTuplesError) as caught:
        complete_topology(topology(Forgetful()), {"numbers": rows})
    assert str(caught.value) == (
        "1 of 10 rows of 'numbers' were neither acked nor failed at the end; bolt 'step' executed 10 tuples, and acked "
        "or failed 9: call self.collector.ack(tup), or derive from BasicBolt; for a bolt that holds tuples on purpose, "
        "set holds_tuples = True or pass allow_pending=True"
    )
    result = complete_topology(topology(Forgetful()), {"numbers": rows}, allow_pending=True)
    assert result.rows("step") == [[number] for number in range(0, 10, 2)]
    assert result.rows("step", "odd") == [[number] for number in range(1, 10, 2)]
    assert result["step"] == rows and result.failed == {"numbers": [[7]]}
    assert result.acked == {"numbers": [[number] for number in range(10) if number not in (3, 7)]}
    holding = type("Holding", (Forgetful,), {"holds_tuples": True})()
    assert complete_topology(topology(holding), {"numbers": rows}).failed == {"numbers": [[7]]}


def test_a_forgotten_ack_is_told_though_the_tick_is_longer_than_the_message_timeout() -> None:
    conf = {"topology.tick.tuple.freq.secs": 120}
    bolt = type("Ticked", (Forgetful,), {"tick": lambda self: None})()
    with pytest.raises(PendingTuplesError, match="1 of 10 rows of 'numbers' were neither acked nor failed at the end"):
        complete_topology(topology(bolt), {"numbers": [[number] for number in range(10)]}, conf)
