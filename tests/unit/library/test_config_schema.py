"""The JSON schema of tupletree.yaml agrees with the checks of the loader."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tupletree import config
from tupletree.cli.main import main
from tupletree.config import KEYS
from tupletree.errors import ConfigError

SHIPPED = Path(__file__).parents[3] / "deploy" / "conf"
SCHEMA = jsonschema.Draft7Validator(config.json_schema())

WHOLE = st.integers(-(2**64), 2**64) | st.integers(-2, 70_000)
NUMBERS = WHOLE | st.floats(-1e6, 1e6).filter(lambda number: number % 1 != 0)
WORDS = ["", "INFO", "a", "host:2181", "/", "/a", "/a/b", "/a/", "//a", "/a/../b", "/.", "/..a", "a/b"]
TEXTS = st.sampled_from(WORDS)
SCALARS = st.none() | st.booleans() | NUMBERS | TEXTS
LISTS = st.lists(TEXTS, max_size=3) | st.lists(st.integers(-2, 70_000), max_size=3) | st.lists(SCALARS, max_size=3)
VALUES = SCALARS | LISTS | st.dictionaries(st.sampled_from(["a", "b"]), SCALARS, max_size=2)
NAMES = [*KEYS, "topology.wrokers", "topology", "nimbus.", "nimbusse", "ui.port", "spark.master", "my.key", "storm.x.y"]


def accepts(conf: dict[str, Any]) -> bool:
    """True if the loader accepts a configuration."""
    try:
        config.validate(conf)
    except ConfigError:
        return False
    return True


def test_the_shipped_schema_is_that_of_the_table_of_keys() -> None:
    text = (SHIPPED / "tupletree.schema.json").read_text(encoding="utf-8")
    assert text == config.render_schema(), "run: tupletree config schema > deploy/conf/tupletree.schema.json"


def test_the_schema_is_one_and_accepts_every_default() -> None:
    jsonschema.Draft7Validator.check_schema(config.json_schema())
    SCHEMA.validate(yaml.safe_load((SHIPPED / "tupletree.yaml").read_text(encoding="utf-8")))
    SCHEMA.validate(None)  # an empty file


@given(st.sampled_from(NAMES), VALUES)
def test_the_schema_and_the_loader_agree(name: str, value: Any) -> None:
    assert SCHEMA.is_valid({name: value}) == accepts({name: value})


@pytest.mark.parametrize("name", NAMES)
def test_the_schema_and_the_loader_agree_on_each_text(name: str) -> None:
    differ = [word for word in WORDS if SCHEMA.is_valid({name: word}) != accepts({name: word})]
    assert differ == []


@pytest.mark.parametrize("name", KEYS)
def test_each_key_has_its_meaning_and_its_default(name: str) -> None:
    shown = config.json_schema()["properties"][name]
    assert shown["description"].startswith(KEYS[name].doc)
    assert shown["default"] == KEYS[name].default


def test_the_command_prints_the_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "schema"]) == 0
    assert capsys.readouterr().out == config.render_schema()
    assert main(["config", "schema", "--json"]) == 0
    [line] = capsys.readouterr().out.splitlines()
    assert json.loads(line) == config.json_schema()
