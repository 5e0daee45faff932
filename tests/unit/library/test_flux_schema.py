"""The JSON schema of topologies in YAML agrees with what load_flux takes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest
import yaml
from flux_scene import BOLT, SMALL, SPOUT, built, place, refusal

from tupletree.cli.main import main
from tupletree.flux import flux_schema, render_flux_schema

__all__ = ["place"]

ROOT = Path(__file__).resolve().parents[3]
SCHEMA = jsonschema.Draft7Validator(flux_schema())
STREAM = "streams:\n  - {from: numbers, to: add, grouping: "

GOOD = [
    SMALL,
    f"name: x\nspouts:\n{SPOUT}config:\ncomponents:\n",
    f"{SMALL}config: {{topology.workers: 2, my.key: [1]}}\n",
    f"{SMALL}components:\n  - {{id: a, className: parts.Helper, constructorArgs: {{}}}}\n",
    f"{SMALL}{BOLT}{STREAM}{{type: local_or_Shuffle}}}}\n",
    f"{SMALL}{BOLT}{STREAM}{{type: FIELDS, args: [n], streamId: odd}}}}\n",
    f"{SMALL}{BOLT}{STREAM}{{type: CUSTOM, customClass: {{className: parts.First, constructorArgs: [1]}}}}}}\n",
    "name: x\nspouts:\n  - {id: n, className: parts.Numbers, factory: many, factoryArgs: [2], parallelism: 2}\n",
    "name: x\nspouts:\n  - {id: n, className: parts.Numbers, properties: [{name: step, value: 2}]}\n",
    "name: x\nspouts:\n  - {id: n, className: parts.Numbers, configMethods: [{name: with_call, args: [1]}]}\n",
]
BAD = [
    "- a\n",
    "nmae: x\n",
    "name: 7\n",
    "name: x\nspouts: {id: n}\n",
    "name: x\nspouts:\n  - {id: n}\n",
    "name: x\nspouts:\n  - {id: n, className: parts.Numbers, paralelism: 2}\n",
    "name: x\nspouts:\n  - {id: n, className: parts.Numbers, parallelism: 0}\n",
    "name: x\nspouts:\n  - {id: n, className: parts.Numbers, parallelism: two}\n",
    "name: x\nspouts:\n  - {id: n, className: parts.Numbers, cpuLoad: 50}\n",
    "name: x\nspouts:\n  - {id: n, className: parts.Numbers, properties: [{name: step}]}\n",
    "name: x\nspouts:\n  - {id: n, className: parts.Numbers, properties: [{name: step, value: 1, ref: a}]}\n",
    f"{SMALL}components:\n  - {{id: a, className: parts.Helper, constructorArgs: {{ref: b}}}}\n",
    f"{SMALL}{BOLT}{STREAM}{{type: SHUFLE}}}}\n",
    f"{SMALL}{BOLT}{STREAM}{{type: FIELDS}}}}\n",
    f"{SMALL}{BOLT}{STREAM}{{type: CUSTOM}}}}\n",
    f"{SMALL}{BOLT}{STREAM}{{args: [n]}}}}\n",
    f"{SMALL}includes: [more.yaml]\n",
]


@pytest.mark.parametrize("text", GOOD)
def test_a_file_that_makes_a_topology_is_accepted(text: str, place: Path) -> None:
    assert built(place, text).components
    SCHEMA.validate(yaml.safe_load(text))


@pytest.mark.parametrize("text", BAD)
def test_a_file_whose_form_is_wrong_is_refused_by_both(text: str, place: Path) -> None:
    assert "cannot be imported" not in refusal(place, text)
    assert not SCHEMA.is_valid(yaml.safe_load(text))


def test_values_of_the_configuration_are_those_of_its_keys() -> None:
    assert not SCHEMA.is_valid({"name": "x", "config": {"topology.workers": "two"}})
    assert not SCHEMA.is_valid({"name": "x", "config": {"topology.wrokers": 2}})


@pytest.mark.parametrize("text", ["parallelism: ${n}", "numTasks: '${ENV-TASKS}'", "properties: ${more}"])
def test_a_placeholder_may_stand_for_a_number_or_a_list(text: str) -> None:
    SCHEMA.validate(yaml.safe_load(f"spouts:\n  - id: n\n    className: a.B\n    {text}\n"))
    SCHEMA.validate(yaml.safe_load("config:\n  topology.workers: ${workers}\n"))


def test_the_topology_of_the_guide_is_accepted() -> None:
    guide = (ROOT / "docs" / "guides" / "flux.md").read_text(encoding="utf-8")
    found = re.findall(r"```yaml\n(.*?)```", guide, re.DOTALL)
    assert found
    for text in found:
        SCHEMA.validate(yaml.safe_load(text))


def test_the_shipped_schema_is_the_one_that_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    jsonschema.Draft7Validator.check_schema(flux_schema())
    text = (ROOT / "deploy" / "conf" / "topology.schema.json").read_text(encoding="utf-8")
    assert text == render_flux_schema(), "run: tupletree config schema --flux > deploy/conf/topology.schema.json"
    assert main(["config", "schema", "--flux", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == flux_schema()
