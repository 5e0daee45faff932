"""A tuple that fails is heard of at once; what else fails ends the topology, and says where."""

from __future__ import annotations

from typing import Any

import pytest
from local_components import Do, DoBasic, Keep, Log
from scene import anchoring, order_below

from tupletree import FailedException, ReportedFailedException, Spout, TopologyBuilder
from tupletree.errors import EmitError, TaskFailedError, UnregisteredTypeError
from tupletree.outputs import direct
from tupletree.testing import FeederSpout, LocalCluster


def test_fail_is_heard_at_once_though_other_tuples_of_the_tree_are_pending(cluster: LocalCluster) -> None:
    scene, _ = anchoring(cluster)
    scene.feed([1], "a")
    scene.order(lambda held, collector: [collector.emit([n], anchors=held[0]) for n in range(3)])
    order_below(scene, lambda held, collector: collector.fail(held[1]))
    assert scene.outcome == ([], ["a"])
    order_below(scene, lambda held, collector: [collector.ack(held[n]) for n in (0, 1, 2)])
    scene.order(lambda held, collector: collector.ack(held[0]))
    assert scene.outcome == ([], ["a"]), "what is heard after the verdict changes nothing"


@pytest.mark.parametrize("reported", [False, True])
def test_failed_exception_fails_the_tuple_and_the_topology_goes_on(cluster: LocalCluster, reported: bool) -> None:
    def refuse_odd(tup: Any, collector: Any) -> None:
        if tup[0] % 2:
            raise (ReportedFailedException if reported else FailedException)(f"{tup[0]} is odd")

    feeder = FeederSpout(["n"])
    builder = TopologyBuilder()
    builder.set_spout("spout", feeder)
    builder.set_bolt("bolt", DoBasic(refuse_odd)).shuffle_grouping("spout")
    cluster.submit("t", builder.create_topology())
    for number in range(4):
        feeder.feed([number], number)
    cluster.wait_quiet()
    assert (feeder.acked, sorted(feeder.failed)) == ([0, 2], [1, 3])
    errors = [(component, type(error), str(error)) for component, error in cluster.errors("t")]
    expected = [("bolt", ReportedFailedException, "1 is odd"), ("bolt", ReportedFailedException, "3 is odd")]
    assert errors == (expected if reported else [])


def test_what_a_basic_bolt_emitted_before_it_failed_is_delivered_and_does_not_save_the_tree(
    cluster: LocalCluster,
) -> None:
    log = Log()

    def emit_and_fail(tup: Any, collector: Any) -> None:
        collector.emit([tup[0]])
        raise FailedException

    feeder = FeederSpout(["n"])
    builder = TopologyBuilder()
    builder.set_spout("spout", feeder)
    builder.set_bolt("bolt", DoBasic(emit_and_fail, ["n"])).shuffle_grouping("spout")
    builder.set_bolt("sink", Keep(log)).shuffle_grouping("bolt")
    cluster.submit("t", builder.create_topology())
    feeder.feed([1], "a")
    cluster.wait_quiet()
    assert [values for _, values in log] == [[1]]
    assert (feeder.acked, feeder.failed) == ([], ["a"])


def test_errors_that_a_component_reports_are_kept_and_it_goes_on(cluster: LocalCluster) -> None:
    def report(tup: Any, collector: Any) -> None:
        collector.report_error(ValueError(f"odd value {tup[0]}"))

    feeder = FeederSpout(["n"])
    builder = TopologyBuilder()
    builder.set_spout("spout", feeder)
    builder.set_bolt("bolt", DoBasic(report)).shuffle_grouping("spout")
    cluster.submit("t", builder.create_topology())
    feeder.feed([1], "a")
    feeder.feed([2], "b")
    cluster.wait_quiet()
    assert feeder.acked == ["a", "b"]
    assert [(component, str(error)) for component, error in cluster.errors("t")] == [
        ("bolt", "odd value 1"),
        ("bolt", "odd value 2"),
    ]


class Emits(Spout):
    """Calls ``emit(collector)`` once."""

    def __init__(self, emit: Any, outputs: Any) -> None:
        self.emit = emit
        self.outputs = outputs

    def next_tuple(self) -> None:
        if self.emit is not None:
            emit, self.emit = self.emit, None
            emit(self.collector)


OUTPUTS = {"default": ["word", "n"], "cmd": direct(["x"])}
MISTAKES = [
    (
        lambda c: c.emit(["a", 1], stream="wrods"),
        r"emitted on stream 'wrods', which it does not declare \(declared: cmd, default\)",
    ),
    (lambda c: c.emit(["a"]), r"emitted 1 value on stream 'default', which declares 2: word, n"),
    (lambda c: c.emit(["a", 1, 2]), r"emitted 3 values on stream 'default', which declares 2: word, n"),
    (lambda c: c.emit([1], stream="cmd"), r"emitted on the direct stream 'cmd': use emit_direct"),
    (lambda c: c.emit_direct(3, ["a", 1]), r"used emit_direct on stream 'default', which is not direct"),
    (lambda c: c.emit_direct(99, [1], stream="cmd"), r"on stream 'cmd' to task 99, which does not subscribe"),
    (lambda c: c.emit_direct(3, [1, 2], stream="cmd"), r"emitted 2 values on stream 'cmd', which declares 1: x"),
]


@pytest.mark.parametrize("kind", ["spout", "bolt", "basic bolt"])
@pytest.mark.parametrize(("emit", "sentence"), MISTAKES)
def test_emit_errors_name_component_and_stream_and_end_the_topology(
    cluster: LocalCluster, kind: str, emit: Any, sentence: str
) -> None:
    feeder = FeederSpout(["n"])
    builder = TopologyBuilder()
    builder.set_spout("feeder", feeder)
    if kind == "spout":
        builder.set_spout("emitter", Emits(emit, OUTPUTS))
    elif kind == "bolt":
        builder.set_bolt("emitter", Do(lambda tup, collector: emit(collector), OUTPUTS)).shuffle_grouping("feeder")
    else:
        builder.set_bolt("emitter", DoBasic(lambda tup, collector: emit(collector), OUTPUTS)).shuffle_grouping("feeder")
    sink = builder.set_bolt("sink", Do())
    sink.shuffle_grouping("emitter").direct_grouping("emitter", "cmd")
    cluster.submit("t", builder.create_topology())
    feeder.feed([1])
    with pytest.raises(
        TaskFailedError, match=f"component 'emitter' failed: EmitError: component 'emitter' .*{sentence}"
    ) as caught:
        cluster.wait_quiet()
    assert isinstance(caught.value.__cause__, EmitError)


def test_an_exception_ends_its_topology_and_no_other(cluster: LocalCluster) -> None:
    def divide(tup: Any, collector: Any) -> None:
        1 / tup[0]

    feeders = {name: FeederSpout(["n"]) for name in ("one", "other")}
    for name, feeder in feeders.items():
        builder = TopologyBuilder()
        builder.set_spout("spout", feeder)
        builder.set_bolt("divide", DoBasic(divide)).shuffle_grouping("spout")
        cluster.submit(name, builder.create_topology())
    feeders["one"].feed([0], "a")
    with pytest.raises(TaskFailedError, match="component 'divide' failed: ZeroDivisionError"):
        cluster.wait_quiet()
    cluster.kill("one")
    feeders["other"].feed([1], "b")
    cluster.wait_quiet()
    assert feeders["other"].acked == ["b"]


class Point:
    """Of a type that nobody has registered."""


def test_an_unregistered_type_is_refused_as_on_a_cluster_unless_values_are_passed_by_reference() -> None:
    """And then the error names component, field and type."""

    def emit(tup: Any, collector: Any) -> None:
        collector.emit([tup[0], Point()])

    def topology(feeder: FeederSpout, log: Log) -> Any:
        builder = TopologyBuilder()
        builder.set_spout("spout", feeder)
        builder.set_bolt("maker", DoBasic(emit, ["n", "place"])).shuffle_grouping("spout")
        builder.set_bolt("sink", Keep(log)).shuffle_grouping("maker")
        return builder.create_topology()

    feeder, log = FeederSpout(["n"]), Log()
    with LocalCluster() as cluster:
        cluster.submit("t", topology(feeder, log), {"topology.testing.always.try.serialize": False})
        feeder.feed([1], "a")
        cluster.wait_until(lambda: feeder.acked == ["a"])
        assert type(log[0][1][1]) is Point
    with LocalCluster() as cluster:
        cluster.submit("t", topology(feeder, log))
        feeder.feed([1], "b")
        with pytest.raises(TaskFailedError, match=r"'maker'.*type Point.*field 'place'") as caught:
            cluster.wait_quiet()
        assert isinstance(caught.value.__cause__, UnregisteredTypeError)


def test_values_arrive_as_they_would_in_another_worker(cluster: LocalCluster) -> None:
    log = Log()
    feeder = FeederSpout(["value"])
    builder = TopologyBuilder()
    builder.set_spout("spout", feeder)
    builder.set_bolt("sink", Keep(log)).shuffle_grouping("spout")
    cluster.submit("t", builder.create_topology())
    sent = [(1, "two"), {"k": [b"v", None]}, {1, 2}, 2**100, "text"]
    for number, value in enumerate(sent):
        feeder.feed([value], number)
    cluster.wait_quiet()
    assert [values[0] for _, values in log] == sent
    assert all(received is not original for (_, [received]), original in zip(log, sent[:3], strict=False))
    assert sorted(feeder.acked) == [0, 1, 2, 3, 4]
