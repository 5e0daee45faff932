"""Flux files for tests: a module of components beside them, and what becomes of a file."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tupletree import Topology
from tupletree.errors import UsageError
from tupletree.flux import load_flux

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


SPOUT = "  - {id: numbers, className: parts.Numbers}\n"
BOLT = "bolts:\n  - {id: add, className: parts.Add}\n"
