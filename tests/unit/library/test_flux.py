"""Topologies in YAML: what a file describes is what is built, and each mistake is told with its line."""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tupletree import CustomGrouping, Topology
from tupletree.cli.main import main
from tupletree.errors import UsageError
from tupletree.flux import load_flux, read_properties
from tupletree.flux.documents import MAX_BYTES
from tupletree.grouping import grouping_name

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "flux.md"

PARTS = """
from tupletree import BasicBolt, CustomGrouping, Spout, TopologyBuilder, bolt

class Numbers(Spout):
    outputs = {"default": ["n"], "odd": ["n"], "told": ["n"]}
    step = 1
    names = ()
    def __init__(self, count=3):
        self.left = count
        self.calls = []
    @classmethod
    def many(cls, count):
        return cls(10 * count)
    def with_call(self, *arguments):
        self.calls.append(arguments)
        return self
    def declare_output_fields(self, declarer):
        super().declare_output_fields(declarer)
    def next_tuple(self):
        pass

class Add(BasicBolt):
    outputs = ["n"]
    def __init__(self, helper=None, *more, scale=1):
        self.helper, self.more, self.scale = helper, more, scale
    def execute(self, tup, collector):
        pass

class Helper:
    def __init__(self, *arguments):
        self.arguments = arguments

@bolt(outputs=["n"])
def double(tup):
    yield [2 * tup["n"]]

class First(CustomGrouping):
    def __init__(self, number):
        self.number = number
    def prepare(self, context, stream, target_tasks):
        self.target = target_tasks[0]
    def choose_tasks(self, task_id, values):
        return [self.target]

class Directs(Spout):
    def declare_output_fields(self, declarer):
        declarer.declare(["n"], direct=True)
    def next_tuple(self):
        pass

class Outer:
    class Inner:
        pass

class Exits:
    def __init__(self):
        raise SystemExit(0)

class Hides:
    @property
    def secret(self):
        raise ValueError("no secret")

class Takes:
    def __init__(self, item, what=None, maker=None, self_=None):
        self.item = item

class Raises:
    def __init__(self):
        raise LookupError("no such table")

class Source:
    def __init__(self, count):
        self.count = count
    def get_topology(self, conf):
        builder = TopologyBuilder()
        builder.set_spout(conf["spout.id"], Numbers(self.count))
        return builder
    def nothing(self, conf):
        return 7
"""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A directory with a module of components, whose name no other test's has."""
    (tmp_path / f"parts_{tmp_path.name}.py").write_text(PARTS)
    before = list(sys.path)
    yield tmp_path
    sys.path[:] = before


def written(place: Path, text: str, name: str = "topology.yaml") -> Path:
    path = place / name
    path.write_text(textwrap.dedent(text).replace("parts.", f"parts_{place.name}."))
    return path


def built(place: Path, text: str, **values: Any) -> Topology:
    return load_flux(written(place, text), **values).topology


def component(topology: Topology, id: str) -> Any:
    return topology.components[id].component


def refusal(place: Path, text: str, **values: Any) -> str:
    with pytest.raises(UsageError) as refused:
        load_flux(written(place, text), **values)
    return str(refused.value).removeprefix(f"{place}/")


SMALL = """
name: small
spouts:
  - {id: numbers, className: parts.Numbers}
"""


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


SPOUT = "  - {id: numbers, className: parts.Numbers}\n"
BOLT = "bolts:\n  - {id: add, className: parts.Add}\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "topology.yaml is empty"),
        ("name: [\n", "topology.yaml:2: not YAML: "),
        ("- a\n", "topology.yaml:1: the file is a list; a mapping"),
        ("nmae: x\n", "topology.yaml:1: the file has no 'nmae'; 'name' was meant?"),
        ("spouts:\n" + SPOUT, "topology.yaml lacks 'name'"),
        ("name: 7\n", "topology.yaml:1: name is 7; a text was expected"),
        ("name: x\n", "topology.yaml has no spout: it needs spouts, bolts and streams, or a topologySource"),
        ("name: x\nname: y\n", "topology.yaml:2: the file has 'name' twice"),
        (f"name: x\nspouts:\n{SPOUT}{SPOUT}", "topology.yaml:4: spout 'numbers' is there twice"),
        ("name: x\nspouts:\n  - {id: n}\n", "topology.yaml:3: spout 'n' lacks 'className'"),
        ("name: x\nspouts: {id: n}\n", "topology.yaml:2: spouts is a mapping; a list was expected"),
        (
            "name: x\nspouts:\n  - {id: n, className: Numbers}\n",
            ":3: spout 'n': className is 'Numbers'; a name such as",
        ),
        (
            "name: x\nspouts:\n  - {id: n, className: no_such_module.A}\n",
            ":3: spout 'n': no_such_module cannot be import",
        ),
        ("name: x\nspouts:\n  - {id: n, className: parts.Nmubers}\n", " has no 'Nmubers'"),
        ("name: x\nspouts:\n  - {id: n, className: org.apache.storm.Spout}\n", "is a Java class; name a Python class"),
        ("name: x\nspouts:\n  - {id: n, className: parts.Add}\n", ":3: spout 'n': Add is no spout"),
        ("name: x\nspouts:\n  - {id: n, className: parts.Raises}\n", "Raises raised LookupError: no such table ("),
        (
            "name: x\nspouts:\n  - {id: n, className: parts.Numbers, parallelism: 0}\n",
            "parallelism is 0; a number from 1",
        ),
        ("name: x\nspouts:\n  - {id: n, className: parts.Numbers, cpuLoad: 50}\n", "spout 'n': cpuLoad has no effect"),
        (
            "name: x\nspouts:\n  - {id: n, className: parts.Numbers, constructorArgs: [1, 2]}\n",
            "Numbers raised TypeError",
        ),
        (
            f"{SMALL}components:\n  - {{id: a, className: parts.Raises}}\n",
            ":6: component 'a': Raises raised LookupError",
        ),
        (
            f"{SMALL}components:\n  - {{id: a, className: parts.Helper, constructorArgs: [{{ref: a}}]}}\n",
            ":6: component 'a' refers to itself: a -> a",
        ),
        (
            f"{SMALL}components:\n  - {{id: a, className: parts.Helper, constructorArgs: [{{ref: b}}]}}\n",
            ":6: there is no component 'b'",
        ),
        (
            "name: x\nspouts:\n  - {id: n, className: parts.Numbers, properties: [{name: stpe, value: 1}]}\n",
            ":3: spout 'n': Numbers has no 'stpe'",
        ),
        (
            "name: x\nspouts:\n  - {id: n, className: parts.Numbers, properties: [{name: step}]}\n",
            ":3: a property has one of value, ref and reflist",
        ),
        (
            "name: x\nspouts:\n  - {id: n, className: parts.Numbers, configMethods: [{name: with_cll}]}\n",
            ":3: spout 'n': Numbers has no 'with_cll'",
        ),
        (f"{SMALL}{BOLT}", ":6: bolt 'add' has no input; give it a grouping"),
        (
            f"{SMALL}{BOLT}streams:\n  - {{from: nubmers, to: add, grouping: {{type: ALL}}}}\n",
            ":8: there is no spout or bolt 'nubmers'",
        ),
        (
            f"{SMALL}{BOLT}streams:\n  - {{from: add, to: numbers, grouping: {{type: ALL}}}}\n",
            ":8: 'numbers' is a spout, and no stream leads to one",
        ),
        (
            f"{SMALL}{BOLT}streams:\n  - {{from: numbers, to: add, grouping: {{type: RANDOM}}}}\n",
            ":8: there is no grouping RANDOM; there are ALL, CUSTOM, ",
        ),
        (
            f"{SMALL}{BOLT}streams:\n  - {{from: numbers, to: add, grouping: {{type: FIELDS}}}}\n",
            ":8: a grouping of type FIELDS needs args: the names of the fields",
        ),
        (
            f"{SMALL}{BOLT}streams:\n  - {{from: numbers, to: add, grouping: {{type: FIELDS, args: [m]}}}}\n",
            "bolt 'add'",
        ),
        (
            f"{SMALL}{BOLT}streams:\n  - {{from: numbers, to: add, grouping: {{type: SHUFFLE, args: [n]}}}}\n",
            ":8: a grouping of type SHUFFLE takes no args",
        ),
        (f"{SMALL}includes:\n  - {{file: absent.yaml}}\n", ":6: there is no file "),
        (
            f"{SMALL}includes:\n  - {{file: topology.yaml}}\n",
            ":6: a file includes itself: topology.yaml -> topology.yaml",
        ),
        (
            f"{SMALL}topologySource: {{className: parts.Source}}\n",
            "a topologySource makes the topology: leave out spouts",
        ),
    ],
)
def test_a_mistake_is_told_with_its_line(place: Path, text: str, told: str) -> None:
    assert told in refusal(place, text)


LONG = """\
name: long
config:
  topology.workers: 2
  a.list:
    - 1
  bad: {value}
spouts:
  - id: numbers
    className: parts.Numbers
    properties:
      - name: step
        value: {step}
"""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            LONG.format(value="!!python/object/apply:os.system ['touch x']", step=1),
            ":6: !!python/object/apply:os.system",
        ),
        (LONG.format(value="!foo {a: 1}", step=1), ":6: !foo is no tag that a topology file may have"),
        (LONG.format(value="!foo 4", step=1), ":6: not a value: could not determine a constructor"),
        (LONG.format(value="2020-99-01", step=1), ":6: not a value: month must be in 1..12"),
        (LONG.format(value="2020-09-01", step=1), ":6: "),
        (LONG.format(value="{b: 1, b: 2}", step=1), ":6: a value has 'b' twice"),
        (LONG.format(value=1, step="!!python/name:os.system"), ":12: not a value: "),
        (LONG.format(value=1, step="{ref: a, name: b}"), ":12: beside ref there is name: ref stands alone"),
        (
            f"{SMALL}components:\n  - id: a\n    className: parts.Exits\n",
            ":6: component 'a': Exits raised SystemExit: 0",
        ),
        (
            f"{SMALL}components:\n  - id: a\n    className: parts.Hides\n    properties:\n"
            "      - {name: secret, value: 1}\n",
            ":9: component 'a': secret raised ValueError: no secret",
        ),
        (
            f"{SMALL}components:\n  - {{id: b, className: parts.Helper}}\n  - id: a\n    className: parts.Helper\n"
            "    constructorArgs:\n      ref: b\n",
            ":10: component 'a': arguments are a list: write '- ref: …'",
        ),
        (
            f"{SMALL}components:\n  - id: a\n    className: parts.Helper\n    factoryArgs: [1]\n",
            ":8: component 'a': factoryArgs has no effect: there is no factory",
        ),
        (
            "name: x\nspouts:\n  - id: n\n    className: parts.Numbers\n    factory: many\n    constructorArgs: [1]\n",
            ":6: spout 'n': constructorArgs has no effect: a factory has factoryArgs",
        ),
        (
            f"{SMALL}{BOLT}streams:\n  - from: numbers\n    to: add\n    grouping:\n      type: ALL\n"
            "      customClass: {className: no.Such}\n",
            ":12: a grouping of type ALL takes no customClass",
        ),
        ("name: x\nspouts:\n  - id: on\n    className: parts.Numbers\n", ":3: id is True; a text was expected: put it"),
        (
            f"{SMALL}{BOLT}streams:\n  - {{from: numbers, to: add, grouping: ALL}}\n",
            "such as 'type: SHUFFLE' was expected",
        ),
        (SMALL.replace("small", "${a b"), ":2: '${a b' is no placeholder such as ${kafka.hosts}"),
    ],
)
def test_a_mistake_within_an_entry_is_told_with_its_own_line(place: Path, text: str, told: str) -> None:
    assert told in refusal(place, text)


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


def test_files_that_are_too_large_or_endless_are_refused(place: Path) -> None:
    assert "a topology file has at most 1,000,000" in refusal(place, f"name: {'x' * MAX_BYTES}\n")
    laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)
    )
    assert "has more than 100,000 values, or a value within itself" in refusal(place, laughs)
    assert "or a value within itself" in refusal(place, "name: &a [*a]\n")


def test_filters_are_for_yaml(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "app.py").write_text("topology = None\n")
    assert main(["local", f"{place}/app.py", "--env-filter"]) == 2
    assert "--filter and --env-filter are for topologies in YAML" in capsys.readouterr().err
    assert main(["local", f"{place}/absent.yaml"]) == 2
    assert "there is no topology file" in capsys.readouterr().err
