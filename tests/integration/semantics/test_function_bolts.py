"""Functions as bolts: what they become, how they travel, and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import cloudpickle
import pytest
from local_components import Log

from tupletree import AsyncBolt, BasicBolt, TopologyBuilder, bolt
from tupletree.errors import UsageError
from tupletree.testing import FeederSpout, complete_topology

SEEN = Log()


@bolt(outputs=["word"])
def split(tup: Any) -> Iterator[list[str]]:
    """Split lines."""
    for word in tup["line"].split():
        yield [word]


@bolt(outputs=["word"])
def upper(tup: Any, collector: Any) -> None:
    collector.emit([tup["word"].upper()])


@bolt
def note(tup: Any) -> None:
    SEEN.append(tup["word"])


@bolt(outputs=["word"], in_flight=7, ordered=True)
async def reverse(tup: Any) -> AsyncIterator[list[str]]:
    await asyncio.sleep(0)
    yield [tup["word"][::-1]]


@bolt(outputs=["word"])
async def twice(tup: Any) -> list[list[str]]:
    return [[tup["word"] * 2]]


def emitted(**bolts: Any) -> dict[str, list[list[Any]]]:
    """Run bolts one after the other on two lines."""
    builder = TopologyBuilder()
    before: Any = builder.set_spout("lines", FeederSpout(["line"]))
    for name, made in bolts.items():
        before = builder.set_bolt(name, made).shuffle_grouping(before)
    return complete_topology(builder.create_topology(), {"lines": [["to be"], ["or not"]]})


def test_functions_are_bolts() -> None:
    SEEN.clear()
    found = emitted(split=split, upper=upper, reverse=reverse, twice=twice, note=note)
    assert found["split"] == [["to"], ["be"], ["or"], ["not"]]
    assert found["upper"] == [["TO"], ["BE"], ["OR"], ["NOT"]]
    assert found["reverse"] == [["OT"], ["EB"], ["RO"], ["TON"]]
    assert sorted(SEEN) == sorted(["OTOT", "EBEB", "RORO", "TONTON"])


def test_what_they_are() -> None:
    assert isinstance(split, BasicBolt)
    assert isinstance(reverse, AsyncBolt)
    assert (reverse.in_flight, reverse.ordered, reverse.timeout_s) == (7, True, 30.0)
    assert (split.__name__, split.__doc__) == ("split", "Split lines.")
    assert list(split({"line": "a b"})) == [["a"], ["b"]]


@pytest.mark.parametrize("made", [split, upper, reverse])
def test_a_copy_for_each_task_travels_by_its_name(made: Any) -> None:
    pickled = cloudpickle.dumps(made)
    assert len(pickled) < 200
    first, second = cloudpickle.loads(pickled), cloudpickle.loads(pickled)
    assert first is not second
    assert first is not made
    assert first.function is made.function


def test_a_function_without_a_name_in_its_module_travels_by_value() -> None:
    factor = 3

    @bolt(outputs=["word"])
    def times(tup: Any) -> Iterator[list[str]]:
        yield [tup["word"] * factor]

    travelled = cloudpickle.loads(cloudpickle.dumps(times))
    assert list(travelled({"word": "a"})) == [["aaa"]]
    assert emitted(split=split, times=times)["times"][0] == ["tototo"]


def test_mistakes_are_told_where_they_are_made() -> None:
    with pytest.raises(UsageError, match=r"the function takes \(\), and is called with \(tup\) or \(tup, collector\)"):
        bolt(lambda: None)
    with pytest.raises(
        UsageError, match=r"of .*awaits: the function takes \(tup, collector\), and is called with \(tup\)$"
    ):

        @bolt
        async def awaits(tup: Any, collector: Any) -> None: ...

    with pytest.raises(UsageError, match="there is no setting 'in_flight'; an async function has in_flight"):
        bolt(in_flight=3)(lambda tup: None)
    with pytest.raises(UsageError, match="a class derives from BasicBolt"):
        bolt(BasicBolt)
