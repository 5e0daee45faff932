"""The census of a process's memory: numbers, sizes, the largest objects and their holders, and the end of the time."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import pytest

from tupletree.worker.debugging.memory_census import take_census
from tupletree.worker.debugging.memory_report import Census, Large, Use, report

COUNT = 30_000


class Counted:
    """An object that nothing else makes."""

    def __init__(self, held: Any) -> None:
        self.held = held


class Text(str):
    """A text that nothing else makes. The collector does not know it, as it cannot refer to others."""

    __slots__ = ()


class Measure(float):
    """A number that nothing else makes, and that the collector does not know."""

    __slots__ = ()


class Untold:
    """An object whose size cannot be asked for."""

    def __sizeof__(self) -> int:
        raise ValueError("no size")


def used(census: Census, name: str) -> Use:
    return next((use for kind, use in census.types.items() if kind.endswith(name)), Use())


@pytest.fixture(scope="module")
def process() -> Iterator[ProcessPoolExecutor]:
    """A process of its own: that of the tests has millions of objects, and a census looks at each."""
    with ProcessPoolExecutor(1, get_context("spawn")) as running:
        yield running


def of_counted(number: int) -> Census:
    kept = [Counted([one]) for one in range(number)]
    census = take_census(30)
    assert len(kept) == number
    return census


@pytest.mark.long
def test_objects_are_counted_by_type(process: ProcessPoolExecutor) -> None:
    census = process.submit(of_counted, 1000).result()
    assert (census.seen, used(census, "Counted").count) == (1.0, 1000)
    assert 0 <= census.paused_s <= census.took_s
    assert used(census, "Counted").bytes >= 1000 * 16


def of_texts(number: int) -> Census:
    texts = [Text(one) for one in range(number)]
    again = list(texts)  # each belongs to both lists by half
    rows = [(Text(one), Measure(one)) for one in range(number)]
    numbers = Counted({Text(one): Measure(one) for one in range(number)})  # looked at in part
    ring = deque(Text(one) for one in range(number))
    census = take_census(30)
    assert len(again) + len(rows) + len(numbers.held) + len(ring) == 4 * number
    return census


@pytest.mark.long
def test_objects_without_references_are_found_through_those_that_refer_to_them(process: ProcessPoolExecutor) -> None:
    census = process.submit(of_texts, COUNT).result()
    assert 0.95 * 4 * COUNT < used(census, "Text").count < 1.05 * 4 * COUNT
    assert 0.95 * 2 * COUNT < used(census, "Measure").count < 1.05 * 2 * COUNT


def of_large(size: int) -> Census:
    kept = Counted(bytearray(size))
    census = take_census(30)
    assert len(kept.held) == size
    return census


@pytest.mark.long
def test_the_largest_objects_and_what_holds_them(process: ProcessPoolExecutor) -> None:
    size = 50_000_000
    [largest] = [one for one in process.submit(of_large, size).result().largest if one.items == size]
    assert (largest.type, largest.bytes > size) == ("bytearray", True)
    assert any(holder.endswith("Counted") or "held" in holder for holder in largest.holders)


def of_untold() -> Census:
    kept = [Untold(), [Untold()]]
    census = take_census(30)
    assert len(kept) == 2
    return census


@pytest.mark.long
def test_an_object_without_a_size_is_counted(process: ProcessPoolExecutor) -> None:
    assert used(process.submit(of_untold).result(), "Untold") == Use(2.0, 0.0)


def test_a_census_ends_when_its_time_is_over() -> None:
    kept = [[number] for number in range(10_000)]
    census = take_census(0.0)
    assert len(kept) == 10_000 and 0 < census.seen < 1
    assert re.search(r"The time was over after \d+% of the objects", report("t", census, None))


def test_a_report() -> None:
    uses = {f"kind{number:02}": Use(1.0, 10.0) for number in range(61)} | {"words.Count": Use(12.0, 3_000_000.0)}
    large = [Large("dict", 2_000_000, 40_000, ["words.Count"]), Large("array", 1_000_000, None, [])]
    text = report("Memory of worker w", Census(uses, large, 1.0, 0.012, 1.25), 412_345_678)
    assert text.splitlines() == [
        "Memory of worker w",
        "",
        "       412.3 MB  resident memory of the process and those that it has started",
        "         3.0 MB  in 73 objects of Python",
        "",
        "          bytes      objects  type",
        "      3,000,000           12  words.Count",
        *(f"             10            1  kind{number:02}" for number in range(59)),
        "             20            2  2 other types",
        "",
        "          bytes        items  largest objects, each without what is in it",
        "      2,000,000       40,000  dict, in words.Count",
        "      1,000,000               array",
        "",
        "Counted in 1.2 s, of which no other thread ran for 12 ms.",
        "Memory that C libraries hold for objects (Arrow, gRPC) is in the resident memory alone.",
    ]
