"""Methods that yield rows: each row is emitted on the default stream, anchored as ``emit`` would anchor it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from local_components import Keep, Log
from stateful_scene import ALIGNED, Count, counting

from tupletree import BasicBolt, Bolt, FailedException, Spout, TopologyBuilder
from tupletree.errors import EmitError, TaskFailedError, TopologyError
from tupletree.testing import FeederSpout, LocalCluster, complete_topology
from tupletree.transactional import BatchBolt, TransactionalTopologyBuilder
from tupletree.transactional.memory import MemoryTransactionalSpout
from tupletree.windows import Count as Tuples
from tupletree.windows import WindowedBolt


def bolt_of(base: type, **methods: Any) -> Any:
    return type("Yields", (base,), {"outputs": ["word"], **methods})()


def split(self: Any, tup: Any, collector: Any) -> Iterator[list[str]]:
    for word in tup[0].split():
        yield [word]


def split_and_ack(self: Any, tup: Any) -> Iterator[list[str]]:
    yield from ([word] for word in tup[0].split())
    self.collector.ack(tup)


class Scene:
    """lines -> split -> sink."""

    def __init__(self, cluster: LocalCluster, bolt: Any) -> None:
        self.cluster = cluster
        self.log = Log()
        self.lines = FeederSpout(["line"])
        builder = TopologyBuilder()
        builder.set_spout("lines", self.lines)
        builder.set_bolt("split", bolt).shuffle_grouping("lines")
        builder.set_bolt("sink", Keep(self.log)).shuffle_grouping("split")
        cluster.submit("t", builder.create_topology())

    def words(self, line: str, msg_id: Any) -> list[Any]:
        self.lines.feed([line], msg_id)
        self.cluster.wait_quiet()
        return [values[0] for _, values in self.log]


@pytest.mark.parametrize("bolt", [bolt_of(BasicBolt, execute=split), bolt_of(Bolt, execute=split_and_ack)])
def test_every_yielded_row_is_emitted_in_the_tree_of_the_input(cluster: LocalCluster, bolt: Any) -> None:
    scene = Scene(cluster, bolt)
    assert scene.words("to be or", 1) == ["to", "be", "or"]
    assert (scene.lines.acked, scene.lines.failed) == ([1], [])


def test_a_tree_waits_for_what_was_yielded(cluster: LocalCluster) -> None:
    def refuse(self: Any, tup: Any, collector: Any) -> None:
        raise FailedException

    lines = FeederSpout(["line"])
    builder = TopologyBuilder()
    builder.set_spout("lines", lines)
    builder.set_bolt("split", bolt_of(Bolt, execute=split_and_ack)).shuffle_grouping("lines")
    builder.set_bolt("sink", bolt_of(BasicBolt, execute=refuse)).shuffle_grouping("split")
    cluster.submit("t", builder.create_topology())
    lines.feed(["to be"], 1)
    cluster.wait_quiet()
    assert (lines.acked, lines.failed) == ([], [1])


def test_a_function_that_returns_a_generator_is_as_good(cluster: LocalCluster) -> None:
    def execute(self: Any, tup: Any, collector: Any) -> Iterator[list[str]]:
        return split(self, tup, collector)

    assert Scene(cluster, bolt_of(BasicBolt, execute=execute)).words("to be", 1) == ["to", "be"]


def test_an_exception_between_two_rows_fails_the_input(cluster: LocalCluster) -> None:
    def half(self: Any, tup: Any, collector: Any) -> Iterator[list[str]]:
        yield ["half"]
        raise FailedException

    scene = Scene(cluster, bolt_of(BasicBolt, execute=half))
    assert scene.words("to be", 1) == ["half"]
    assert (scene.lines.acked, scene.lines.failed) == ([], [1])


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("hello", "'hello'"),
        ("h", "'h'"),
        (b"h", "b'h'"),
        (7, "7"),
        (None, "None"),
        ({"h": 7}, "{'h': 7}"),
        ({7}, "{7}"),
    ],
)
@pytest.mark.parametrize("base", [BasicBolt, Bolt])
def test_a_value_that_is_no_row_is_refused(cluster: LocalCluster, base: type, value: object, shown: str) -> None:
    def execute(self: Any, *_: Any) -> Iterator[Any]:
        yield value

    with pytest.raises(TaskFailedError) as caught:
        Scene(cluster, bolt_of(base, execute=execute)).words("to", 1)
        cluster.wait_until(lambda: False, 5)
    assert isinstance(caught.value.__cause__, EmitError)
    assert str(caught.value.__cause__) == (
        f"component 'split' emitted {shown} on stream 'default': "
        "emit a row with a value for each field, such as [value]"
    )


class Naturals(Spout):
    """A generator without an end, of which ``next_tuple`` runs one step at each call."""

    outputs = ("n",)

    def __init__(self, numbers: Callable[[], Iterator[int | None]]) -> None:
        self.numbers = numbers

    def next_tuple(self) -> Iterator[list[int] | None]:
        for number in self.numbers():
            yield None if number is None else [number]


def test_a_spout_s_generator_is_run_a_row_at_a_time_and_begun_again_after_its_end(cluster: LocalCluster) -> None:
    begun, log = Log(), Log()

    def numbers() -> Iterator[int | None]:
        begun.append(len(begun))
        yield len(begun)
        yield None  # nothing now
        yield -len(begun)

    builder = TopologyBuilder()
    builder.set_spout("numbers", Naturals(numbers))
    builder.set_bolt("sink", Keep(log)).shuffle_grouping("numbers")
    cluster.submit("t", builder.create_topology())
    cluster.wait_until(lambda: len(log) >= 6)
    cluster.kill("t")
    assert [values for _, values in log][:6] == [[1], [-1], [2], [-2], [3], [-3]]


def test_a_generator_without_an_end_does_not_keep_its_worker_from_other_work(cluster: LocalCluster) -> None:
    log = Log()
    builder = TopologyBuilder()
    builder.set_spout("numbers", Naturals(itertools.count))
    builder.set_bolt("sink", Keep(log)).shuffle_grouping("numbers")
    cluster.submit("t", builder.create_topology())
    cluster.wait_until(lambda: len(log) > 1000)
    cluster.kill("t")
    assert [values[0] for _, values in log][:1000] == list(range(1000))


def test_a_positioned_spout_does_not_yield(cluster: LocalCluster) -> None:
    class Positioned(Naturals):
        outputs = ("word",)

        def checkpoint_state(self) -> int:
            return 0

        def restore_state(self, state: int) -> None:
            pass

    with pytest.raises(TopologyError, match=r"spout 'words': Positioned\.next_tuple has a 'yield', and the spout's"):
        cluster.submit("t", counting(Count(), Positioned(itertools.count)).create_topology(), ALIGNED)


def test_rows_of_a_window_are_anchored_to_all_of_it() -> None:
    def execute_window(self: Any, window: Any) -> Iterator[list[str]]:
        yield ["+".join(tup[0] for tup in window.tuples)]

    builder = TopologyBuilder()
    builder.set_spout("lines", FeederSpout(["line"]))
    windowed = bolt_of(WindowedBolt, execute_window=execute_window).with_tumbling_window(Tuples(2))
    builder.set_bolt("split", windowed).shuffle_grouping("lines")
    emitted = complete_topology(builder.create_topology(), {"lines": [["a"], ["b"], ["c"], ["d"]]})
    assert emitted["split"] == [["a+b"], ["c+d"]]


def test_rows_of_a_batch_are_counted_as_the_batch_s(cluster: LocalCluster) -> None:
    log = Log()

    def execute(self: Any, tup: Any) -> Iterator[list[Any]]:
        yield [self.batch_id, tup[1].upper()]

    def finish_batch(self: Any) -> Iterator[list[Any]]:
        yield [self.batch_id, "end"]

    def keep(self: Any, tup: Any, collector: Any) -> Iterator[list[Any]]:
        log.append(tup[1])
        yield [tup[0], tup[1]]

    upper = type(
        "Upper", (BatchBolt,), {"outputs": ["attempt", "word"], "execute": execute, "finish_batch": finish_batch}
    )
    last = type("Last", (BasicBolt,), {"outputs": ["attempt", "word"], "execute": keep})
    builder = TransactionalTopologyBuilder("t", "spout", MemoryTransactionalSpout([[["a"], ["b"]]], ["word"], 1))
    builder.set_bolt("upper", upper()).shuffle_grouping("spout")
    builder.set_bolt("last", last()).shuffle_grouping("upper")
    cluster.submit("t", builder.create_topology())
    cluster.wait_until(lambda: len(log) >= 4)
    cluster.kill("t")
    assert sorted(log) == ["A", "B", "end", "end"]
