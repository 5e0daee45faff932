"""Functions as components: what they become, how they travel, and what is refused."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any

import cloudpickle
import pytest
from local_components import Keep, Log

from tupletree import AsyncBolt, Backoff, BasicBolt, ReliableSpout, TopologyBuilder, bolt, spout
from tupletree.errors import UsageError
from tupletree.testing import FeederSpout, LocalCluster, complete_topology

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


@spout(outputs=["number"], max_ahead=7)
def numbers() -> Iterator[list[int]]:
    yield from ([number] for number in range(2))


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


def test_a_function_of_a_module_that_travels_by_value_does_so_too() -> None:
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    try:
        pickled = cloudpickle.dumps([split, reverse, numbers])
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    code = "import sys, cloudpickle; a, b, c = cloudpickle.loads(sys.stdin.buffer.read()); "
    code += "print(list(a({'line': 'x y'})), type(b).__mro__[1].__name__, list(c.read()))"
    ran = subprocess.run([sys.executable, "-c", code], input=pickled, capture_output=True, check=True)
    assert ran.stdout.decode().strip() == "[['x'], ['y']] OfFunction [[0], [1]]"


def test_a_generator_function_is_a_reliable_spout() -> None:
    log = Log()
    builder = TopologyBuilder()
    builder.set_spout("numbers", numbers)
    builder.set_bolt("sink", Keep(log)).shuffle_grouping("numbers")
    with LocalCluster() as cluster:
        cluster.submit("t", builder.create_topology())
        cluster.wait_until(lambda: cluster.is_at_end("t"))
    assert [values for _, values in log] == [[0], [1]]
    assert isinstance(numbers, ReliableSpout) and numbers.max_ahead == 7


@pytest.mark.parametrize("has_name", [True, False])
def test_the_retries_of_a_spout_travel_with_it(has_name: bool) -> None:
    builder, retry = TopologyBuilder(), Backoff(max_attempts=3)
    made = numbers if has_name else spout(outputs=["number"], max_ahead=7)(lambda: (yield [1]))
    builder.set_spout("numbers", made).set_retry(retry).set_dead_letters("rejected")
    [sent] = builder.create_topology().spec().components
    travelled = cloudpickle.loads(sent.object)
    assert (travelled.retry, travelled.dead_letters, travelled.max_ahead) == (retry, "rejected", 7)
    assert (numbers.retry, numbers.dead_letters) == (ReliableSpout.retry, None)


def test_mistakes_in_spouts_are_told_where_they_are_made() -> None:
    with pytest.raises(UsageError, match=r"@spout needs a generator function, not .*: yield rows"):
        spout(outputs=["n"])(lambda: [1])
    with pytest.raises(
        UsageError, match=r"@spout of .*two: the function takes \(a, b\), but is called with \(\) or \(spout\)"
    ):

        @spout(outputs=["n"])
        def two(a: Any, b: Any) -> Iterator[list[int]]:
            yield [1]

    with pytest.raises(UsageError, match=r"@spout of .*: there is no setting 'retries'; there are retry, max_ahead"):
        spout(outputs=["n"], retries=3)(lambda: (yield))


def test_mistakes_are_told_where_they_are_made() -> None:
    with pytest.raises(UsageError, match=r"the function takes \(\), but is called with \(tup\) or \(tup, collector\)"):
        bolt(lambda: None)
    with pytest.raises(
        UsageError, match=r"of .*awaits: the function takes \(tup, collector\), but is called with \(tup\)$"
    ):

        @bolt
        async def awaits(tup: Any, collector: Any) -> None: ...

    with pytest.raises(UsageError, match="there is no setting 'in_flight'; an async function has in_flight"):
        bolt(in_flight=3)(lambda tup: None)
    with pytest.raises(UsageError, match=r"@bolt needs a function, not .*; derive a class from BasicBolt instead"):
        bolt(BasicBolt)
