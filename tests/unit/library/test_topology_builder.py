"""TopologyBuilder: what it makes, and that every mistake names component and field as early as it can be seen."""

from __future__ import annotations

import json
import pickle
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from tupletree.component import BasicBolt, BasicCollector, Bolt, Spout
from tupletree.errors import TopologyError, UsageError
from tupletree.grouping import CustomGrouping
from tupletree.topology import FieldsDeclarer, Topology, TopologyBuilder, check_topology_name, direct, tasks_of
from tupletree.tuples import Tuple
from tupletree.v1.topology_pb2 import ComponentKind, GroupingKind


class Lines(Spout):
    outputs = ["line"]


class Split(BasicBolt):
    outputs = {"default": ["word", "length"], "commands": direct(["command"]), "errors": ["line"]}

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        pass


class Idle(Bolt):
    def execute(self, tup: Tuple) -> None:
        pass


class Count(Idle):
    outputs = ["word", "count"]

    def __init__(self, start: object = 0) -> None:
        self.start = start


class InCode(Idle):
    def declare_output_fields(self, declarer: FieldsDeclarer) -> None:
        declarer.declare(["a"])
        declarer.declare_stream("other", ["b"])
        declarer.declare_stream("cmd", ["c"], direct=True)


class Odd(CustomGrouping):
    def choose_tasks(self, task_id: int, values: Sequence[Any]) -> Sequence[int]:
        return [task_id]


@pytest.fixture
def builder() -> TopologyBuilder:
    """A builder with a spout and a bolt that has three streams."""
    builder = TopologyBuilder()
    builder.set_spout("lines", Lines(), parallelism=2)
    builder.set_bolt("split", Split(), parallelism=3).shuffle_grouping("lines")
    return builder


def refused(make: Callable[[], object], component: str, field: str, *words: str) -> None:
    """Assert that ``make`` raises a TopologyError which names the component, the field, and ``words``."""
    with pytest.raises(TopologyError) as caught:
        make()
    assert (caught.value.component, caught.value.field) == (component, field)
    for word in (component, *words):
        assert word in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_spec_says_all_that_was_built(builder: TopologyBuilder) -> None:
    builder.set_bolt("count", Count(), 4).fields_grouping("split", ["word"]).set_num_tasks(8).set_debug()
    spec = builder.create_topology().spec()
    assert [component.id for component in spec.components] == ["count", "lines", "split"]
    count, lines, split = spec.components
    assert (count.kind, lines.kind) == (ComponentKind.COMPONENT_KIND_BOLT, ComponentKind.COMPONENT_KIND_SPOUT)
    assert (count.parallelism, count.tasks, lines.parallelism, lines.tasks) == (4, 8, 2, 2)
    assert json.loads(count.conf_json) == {"topology.debug": True, "topology.tasks": 8}
    assert [(s.id, list(s.fields), s.direct) for s in split.outputs] == [
        ("default", ["word", "length"], False),
        ("commands", ["command"], True),
        ("errors", ["line"], False),
    ]
    [subscription] = count.inputs
    assert (subscription.source, subscription.stream) == ("split", "default")
    assert (subscription.grouping, list(subscription.fields)) == (GroupingKind.GROUPING_KIND_FIELDS, ["word"])
    assert isinstance(pickle.loads(count.object), Count)
    assert tasks_of(spec, {}) == {"count": range(1, 9), "lines": range(9, 11), "split": range(11, 14)}


def test_all_nine_groupings(builder: TopologyBuilder) -> None:
    def bolt(name: str) -> Any:
        return builder.set_bolt(name, Count())

    bolt("b1").shuffle_grouping("split")
    bolt("b2").fields_grouping("split", ["word"])
    bolt("b3").all_grouping("split")
    bolt("b4").global_grouping("split")
    bolt("b5").none_grouping("split")
    bolt("b6").direct_grouping("split", "commands")
    bolt("b7").local_or_shuffle_grouping("split")
    bolt("b8").partial_key_grouping("split", ["word", "length"])
    bolt("b9").custom_grouping("split", Odd(), stream="errors")
    spec = builder.create_topology().spec()
    kinds = {c.id: GroupingKind.Name(c.inputs[0].grouping) for c in spec.components if c.id.startswith("b")}
    names = ("SHUFFLE", "FIELDS", "ALL", "GLOBAL", "NONE", "DIRECT", "LOCAL_OR_SHUFFLE", "PARTIAL_KEY", "CUSTOM")
    assert kinds == {f"b{number}": f"GROUPING_KIND_{name}" for number, name in enumerate(names, start=1)}
    custom = next(c for c in spec.components if c.id == "b9").inputs[0]
    assert pickle.loads(custom.custom).choose_tasks(5, []) == [5]


def test_outputs_declared_in_code_mean_the_same(builder: TopologyBuilder) -> None:
    builder.set_bolt("code", InCode()).shuffle_grouping("lines")
    builder.set_bolt("next", Count()).direct_grouping("code", "cmd").fields_grouping("code", ["b"], stream="other")
    outputs = builder.create_topology().components["code"].outputs
    assert {s.id: (s.fields, s.direct) for s in outputs.values()} == {
        "default": (("a",), False),
        "other": (("b",), False),
        "cmd": (("c",), True),
    }


def test_a_cycle_and_a_self_loop_are_allowed(builder: TopologyBuilder) -> None:
    builder.set_bolt("a", Count()).shuffle_grouping("lines").shuffle_grouping("b").shuffle_grouping("a")
    builder.set_bolt("b", Count()).shuffle_grouping("a")
    assert set(builder.create_topology().components) == {"lines", "split", "a", "b"}


def test_a_created_topology_is_not_changed_by_later_calls(builder: TopologyBuilder) -> None:
    declarer = builder.set_bolt("count", Count()).shuffle_grouping("split")
    topology = builder.create_topology()
    before = topology.outline()
    declarer.set_debug().shuffle_grouping("lines")
    assert topology.outline() == before


def test_an_outline_has_no_objects(builder: TopologyBuilder) -> None:
    topology = builder.create_topology()
    assert all(component.object for component in topology.spec().components)
    assert not any(component.object for component in topology.outline().components)


def test_component_settings_end_in_its_configuration(builder: TopologyBuilder) -> None:
    declarer = builder.set_spout("more", Lines(), 2)
    declarer.set_max_spout_pending(5).set_max_task_parallelism(3).set_blocking().add_configuration("my.key", [1])
    assert builder.create_topology().components["more"].conf == {
        "topology.max.spout.pending": 5,
        "topology.max.task.parallelism": 3,
        "topology.blocking": True,
        "my.key": [1],
    }


@pytest.mark.parametrize("name", ["__acker", "$checkpoint", "__x", "$"])
def test_reserved_ids(builder: TopologyBuilder, name: str) -> None:
    refused(lambda: builder.set_bolt(name, Count()), name, "id", "reserved")
    refused(lambda: builder.set_spout(name, Lines()), name, "id", "reserved")


@pytest.mark.parametrize("name", ["", "a/b", "a\nb", ".", "..", 7, None])
def test_ids_that_are_none(builder: TopologyBuilder, name: Any) -> None:
    with pytest.raises(TopologyError, match="a component id is a string"):
        builder.set_bolt(name, Count())


def test_duplicate_ids(builder: TopologyBuilder) -> None:
    refused(lambda: builder.set_bolt("lines", Count()), "lines", "id", "in use already")
    refused(lambda: builder.set_spout("split", Lines()), "split", "id", "in use already")


@pytest.mark.parametrize("parallelism", [0, -1, 1.5, "2", True, None])
def test_parallelism_is_a_positive_whole_number(builder: TopologyBuilder, parallelism: Any) -> None:
    refused(lambda: builder.set_bolt("c", Count(), parallelism), "c", "parallelism", repr(parallelism))


@pytest.mark.parametrize("tasks", [0, -1, 1.5, "2", True])
def test_task_counts_are_positive_whole_numbers(builder: TopologyBuilder, tasks: Any) -> None:
    refused(lambda: builder.set_bolt("c", Count()).set_num_tasks(tasks), "c", "topology.tasks", repr(tasks))


def test_there_are_at_least_as_many_tasks_as_executors(builder: TopologyBuilder) -> None:
    declarer = builder.set_bolt("c", Count(), 4)
    refused(lambda: declarer.set_num_tasks(3), "c", "topology.tasks", "3 tasks", "4 executors")
    refused(lambda: declarer.add_configuration("topology.tasks", 3), "c", "topology.tasks")


def test_components_of_the_wrong_kind(builder: TopologyBuilder) -> None:
    wrong: Any = Count()
    refused(lambda: builder.set_spout("s", wrong), "s", "component", "must be a Spout", "Count")
    wrong = Lines()
    refused(lambda: builder.set_bolt("b", wrong), "b", "component", "must be a Bolt or BasicBolt", "Lines")
    wrong = object()
    refused(lambda: builder.set_bolt("b", wrong), "b", "component", "object")
    wrong = Count
    refused(lambda: builder.set_bolt("b", wrong), "b", "component", "not the class", "Count(")


@pytest.mark.parametrize(
    ("outputs", "field", "word"),
    [
        (["a", "a"], "a", "twice"),
        (["a", ""], "default", "must be a name"),
        (["a", 1], "default", "must be a name"),
        ("word", "outputs", "list of field names"),
        (7, "outputs", "list of field names"),
        ({"default": "word"}, "default", "list of names"),
        ({"__ack": ["a"]}, "__ack", "reserved"),
        ({"$checkpoint": ["a"]}, "$checkpoint", "reserved"),
        ({1: ["a"]}, "outputs", "a stream's id"),
        ({"x": ["a", "a"]}, "a", "stream 'x'"),
    ],
)
def test_faulty_outputs(builder: TopologyBuilder, outputs: Any, field: str, word: str) -> None:
    faulty = type("Faulty", (Idle,), {"outputs": outputs})
    refused(lambda: builder.set_bolt("f", faulty()), "f", field, word)


def test_a_stream_declared_twice_in_code(builder: TopologyBuilder) -> None:
    class Twice(Idle):
        def declare_output_fields(self, declarer: FieldsDeclarer) -> None:
            declarer.declare(["a"])
            declarer.declare(["b"])

    refused(lambda: builder.set_bolt("t", Twice()), "t", "default", "declared twice")


def test_an_error_in_declare_output_fields_names_the_component(builder: TopologyBuilder) -> None:
    class Broken(Idle):
        def declare_output_fields(self, declarer: FieldsDeclarer) -> None:
            raise ValueError("no idea")

    refused(lambda: builder.set_bolt("b", Broken()), "b", "outputs", "ValueError: no idea")


def test_a_spout_without_outputs(builder: TopologyBuilder) -> None:
    class Mute(Spout):
        pass

    refused(lambda: builder.set_spout("mute", Mute()), "mute", "outputs", "Mute")


def test_a_topology_without_spout() -> None:
    builder = TopologyBuilder()
    with pytest.raises(TopologyError, match="no spout"):
        builder.create_topology()
    builder.set_bolt("b", Count()).shuffle_grouping("b")
    with pytest.raises(TopologyError, match="no spout"):
        builder.create_topology()


def test_a_bolt_without_input_lives_on_ticks_or_is_a_mistake(builder: TopologyBuilder) -> None:
    declarer = builder.set_bolt("clock", Count())
    refused(builder.create_topology, "clock", "inputs", "no input")
    declarer.add_configuration("topology.tick.tuple.freq.secs", 1)
    assert isinstance(builder.create_topology(), Topology)


def test_a_spout_has_no_groupings(builder: TopologyBuilder) -> None:
    assert not hasattr(builder.set_spout("s2", Lines()), "shuffle_grouping")


def test_an_unknown_source_is_found_when_the_topology_is_created(builder: TopologyBuilder) -> None:
    builder.set_bolt("c", Count()).shuffle_grouping("splitt")
    refused(builder.create_topology, "c", "splitt", "unknown source", "split")


def test_an_unknown_stream_is_found_at_once_if_its_source_is_there(builder: TopologyBuilder) -> None:
    declarer = builder.set_bolt("c", Count())
    refused(lambda: declarer.shuffle_grouping("split", "erorrs"), "c", "erorrs", "split", "'errors'")
    declarer.shuffle_grouping("late", "nothing")
    builder.set_bolt("late", Count()).shuffle_grouping("lines")
    refused(builder.create_topology, "c", "nothing", "late")


def test_an_unknown_field_is_found_at_once_if_its_source_is_there(builder: TopologyBuilder) -> None:
    declarer = builder.set_bolt("c", Count())
    refused(lambda: declarer.fields_grouping("split", ["wrd"]), "c", "wrd", "split", "word, length")
    refused(lambda: declarer.partial_key_grouping("split", ["word", "x"]), "c", "x", "partial_key")
    declarer.fields_grouping("late", ["nothing"])
    builder.set_bolt("late", Count()).shuffle_grouping("lines")
    refused(builder.create_topology, "c", "nothing", "late")


def test_a_direct_stream_takes_direct_groupings_only(builder: TopologyBuilder) -> None:
    declarer = builder.set_bolt("c", Count())
    refused(lambda: declarer.shuffle_grouping("split", "commands"), "c", "commands", "declared direct: use")
    refused(lambda: declarer.fields_grouping("split", ["command"], "commands"), "c", "commands", "declared direct: use")
    refused(lambda: declarer.custom_grouping("split", Odd(), "commands"), "c", "commands", "declared direct: use")


def test_a_grouping_takes_what_the_source_was_set_with_and_one_field_by_its_name() -> None:
    builder = TopologyBuilder()
    lines = builder.set_spout("lines", Lines())
    words = builder.set_bolt("split", Split()).shuffle_grouping(lines)
    builder.set_bolt("count", Count()).fields_grouping(words, "word").fields_grouping(words, "line", "errors")
    builder.set_bolt("odd", Count()).custom_grouping(words, Odd()).partial_key_grouping(lines, "line")
    found = {id: [(i.source, i.stream, i.fields) for i in one.inputs] for id, one in builder._components.items()}
    assert found["split"] == [("lines", "default", ())]
    assert found["count"] == [("split", "default", ("word",)), ("split", "errors", ("line",))]
    assert found["odd"] == [("split", "default", ()), ("lines", "default", ("line",))]


@pytest.mark.parametrize("source", ["lines", "elsewhere"])
def test_a_source_of_another_topology_is_refused(builder: TopologyBuilder, source: str) -> None:
    declarer = TopologyBuilder().set_spout(source, Lines())
    refused(lambda: builder.set_bolt("c", Count()).all_grouping(declarer), "c", source, "of another topology")


def test_a_direct_grouping_takes_direct_streams_only(builder: TopologyBuilder) -> None:
    refused(lambda: builder.set_bolt("c", Count()).direct_grouping("split"), "c", "default", "not declared direct")


def test_faulty_grouping_arguments(builder: TopologyBuilder) -> None:
    declarer = builder.set_bolt("c", Count())
    wrong: Any = 7
    refused(lambda: declarer.fields_grouping("split", wrong), "c", "fields", "takes field names, not 7")
    refused(lambda: declarer.fields_grouping("split", ""), "c", "fields", "global_grouping")
    refused(lambda: declarer.fields_grouping("split", []), "c", "fields", "global_grouping")
    refused(lambda: declarer.fields_grouping("split", ["word", "word"]), "c", "fields", "twice")
    wrong = Odd
    refused(lambda: declarer.custom_grouping("split", wrong), "c", "grouping", "an object rather than the class")
    wrong = len
    refused(lambda: declarer.custom_grouping("split", wrong), "c", "grouping", "CustomGrouping")
    wrong = None
    refused(lambda: declarer.shuffle_grouping(wrong), "c", "source")
    refused(lambda: declarer.shuffle_grouping("split", wrong), "c", "stream")
    declarer.shuffle_grouping("split")
    refused(lambda: declarer.all_grouping("split"), "c", "split", "twice")


def test_faulty_component_configuration(builder: TopologyBuilder) -> None:
    declarer = builder.set_bolt("c", Count())
    refused(lambda: declarer.add_configuration("topology.debgu", True), "c", "topology.debgu", "topology.debug")
    refused(lambda: declarer.add_configuration("topology.workers", 2), "c", "topology.workers", "for one component")
    refused(lambda: declarer.add_configuration("topology.debug", "on"), "c", "topology.debug", "true or false")
    declarer.shuffle_grouping("split").add_configuration("my.key", object())
    refused(builder.create_topology, "c", "configuration", "my.key")


def test_a_component_configuration_that_raises_is_refused(builder: TopologyBuilder) -> None:
    def missing(self: Any) -> Any:
        raise KeyError("interval")

    faulty = type("Faulty", (Count,), {"component_configuration": missing})(1)
    words = "bolt 'c': component_configuration raised KeyError: 'interval'"
    refused(lambda: builder.set_bolt("c", faulty), "c", "component_configuration", words)


def test_a_component_that_is_a_frozen_dataclass_is_refused(builder: TopologyBuilder) -> None:
    @dataclass(frozen=True)
    class Frozen(Bolt):
        limit: int

        def execute(self, tup: Any) -> None:
            pass

    words = ("bolt 'c': Frozen is a frozen dataclass", "leave out frozen=True")
    refused(lambda: builder.set_bolt("c", Frozen(1)), "c", "component", *words)


def test_a_component_configuration_without_a_result_is_refused(builder: TopologyBuilder) -> None:
    forgetful = type("Forgetful", (Count,), {"component_configuration": lambda self: None})(1)
    refused(lambda: builder.set_bolt("c", forgetful), "c", "component_configuration", "returned None: return a dict")


def test_what_cannot_be_pickled_names_component_and_attribute(builder: TopologyBuilder) -> None:
    builder.set_bolt("c", Count(threading.Lock())).shuffle_grouping("split")
    refused(builder.create_topology, "c", "start", "Count.start", "lock", "open or prepare")


def test_a_component_that_refuses_to_be_pickled_as_a_whole(builder: TopologyBuilder) -> None:
    class Refuses(Idle):
        def __reduce__(self) -> Any:
            raise TypeError("not me")

    builder.set_bolt("c", Refuses()).shuffle_grouping("split")
    refused(builder.create_topology, "c", "component", "Refuses", "not me")


def test_a_custom_grouping_that_cannot_be_pickled(builder: TopologyBuilder) -> None:
    grouping = Odd()
    grouping.lock = threading.Lock()  # type: ignore[attr-defined]
    builder.set_bolt("c", Count()).custom_grouping("split", grouping)
    refused(builder.create_topology, "c", "lock", "Odd.lock")


def test_components_can_be_replaced_for_a_test(builder: TopologyBuilder) -> None:
    builder.set_bolt("c", Count(1)).shuffle_grouping("split")
    topology = builder.create_topology()
    replaced = topology.replacing({"c": Count(2)})
    assert (replaced.components["c"].component.start, topology.components["c"].component.start) == (2, 1)
    assert replaced.outline() == topology.outline()
    refused(lambda: topology.replacing({"x": Count()}), "x", "", "no component")
    refused(lambda: topology.replacing({"c": Lines()}), "c", "component")


@pytest.mark.parametrize("name", ["word-count", "a", "_x", "W_1-2", "1", "a" * 100])
def test_topology_names(name: str) -> None:
    assert check_topology_name(name) == name


@pytest.mark.parametrize("name", ["", "a b", "a/b", "a.b", "-a", "ä", "a" * 101, None, 3, "a\n"])
def test_names_no_topology_can_have(name: Any) -> None:
    with pytest.raises(UsageError, match="topology name"):
        check_topology_name(name)
