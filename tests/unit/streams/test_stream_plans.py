"""What runs together, how components are named, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple

import pytest

from tupletree import BasicBolt, Spout, Tumbling, WindowedBolt
from tupletree.backoff import Backoff
from tupletree.component import BasicCollector
from tupletree.connectors.files import FileSpout
from tupletree.connectors.formats import Text
from tupletree.connectors.kafka import KafkaBolt
from tupletree.connectors.row_sinks import RowSinkBolt
from tupletree.connectors.sqlite import SqliteSink
from tupletree.errors import UsageError
from tupletree.streams import Stream, StreamBuilder
from tupletree.tuples import Tuple
from tupletree.v1.topology_pb2 import GroupingKind
from tupletree.windows import Window

SINK = SqliteSink("numbers.db", "numbers", {"number": "int", "double": "int"}, key="number")


def numbers(builder: StreamBuilder | None = None, name: str = "numbers") -> Stream[int]:
    return (builder or StreamBuilder()).source([1, 2, 3], name=name)


def components(stream: Stream[Any]) -> list[str]:
    return [id for id in stream.builder.topology().components if not id.startswith("$")]


def test_narrow_operators_and_what_follows_an_aggregation_are_fused() -> None:
    stream = numbers()
    words = stream.map(str).filter(bool).key_by(lambda word: word)
    words.count().map(lambda n: n + 1).print()
    words.sink(Discard())
    assert components(stream) == ["numbers", "numbers-count", "numbers-map", "numbers-sink"]
    plan = stream.builder.explain()
    assert "runs map, filter, key_by\n" in plan
    assert "runs count, map, print\n" in plan
    assert "numbers-count: count, 1 executor\n    from numbers-map, stream default, by key\n" in plan


def test_narrow_operators_run_in_the_source_if_they_can() -> None:
    def of(parallelism: int = 1, source: int = 1) -> Stream[int]:
        return StreamBuilder(parallelism=parallelism).source([1, 2, 3], name="numbers", parallelism=source)

    fused = of()
    fused.map(str).sink(Discard())
    assert components(fused) == ["numbers", "numbers-sink"]
    apart = [of(parallelism=2), of(source=2), of()]
    for stream in apart[:2]:
        stream.map(str).sink(Discard())
    apart[2].map(str, parallelism=3).sink(Discard())
    timed = of()
    timed.event_time(lambda n: n, max_lag=timedelta(0)).sink(Discard())
    many = of()
    many.map(str).flat_map(list).sink(Discard())
    assert [len(components(stream)) for stream in [*apart, timed, many]] == [3, 3, 3, 3, 3]


def lines(parallelism: int = 1, source: int = 1) -> Stream[str]:
    builder = StreamBuilder(parallelism=parallelism)
    return builder.source(FileSpout("/data"), name="lines", parallelism=source)


NONE = timedelta(0)
WINDOW = Tumbling(timedelta(seconds=1))


def test_event_times_are_given_in_a_source_that_tells_of_its_partitions() -> None:
    fused = lines()
    fused.map(int).event_time(abs, max_lag=NONE).key_by(abs).window(WINDOW).count().print()
    assert components(fused) == ["lines", "lines-window-count"]
    split = lines()
    split.flat_map(str.split).map(int).event_time(abs, max_lag=NONE).key_by(abs).window(WINDOW).count().print()
    assert components(split) == ["lines", "lines-window-count"]
    assert "runs source 'lines', flat_map, map, event_time, key_by\n" in split.builder.explain()
    outputs = split.builder.topology().components["lines"].outputs
    assert [*outputs][:2] == ["default", "watermarks"]  # progress does not overtake elements


def test_behind_event_times_a_source_runs_no_operators_that_cost_it_more_than_a_bolt() -> None:
    many = lines(parallelism=3)
    many.map(int).event_time(abs, max_lag=NONE).flat_map(range).key_by(abs).window(WINDOW).count().print()
    assert components(many) == ["lines", "lines-flat_map", "lines-window-count"]
    assert many.builder.topology().components["lines-flat_map"].parallelism == 1  # elements stay in order
    explained = many.builder.explain()
    assert "runs source 'lines', map, event_time\n" in explained
    assert "why: behind a source: lines gives event times, and would run these without flat_map or partial" in explained
    beside = lines()
    beside.map(int).event_time(abs, max_lag=NONE).key_by(abs).window(WINDOW).count().print()
    beside.flat_map(str.split).key_by(len).count()
    assert {*components(beside)} == {"lines", "lines-flat_map", "lines-window-count", "lines-count"}


def test_event_times_behind_operators_with_executors_of_their_own_are_given_there() -> None:
    own = lines()
    timed = own.map(int, parallelism=3).event_time(abs, max_lag=NONE)
    timed.key_by(abs).window(WINDOW).count().print()
    assert components(own) == ["lines", "lines-map", "lines-window-count"]
    same = lines(source=3)
    same.map(int, parallelism=3).event_time(abs, max_lag=NONE).key_by(abs).window(WINDOW).count().print()
    assert components(same) == ["lines", "lines-window-count"]


def test_merged_streams_get_event_times_in_the_sources_that_can_give_them() -> None:
    builder = StreamBuilder()
    files = builder.source(FileSpout("/data"), name="files").map(int)
    merged = files.merge(builder.source([1, 2], name="numbers")).event_time(abs, max_lag=NONE)
    merged.key_by(abs).window(WINDOW).count(name="windows").print()
    topology = builder.topology()
    senders = [one.source for one in topology.components["windows"].inputs if one.stream == "watermarks"]
    assert "files" in senders and len(senders) == 2 and "numbers" not in senders


def test_event_times_are_not_given_where_results_of_a_state_are_made() -> None:
    counts = numbers().key_by(lambda n: n).count()
    counts.map(str).event_time(int, max_lag=timedelta(0)).print()
    assert "numbers-count-event_time" in components(counts)
    assert "why: event times: numbers-count does not send the newest of them\n" in counts.builder.explain()


def test_elements_that_are_only_counted_are_not_sent() -> None:
    stream = numbers()
    keyed = stream.map(str).key_by(len)
    keyed.count(combine=False, name="count")
    keyed.reduce(min, combine=False, name="min")
    keyed.latest(name="latest")
    outputs = stream.builder.topology().components["numbers"].outputs
    assert sorted(declared.fields for declared in outputs.values() if declared.fields[0] == "key") == [
        ("key",),
        ("key", "value"),
    ]


def test_every_executor_that_gives_event_times_gets_elements() -> None:
    def grouping(stream: Stream[int], id: str) -> tuple[int, str]:
        timed = stream.event_time(lambda n: n, max_lag=timedelta(0))
        timed.key_by(lambda n: n).window(Tumbling(timedelta(seconds=1))).count().print()
        component = timed.builder.topology().components[id]
        [kind] = [one.grouping for one in component.inputs if (one.source, one.stream) == ("numbers", "default")]
        return component.parallelism, GroupingKind.Name(kind)

    local, shuffle = "GROUPING_KIND_LOCAL_OR_SHUFFLE", "GROUPING_KIND_SHUFFLE"
    assert grouping(numbers(StreamBuilder(parallelism=2)), "numbers-event_time") == (1, local)
    two = StreamBuilder(parallelism=3).source([1, 2, 3], name="numbers", parallelism=2)
    assert grouping(two.map(abs), "numbers-map") == (2, local)
    more = numbers().map(abs, parallelism=3)
    assert grouping(more, "numbers-map") == (3, shuffle)
    assert "from numbers, stream default, to all executors in turn\n" in more.builder.explain()


def test_a_name_is_the_way_to_an_operator_and_no_edit_elsewhere_changes_it() -> None:
    stream = numbers()
    keyed = stream.key_by(lambda n: n)
    keyed.count()
    assert "numbers-count" in components(stream)
    stream.filter(bool, name="some").key_by(lambda n: n).count()
    stream.map(lambda n: -n).print()
    assert {"numbers-count", "some-count"} < set(components(stream))


def test_two_states_of_one_name_are_refused() -> None:
    stream = numbers()
    stream.key_by(lambda n: n).count()
    stream.key_by(lambda n: -n).count()
    with pytest.raises(UsageError, match=r"two operators are named 'numbers-count'.*count\(…, name='…'\)"):
        stream.builder.topology()


class Pair(NamedTuple):
    a: int
    b: int


class Discard(BasicBolt):
    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        pass


class Pairs(WindowedBolt):
    outputs = ["count"]

    def execute_window(self, window: Window) -> None:
        self.collector.emit([len(window)])


class Ticks(Spout):
    outputs = ["tick"]

    def next_tuple(self) -> None:
        pass


def test_the_guarantee_becomes_settings() -> None:
    stream = numbers()
    stream.map(lambda n: n).print()
    assert stream.builder.topology("at_most_once").conf == {"topology.acker.executors": 0}
    assert stream.builder.topology().conf == {}
    assert stream.builder.topology("exactly_once").conf == {"topology.state.checkpoint.aligned": True}


def test_a_sink_commits_with_the_checkpoint_for_exactly_once(tmp_path: Any) -> None:
    builder = StreamBuilder()
    lines = builder.source(FileSpout(tmp_path), name="lines")
    lines.key_by(lambda line: line).count().sink(
        SqliteSink(str(tmp_path / "db"), "counts", {"key": "string", "value": "bigint"}, key=["key"])
    )
    sinks = [
        type(builder.topology(guarantee).components["lines-count-sink"].component).__name__
        for guarantee in ("at_least_once", "exactly_once")
    ]
    assert sinks == ["RowSinkBolt", "ExactlyOnceSinkBolt"]


async def awaited(value: Any) -> Any:
    return value


def yields(value: Any) -> Any:
    yield value


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "no source": (lambda: StreamBuilder().topology(), "the program has no source: begin with builder.source"),
    "a class": (lambda: StreamBuilder().source(Ticks), r"source takes a spout, not the class Ticks: write Ticks\("),
    "an iterator": (
        lambda: StreamBuilder().source(iter([1])),
        "source takes what can be read again, not list_iterator",
    ),
    "text": (lambda: StreamBuilder().source("lines.txt"), "source takes a spout, a generator function or a list, not"),
    "other rows": (
        lambda: StreamBuilder().source(Ticks(), rows=Pair),
        "Pair has the fields a, b, and the rows of Ticks have tick",
    ),
    "no function": (lambda: numbers().map(3), "map takes a function, not 3"),
    "two arguments": (
        lambda: numbers().map(lambda a, b: a),
        r"map calls .*<lambda> with one argument, and it takes \(a, b\)",
    ),
    "async": (lambda: numbers().map(awaited), "map calls its function and does not await it: use map_async"),
    "yields": (lambda: numbers().filter(yields), "filter takes a function that returns one value, and this one yields"),
    "not async": (lambda: numbers().map_async(str), "map_async takes a coroutine function"),
    "one argument": (lambda: numbers().key_by(str).reduce(abs), "reduce calls abs with two arguments, and it takes"),
    "no predicate": (lambda: numbers().branch(), "branch takes one predicate for each stream that it returns"),
    "nothing to merge": (lambda: numbers().merge(), "merge takes one stream or more"),
    "two programs": (lambda: numbers().merge(numbers()), "merge takes streams of one StreamBuilder"),
    "half with keys": (lambda: (s := numbers()).merge(s.key_by(str)), "streams that all have a key or none"),
    "no bolt": (lambda: numbers().process(print), "process takes a bolt, not <built-in function print>"),
    "no sink": (lambda: numbers().sink(print), "sink takes a sink of tupletree.connectors or a bolt, not"),
    "no names": (lambda: numbers().sink(Discard(), fields=["a b"]), "sink: fields: "),
    "one name twice": (
        lambda: (numbers(b := StreamBuilder()), numbers(b), b.topology()),
        "two operators are named 'numbers'",
    ),
    "a guarantee": (lambda: numbers().builder.topology("once"), "guarantee must be one of at_most_once, at_least_once"),
    "a source that cannot go back": (
        lambda: StreamBuilder().source(Ticks()).print().builder.topology("exactly_once"),
        "exactly_once cannot hold: source 'source', a Ticks, cannot go back to a position",
    ),
    "a retry": (
        lambda: StreamBuilder().source([1], retry=Backoff(max_attempts=2)).print().builder.topology("exactly_once"),
        "exactly_once has no use for the retry of source 'source': an element that fails takes the program back",
    ),
    "a sink that cannot commit": (
        lambda: ((s := numbers()).sink(Discard()), s.builder.topology("exactly_once")),
        "sink 'numbers-sink' cannot write with a checkpoint; use a sink such as PostgresSink, or at_least_once",
    ),
    "a bolt for Kafka": (
        lambda: ((s := numbers()).sink(KafkaBolt("b:1", "t", Text("value"))), s.builder.topology("exactly_once")),
        "sink 'numbers-sink' cannot write with a checkpoint; use KafkaSink, or at_least_once",
    ),
    "a sink in its bolt": (
        lambda: ((s := numbers()).sink(RowSinkBolt(SINK)), s.builder.topology("exactly_once")),
        "cannot write with a checkpoint; pass the sink itself, the SqliteSink, without RowSinkBolt, or at_least_once",
    ),
    "windows that hold tuples": (
        lambda: numbers().process(Pairs().with_tumbling_window(2)).builder.topology("exactly_once"),
        "exactly_once cannot hold: 'numbers-process', a Pairs, holds the tuples of its windows, for which a checkpoint "
        r"would wait; use window\(…\), a KeyedWindow, or at_least_once",
    ),
    "columns of a lambda's results": (
        lambda: ((s := numbers()).map(lambda n: (n, 2 * n)).sink(SINK), s.builder.topology()),
        r"\(its fields: value\): it is not known that the elements have named fields; annotate the result of the "
        r"function that makes them with a NamedTuple or dataclass, or name the columns: sink\(…, fields=\[…\]\)",
    ),
    "a state without acks": (
        lambda: numbers().key_by(str).count().builder.topology("at_most_once"),
        "at_most_once cannot hold for 'numbers-count', whose state is saved in checkpoints, which need acks: use "
        "at_least_once, or a bolt with process that keeps its values in memory",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_mistake_is_refused_in_one_sentence(name: str) -> None:
    make, message = REFUSED[name]
    with pytest.raises(UsageError, match=message):
        make()
