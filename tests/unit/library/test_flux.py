"""Topologies in YAML: what a file describes is what is built, and each mistake is told with its line."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from flux_scene import BOLT, SMALL, SPOUT, built, component, place, refusal, written

from tupletree import CustomGrouping
from tupletree.cli.main import main
from tupletree.errors import UsageError
from tupletree.flux import load_flux, read_properties
from tupletree.grouping import grouping_name

__all__ = ["place"]

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "flux.md"


def test_the_file_of_the_guide_counts_words(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = dict(re.findall(r"```(yaml|python)\n(.*?)```", GUIDE.read_text(), re.DOTALL))
    (place / "words.py").write_text(blocks["python"])
    (place / "topology.yaml").write_text(blocks["yaml"])
    (place / "lines.txt").write_text("A rose is a rose\n")
    (place / "properties").write_text(f"lines.file = {place}/lines.txt\n")
    sys.modules.pop("words", None)
    found = load_flux(place / "topology.yaml", read_properties(place / "properties"))
    assert (found.name, found.conf) == ("word-count", {"topology.workers": 2, "topology.max.spout.pending": 1000})
    assert main(["local", f"{place}/topology.yaml", "--filter", f"{place}/properties", "--json"]) == 0
    ran = json.loads(capsys.readouterr().out)
    assert ran["name"] == "word-count"
    assert [dict(state["entries"]) for state in ran["states"]] == [{"a": 2, "rose": 2, "is": 1}]
    assert main(["local", f"{place}/topology.yaml"]) == 2
    assert "${lines.file} has no value" in capsys.readouterr().err
    sys.modules.pop("words", None)


def test_objects_are_made_with_arguments_properties_and_calls(place: Path) -> None:
    topology = built(
        place,
        """
        name: objects
        components:
          - id: first
            className: parts.Helper
            constructorArgs: [1, two, [3, {ref: second}], {a: {ref: second}}]
          - id: second
            className: parts.Helper
        spouts:
          - id: numbers
            className: parts.Numbers
            factory: many
            factoryArgs: [2]
            numTasks: 4
            parallelism: 2
            properties:
              - {name: step, value: 7}
              - {name: names, reflist: [first, second]}
            configMethods:
              - {name: with_call, args: [a, {ref: first}]}
              - name: with_call
        bolts:
          - id: add
            className: parts.Add
            constructorArgs: {helper: {ref: first}, scale: 2.5}
          - {id: double, className: parts.double}
        streams:
          - {from: numbers, to: add, grouping: {type: shuffle}}
          - {name: numbers to double, from: numbers, to: double, grouping: {type: ALL}}
        """,
    )
    numbers, add = component(topology, "numbers"), component(topology, "add")
    first, second = numbers.names
    assert (numbers.left, numbers.step) == (20, 7)
    assert numbers.calls == [("a", first), ()]
    assert first.arguments == (1, "two", [3, second], {"a": second})
    assert (add.helper, add.more, add.scale) == (first, (), 2.5)
    assert (topology.components["numbers"].tasks, topology.components["numbers"].parallelism) == (4, 2)


def test_streams_have_every_grouping(place: Path) -> None:
    kinds = ["ALL", "GLOBAL", "NONE", "LOCAL_OR_SHUFFLE", "SHUFFLE"]
    streams = "".join(f"  - {{from: numbers, to: {kind}, grouping: {{type: {kind}}}}}\n" for kind in kinds)
    bolts = "".join(f"  - {{id: {kind}, className: parts.Add}}\n" for kind in [*kinds, "FIELDS", "KEY", "CUSTOM"])
    topology = built(
        place,
        f"""{SMALL}
bolts:
{bolts}
streams:
{streams}
  - {{from: numbers, to: FIELDS, grouping: {{type: FIELDS, args: [n], streamId: odd}}}}
  - {{from: numbers, to: KEY, grouping: {{type: PARTIAL_KEY, args: [n]}}}}
  - from: numbers
    to: CUSTOM
    grouping: {{type: CUSTOM, customClass: {{className: parts.First, constructorArgs: [5]}}}}
""",
    )
    found = {id: one.inputs[0] for id, one in topology.components.items() if one.inputs}
    assert (found["FIELDS"].fields, found["FIELDS"].stream) == (("n",), "odd")
    assert found["KEY"].fields == ("n",)
    assert isinstance(found["CUSTOM"].custom, CustomGrouping) and found["CUSTOM"].custom.number == 5  # type: ignore[attr-defined]
    kinds_of = {id: grouping_name(one.grouping).upper() for id, one in found.items()}
    assert kinds_of == {**{kind: kind for kind in kinds}, "FIELDS": "FIELDS", "KEY": "PARTIAL_KEY", "CUSTOM": "CUSTOM"}


def test_a_stream_that_is_declared_direct_has_a_direct_grouping(place: Path) -> None:
    topology = built(
        place,
        f"""{SMALL.replace("Numbers", "Directs")}
bolts:
  - {{id: add, className: parts.Add}}
streams:
  - {{from: numbers, to: add, grouping: {{type: DIRECT}}}}
""",
    )
    assert grouping_name(topology.components["add"].inputs[0].grouping) == "direct"


def test_files_are_included_and_override_only_if_told(place: Path) -> None:
    (place / "more").mkdir()
    written(place, SMALL.replace("numbers,", "other,"), "more/other.yaml")
    written(
        place,
        """
        config: {topology.workers: 5, own.key: theirs}
        spouts:
          - {id: numbers, className: parts.Numbers, parallelism: 9}
        """,
        "more/numbers.yaml",
    )

    def parallelism(override: str) -> tuple[int, Any]:
        found = load_flux(
            written(
                place,
                f"""
                name: both
                config: {{topology.workers: 2}}
                includes:
                  - {{resource: false, file: more/other.yaml}}
                  - {{file: more/numbers.yaml{override}}}
                spouts:
                  - {{id: numbers, className: parts.Numbers}}
                """,
            )
        )
        assert set(found.topology.components) == {"numbers", "other"}
        return found.topology.components["numbers"].parallelism, found.conf

    assert parallelism("") == (1, {"topology.workers": 2, "own.key": "theirs"})
    assert parallelism(", override: true") == (9, {"topology.workers": 5, "own.key": "theirs"})


def test_a_source_makes_the_topology_of_the_configuration(place: Path) -> None:
    text = """
    name: made
    config: {spout.id: chosen}
    topologySource: {className: parts.Source, constructorArgs: [8]}
    """
    assert component(built(place, text), "chosen").left == 8
    wrong = text.replace("[8]}", "[8], methodName: nothing}")
    assert refusal(place, wrong) == "topology.yaml:4: topologySource: nothing must return a Topology, not int"


def test_placeholders_are_values_of_properties_and_of_the_environment(place: Path) -> None:
    text = SMALL.replace("Numbers}", "Numbers, constructorArgs: [${count}, ]}  # ${is.here}\n# ${not.read}")
    values = {"count": "4", "is.here": "kept"}
    assert component(built(place, text, properties=values), "numbers").left == 4
    told = refusal(place, text.replace("${count}", "${ENV-COUNT}"), properties=values)
    assert told == "topology.yaml:4: ${ENV-COUNT} stands for an environment variable: give --env-filter"
    found = built(place, text.replace("${count}", "${ENV-COUNT}"), properties=values, environment={"COUNT": "6"})
    assert component(found, "numbers").left == 6
    told = refusal(place, text.replace("${count}", "${ENV-COUNT}"), properties=values, environment={})
    assert told == "topology.yaml:4: ${ENV-COUNT} has no value: the environment has no COUNT"


def test_properties_are_lines_of_names_and_values(tmp_path: Path) -> None:
    path = tmp_path / "values"
    path.write_text("# a comment\n! another\n\n  a.b = 1 = 2 \nc: d\ne=\n")
    assert read_properties(path) == {"a.b": "1 = 2", "c": "d", "e": ""}
    path.write_text("a = 1\nnothing\n")
    with pytest.raises(UsageError, match=r"values:2: 'nothing' is not a line such as"):
        read_properties(path)
    with pytest.raises(UsageError, match="cannot be read"):
        read_properties(tmp_path / "absent")


@pytest.mark.parametrize(
    ("pair", "said"),
    [
        ("topology.wrokers: 2", "unknown configuration key 'topology.wrokers'; did you mean 'topology.workers'?"),
        ("topology.workers: two", "configuration key 'topology.workers' takes a whole number of at least 1"),
    ],
)
def test_a_mistake_in_the_configuration_has_its_line(place: Path, pair: str, said: str) -> None:
    assert refusal(place, f"name: x\nspouts:\n{SPOUT}config:\n  own.key: 1\n  {pair}\n").startswith(
        f"topology.yaml:6: {said}"
    )


def test_merge_keys_are_those_of_the_mapping_where_it_has_none(place: Path) -> None:
    found = load_flux(
        written(
            place,
            """
            name: merged
            config:
              <<: &common {a: 1, b: 1}
              b: 2
            spouts:
              - &first {id: numbers, className: parts.Numbers, parallelism: 3}
              - {<<: *first, id: others, constructorArgs: [7]}
              - {<<: [{parallelism: 5}, *first], id: more}
            """,
        )
    )
    assert found.conf == {"a": 1, "b": 2}
    components = found.topology.components
    assert {id: one.parallelism for id, one in components.items()} == {"numbers": 3, "others": 3, "more": 5}
    assert components["others"].component.left == 7


def test_arguments_may_have_any_name_and_classes_may_be_nested(place: Path) -> None:
    topology = built(
        place,
        f"""{SMALL[:-2]}, properties: [{{name: names, reflist: [takes, inner]}}]}}
components:
  - {{id: takes, className: parts.Takes, constructorArgs: {{item: 1, what: 2, maker: 3}}}}
  - {{id: inner, className: parts.Outer.Inner}}
""",
    )
    takes, inner = component(topology, "numbers").names
    assert takes.item == 1
    assert type(inner).__name__ == "Inner"


def test_an_object_of_a_module_stays_as_it_is(place: Path) -> None:
    topology = built(
        place,
        f"""{SMALL}
bolts:
  - {{id: one, className: parts.double, properties: [{{name: blocking, value: true}}]}}
  - {{id: two, className: parts.double}}
streams:
  - {{from: numbers, to: one, grouping: {{type: ALL}}}}
  - {{from: numbers, to: two, grouping: {{type: ALL}}}}
""",
    )
    assert (component(topology, "one").blocking, component(topology, "two").blocking) == (True, False)


def test_a_file_that_is_included_twice_counts_once(place: Path) -> None:
    (place / "deep" / "er").mkdir(parents=True)
    written(place, f"{BOLT}streams:\n  - {{from: numbers, to: add, grouping: {{type: ALL}}}}\n", "deep/er/end.yaml")
    for name in ("left", "right"):
        written(place, "includes:\n  - {file: er/end.yaml}\n", f"deep/{name}.yaml")
    written(place, "name: ${name}\n", "deep/named.yaml")
    text = "".join(f"  - {{file: deep/{name}.yaml}}\n" for name in ("left", "right", "named"))
    found = load_flux(written(place, f"includes:\n{text}spouts:\n{SPOUT}"), {"name": "from below"})
    assert (found.name, len(found.topology.components["add"].inputs)) == ("from below", 1)
    written(place, "includes:\n  - {file: ../topology.yaml}\n", "deep/named.yaml")
    told = refusal(place, f"includes:\n{text}spouts:\n{SPOUT}")
    assert told == "deep/named.yaml:2: a file includes itself: topology.yaml -> named.yaml -> topology.yaml"


def test_a_value_of_a_placeholder_is_never_more_than_a_part_of_its_line(place: Path) -> None:
    found = load_flux(written(place, SMALL.replace("small", "'${name}'")), {"name": "a #\rconfig: {b: 1}\u2028c\nd"})
    assert (found.name, found.conf) == ("a # config: {b: 1} c d", {})


def test_a_module_that_is_not_the_one_beside_the_file_is_refused(place: Path) -> None:
    (place / "colorsys.py").write_text("class Numbers: pass\n")
    import colorsys

    told = refusal(place, "name: x\nspouts:\n  - {id: n, className: colorsys.Numbers}\n")
    assert (
        told
        == f"topology.yaml:3: spout 'n': module colorsys is {colorsys.__file__}, not {place}/colorsys.py: rename it"
    )


def test_line_ends_of_windows_and_a_byte_order_mark_are_no_mistakes(place: Path) -> None:
    path = written(place, SMALL)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert load_flux(path).name == "small"


def test_filters_are_for_yaml(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "app.py").write_text("topology = None\n")
    assert main(["local", f"{place}/app.py", "--env-filter"]) == 2
    assert "--filter and --env-filter are for topologies in YAML" in capsys.readouterr().err
    assert main(["local", f"{place}/absent.yaml"]) == 2
    assert "there is no topology file" in capsys.readouterr().err
