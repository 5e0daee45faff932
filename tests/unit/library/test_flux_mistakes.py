"""Mistakes in Flux files: each is told with its line."""

from __future__ import annotations

from pathlib import Path

import pytest
from flux_scene import BOLT, SMALL, SPOUT, place, refusal

from tupletree.flux.documents import MAX_BYTES

__all__ = ["place"]


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


def test_files_that_are_too_large_or_endless_are_refused(place: Path) -> None:
    assert "a topology file has at most 1,000,000" in refusal(place, f"name: {'x' * MAX_BYTES}\n")
    laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)
    )
    assert "has more than 100,000 values, or a value within itself" in refusal(place, laughs)
    assert "or a value within itself" in refusal(place, "name: &a [*a]\n")
