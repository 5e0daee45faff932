"""Options, names and texts of the import of streamparse's projects."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from tupletree import config
from tupletree.cli.from_streamparse import options, report
from tupletree.cli.from_streamparse.rendering import Rendering, literal, process_program
from tupletree.cli.from_streamparse.report import Imported
from tupletree.cli.from_streamparse.specs import JAVA, PROGRAM, PYTHON, Component, Input, Remark, TopologyRead


def component(name: str, kind: str = PYTHON, **more: Any) -> Component:
    given = {"is_spout": False, "parallelism": 1, "config": {}, "outputs": {}, "module": "parts", "cls": "Part"}
    return Component(name=name, kind=kind, **{**given, **more})


def rendered(*components: Component, environment: str = "") -> Rendering:
    found = Rendering("words", TopologyRead("Words", {}, components), {}, environment)
    ast.parse(found.text)
    return found


def test_no_key_is_both_left_out_and_ours() -> None:
    named = [*options.LEFT_OUT, *options.OF_STREAMPARSE]
    assert [name for name in named if name in config.KEYS] == []
    assert [key for key in config.KEYS if any(key.startswith(f"{name}.") for name in named)] == []
    assert all(new in config.KEYS and old not in config.KEYS for old, new in options.RENAMED.items())


@pytest.mark.parametrize(
    ("name", "value", "taken", "remark"),
    [
        ("topology.workers", 3, {"topology.workers": 3}, ""),
        ("topology.batch.flush.interval.millis", 2, {"topology.flush.interval.ms": 2}, ""),
        ("redis.host", "h", {"redis.host": "h"}, ""),
        ("topology.trident.batch.emit.interval.millis", 5, {}, "the option has no counterpart and is left out"),
        ("topology.kryo.register", [], {}, "the option has no counterpart and is left out"),
        ("topology.new.in.storm", 5, {}, "the option is unknown and is left out"),
        ("topology.workers", "many", {}, "the value is left out: configuration key 'topology.workers' takes"),
        ("worker.childopts", "-X", {}, "the value is left out: unknown configuration key 'worker.childopts'"),
    ],
)
def test_an_option_is_taken_or_has_a_remark(name: str, value: Any, taken: dict[str, Any], remark: str) -> None:
    conf, remarks = options.taken({name: value}, "configuration")
    assert conf == taken
    assert [one.subject for one in remarks] == ([f"configuration: {name}"] if remark else [])
    assert all(one.sentence.startswith(remark) and not one.is_open for one in remarks)


def test_a_number_of_workers_is_no_list_of_hosts() -> None:
    assert options.resolved({"workers": 3}, {}) == {}
    assert options.resolved({"workers": ["a", "b"]}, {}) == {"topology.workers": 2}


def test_options_of_a_topology_come_before_those_of_its_environment() -> None:
    environment = {"workers": ["a", "b"], "options": {"topology.debug": True, "own.key": 1}}
    assert options.resolved(environment, {"own.key": 2}) == {
        "topology.workers": 2,
        "topology.debug": True,
        "own.key": 2,
    }
    assert options.resolved({"workers": ["a"], "options": {"topology.workers": 4}}, {}) == {"topology.workers": 4}


def test_entries_of_an_environment_with_the_same_advice_share_a_remark() -> None:
    found = list(options.of_environment({"user": "u", "ssh_port": 22, "nimbus": "", "workers": [1], "odd": 1}, "prod"))
    assert [(one.subject, one.advice) for one in found] == [
        ("prod: user, ssh_port", "nothing is done over SSH"),
        ("prod: odd", ""),
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", '"plain"'),
        ('a "quote"', "'a \"quote\"'"),
        ("line\n", "'line\\n'"),
        ({"a": [1, True, None]}, '{"a": [1, True, None]}'),
        (("a", 1.5), '["a", 1.5]'),
    ],
)
def test_values_are_written_as_python(value: Any, text: str) -> None:
    assert literal(value) == text
    assert ast.literal_eval(text) == (list(value) if isinstance(value, tuple) else value)


def test_classes_of_one_name_and_odd_components_get_names_of_their_own() -> None:
    text = rendered(
        component("1-a.b", module="one.parts", inputs=[Input("class", "default", "shuffle")]),
        component("class", module="two.parts", inputs=[Input("1-a.b", "other", "fields", ["x"])]),
    ).text
    assert "from one.parts import Part as one_parts_Part\nfrom two.parts import Part as two_parts_Part" in text
    assert '_1_a_b = builder.set_bolt("1-a.b", PystormBolt(one_parts_Part))' in text
    assert 'class_.fields_grouping("1-a.b", "x", "other")' in text


def test_a_component_may_have_the_name_of_its_class_or_of_ours() -> None:
    text = rendered(component("Part"), component("PystormBolt")).text
    assert 'Part_ = builder.set_bolt("Part", PystormBolt(Part))' in text
    assert 'PystormBolt_ = builder.set_bolt("PystormBolt", PystormBolt(Part))' in text


def test_parallelism_of_another_environment_is_said() -> None:
    given = component("count", parallelism={"prod": 4})
    assert "PystormBolt(Part), 4)" in rendered(given, environment="prod").text
    found = rendered(given, environment="beta")
    assert "PystormBolt(Part))" in found.text
    assert [one.sentence for one in found.remarks] == ["it has a parallelism for prod alone, and gets 1"]


def test_a_configuration_that_replaces_that_of_the_class_is_written() -> None:
    own = {"topology.tick.tuple.freq.secs": 9}
    assert "PystormBolt(Part))" in rendered(component("count", config=own, own_config=own)).text
    assert "PystormBolt(Part, config={}))" in rendered(component("count", own_config=own)).text


def test_programs_and_java() -> None:
    streams = {"default": {"fields": ["a"], "is_direct": False}, "one": {"fields": ["b"], "is_direct": True}}
    program = component("run", PROGRAM, command=["node", "x.js"], outputs={"one": streams["one"]}, is_spout=True)
    java = component("jvm", JAVA, java="org.X", arguments=["a"], outputs=streams)
    refused = component("own", refused="it cannot be hosted", outputs=streams)
    found = rendered(program, java, refused)
    assert 'builder.set_spout("run", ShellSpout(["node", "x.js"], {}, direct={"one": ["b"]}))' in found.text
    assert 'ShellBolt([PYTHON, "run_component.py", "parts.Part"], ["a"], direct={"one": ["b"]})' in found.text
    assert [(one.subject, one.is_open) for one in found.remarks] == [("jvm", True), ("own", False)]
    assert found.needs_process and "streamparse.run" in process_program()
    ast.parse(process_program())


def test_the_report_names_commands_and_remarks() -> None:
    remarks = [Remark("a", "it is left", "write it", is_open=True), Remark("b", "it differs")]
    one = Imported("words", "topologies/words.py", "words_topology.py", ["src/a b"], remarks=remarks)
    lines = report.text([one, Imported("bad", "topologies/bad.py", error="no")], [Remark("c", "of the project")])
    assert "    tupletree submit words_topology.py --include 'src/a b' --name words\n" in lines
    assert "* **a**: it is left. Write it.\n" in lines and "* **b**: it differs.\n" in lines
    assert "`topologies/bad.py` could not be imported: no\n" in lines and "* **c**: of the project.\n" in lines
    assert [one["name"] for one in report.document([one], [])["topologies"]] == ["words"]
