"""The results of a table stay as they were handed on, also if the function of the user changes its value in place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest

from tupletree.streams import KeyedStream, StreamBuilder
from tupletree.streams.elements import own_copy
from tupletree.streams.graph import Kind
from tupletree.streams.layout import Layout
from tupletree.streams.operators import COUNT, LATEST
from tupletree.streams.steps import Combine, Emit, Next, Step, passes_on


def appended(values: list[int], number: int) -> list[int]:
    values.append(number)
    return values


def appended_within(value: tuple[int, dict[str, list[int]]], number: int) -> tuple[int, dict[str, list[int]]]:
    value[1].setdefault("all", []).append(number)
    return value[0] + 1, value[1]


def passed_on(values: list[int] | None, number: int) -> tuple[list[int], list[int]]:
    new = appended(values or [], number)
    return new, new


def added(first: dict[int, int], second: dict[int, int]) -> dict[int, int]:
    first.update(second)
    return first


Numbers = KeyedStream[int, int]
TABLES: dict[str, tuple[Callable[[Numbers], Any], Callable[[int], Any]]] = {
    "aggregate": (lambda numbers: numbers.aggregate(list, appended), lambda n: list(range(n))),
    "aggregate, nested": (
        lambda numbers: numbers.aggregate(lambda: (0, {}), appended_within),
        lambda n: (n, {"all": list(range(n))}),
    ),
    "update_state": (lambda numbers: numbers.update_state(passed_on), lambda n: list(range(n))),
    "reduce": (
        lambda numbers: numbers.map(lambda n: {n: n}).reduce(added, combine=False),
        lambda n: {one: one for one in range(n)},
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_results_do_not_change_under_their_consumer(name: str) -> None:
    table, value = TABLES[name]
    numbers = StreamBuilder().source(range(6)).key_by(lambda n: 0)
    assert table(numbers).collect(6, seconds=60) == [(0, value(n)) for n in range(1, 7)]


@pytest.mark.parametrize("name", TABLES)
def test_results_do_not_change_on_their_way_to_another_component(name: str) -> None:
    table, value = TABLES[name]
    numbers = StreamBuilder().source(range(6)).key_by(lambda n: 0)
    results = table(numbers).items().map(lambda pair: str(pair[1]), parallelism=2)
    assert sorted(results.collect(6, seconds=60)) == sorted(str(value(n)) for n in range(1, 7))


class Pair(NamedTuple):
    first: Any
    second: int


@dataclass
class Box:
    values: list[int] = field(default_factory=list)


@pytest.mark.parametrize("value", [[1], {"a": 1}, {1}, [[1]], {"a": [1]}, Pair([1], 2), Box([1]), (Box(),)])
def test_the_copy_of_what_can_be_changed_is_another(value: Any) -> None:
    copy = own_copy(value)
    assert copy == value and copy is not value and type(copy) is type(value)


def test_the_copy_of_a_nested_value_has_no_parts_in_common() -> None:
    for value in ([[1]], {0: [1]}, Pair([1], 2)):
        assert own_copy(value)[0] is not value[0]  # type: ignore[index]


@pytest.mark.parametrize("value", [1, 1.5, "a", b"a", True, None, (), (1, "a"), Pair(1, 2)])
def test_what_cannot_be_changed_is_not_copied(value: Any) -> None:
    assert own_copy(value) is value


def test_a_value_that_only_maps_see_is_not_copied_for_others() -> None:
    emit = Emit("default", Layout())
    kept: list[tuple[Next, ...]] = [
        (),
        (Step(Kind.MAP, len, (emit,)),),
        (Step(Kind.FILTER, bool, (Step(Kind.ITEMS, None, (Step(Kind.FLAT_MAP, list, (emit,)),)),)),),
        (Step(Kind.KEY_BY, len, (Combine("partial", COUNT),)),),
        (Emit("keys", Layout(has_key=True, has_value=False)),),
    ]
    passed: list[tuple[Next, ...]] = [
        (emit,),
        (Step(Kind.MAP, len, (emit,)), Step(Kind.ITEMS, None, (emit,))),
        (Step(Kind.PEEK, print),),
        (Step(Kind.BRANCH, (bool,), (Step(Kind.CASE, None, (emit,)),)),),
        (Combine("partial", LATEST),),
    ]
    assert [passes_on(then) for then in kept] == [False] * len(kept)
    assert [passes_on(then) for then in passed] == [True] * len(passed)
