"""Programs of streams against straightforward computations over the same elements."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeGuard

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typing_extensions import TypeIs

from tupletree import Backoff, BasicBolt, FailedException, KeyedProcess, spout
from tupletree.component import BasicCollector
from tupletree.errors import TaskFailedError
from tupletree.keyed import KeyState, Timers
from tupletree.streams import KeyedStream, Stream, StreamBuilder, Table
from tupletree.testing import complete_topology
from tupletree.tuples import Tuple

LINES = ["to be or not to be", "", "that is the question", "to do is to be", "or not"] * 5
WORDS = [word for line in LINES for word in line.split()]


class Sale(NamedTuple):
    shop: str
    amount: int


SALES = [Sale(f"shop {number % 3}", number) for number in range(20)]


def program(elements: list[Any] | None = None, parallelism: int = 2) -> Stream[Any]:
    return StreamBuilder(parallelism=parallelism).source(LINES if elements is None else elements, name="lines")


def collected(stream: Stream[Any]) -> list[Any]:
    """Return all elements of a stream."""
    return stream.collect(1_000_000, seconds=60)


def newest(table: KeyedStream[Any, Any]) -> dict[Any, Any]:
    """Return the last update of each key of a table."""
    return dict(collected(table))


def test_words_are_counted() -> None:
    assert newest(program().flat_map(str.split).key_by(lambda word: word).count()) == Counter(WORDS)


def test_each_element_is_an_update_without_combining() -> None:
    updates = collected(program().flat_map(str.split).key_by(lambda word: word).count(combine=False))
    expected = sorted((word, number) for word, count in Counter(WORDS).items() for number in range(1, count + 1))
    assert sorted(updates) == expected


FOLDS: dict[str, tuple[Callable[[KeyedStream[str, int]], Table[str, Any]], Callable[[list[int]], Any]]] = {
    "count": (lambda keyed: keyed.count(), len),
    "sum": (lambda keyed: keyed.sum(), sum),
    "reduce": (lambda keyed: keyed.reduce(max), max),
    "reduce, not combined": (lambda keyed: keyed.reduce(min, combine=False), min),
    "aggregate": (
        lambda keyed: keyed.aggregate(list, lambda values, v: [*values, v]).map(sorted),
        sorted,
    ),
    "aggregate with merge": (
        lambda keyed: keyed.aggregate(list, lambda values, v: [*values, v], merge=lambda a, b: a + b).map(sorted),
        sorted,
    ),
}


@pytest.mark.parametrize("name", FOLDS)
def test_aggregations_equal_those_over_lists(name: str) -> None:
    fold, expected = FOLDS[name]
    groups: dict[str, list[int]] = defaultdict(list)
    for word in WORDS:
        groups[word[0]].append(len(word))
    keyed = program().flat_map(str.split).key_by(lambda word: word[0]).map(len)
    assert newest(fold(keyed)) == {key: expected(values) for key, values in groups.items()}


def test_the_newest_element_of_a_key_is_kept() -> None:
    keyed = program(SALES, parallelism=1).key_by(lambda sale: sale.shop)
    assert newest(keyed.latest()) == {sale.shop: sale for sale in SALES}


def test_a_state_is_updated_and_forgotten() -> None:
    def third(seen: int | None, element: int) -> tuple[int | None, bool]:
        return (None, True) if seen == 2 else ((seen or 0) + 1, False)

    stream = program(list(range(12)), parallelism=1).key_by(lambda number: number % 2).update_state(third)
    assert Counter(collected(stream)) == {(0, False): 4, (0, True): 2, (1, False): 4, (1, True): 2}


def test_narrow_operators_side_by_side_and_merged() -> None:
    numbers = program(list(range(50)))
    small, even = numbers.filter(lambda n: n < 10), numbers.filter(lambda n: n % 2 == 0).map(lambda n: -n)
    expected = [n for n in range(50) if n < 10] + [-n for n in range(0, 50, 2)]
    assert sorted(collected(small.merge(even).map(lambda n: n + 1))) == sorted(n + 1 for n in expected)


def test_streams_of_several_components_are_merged() -> None:
    builder = StreamBuilder(parallelism=2)
    first, second = builder.source(range(10), name="first"), builder.source(range(100, 110), name="second")
    merged = first.map(lambda n: n * 2).merge(second, first)
    assert sorted(collected(merged.map(str))) == sorted(map(str, [*range(0, 20, 2), *range(100, 110), *range(10)]))
    counted = merged.key_by(lambda n: n % 3).count()
    assert newest(counted) == Counter(n % 3 for n in [*range(0, 20, 2), *range(100, 110), *range(10)])


class Refund(NamedTuple):
    shop: str
    reason: str


def is_refund(element: Sale | Refund) -> TypeGuard[Refund]:
    return isinstance(element, Refund)


def is_sale(element: Sale | Refund) -> TypeIs[Sale]:
    return isinstance(element, Sale)


drawn_sales = st.lists(st.builds(Sale, st.sampled_from("ab"), st.integers(0, 9)), max_size=9)
drawn_refunds = st.lists(st.builds(Refund, st.sampled_from("ab"), st.sampled_from("xy")), max_size=9)


@pytest.mark.long
@settings(max_examples=10, deadline=None)
@given(drawn_sales, drawn_refunds, st.sampled_from([1, 2]))
def test_streams_of_several_types_are_merged_and_told_apart(
    sales: list[Sale], refunds: list[Refund], parallelism: int
) -> None:
    def merged() -> Stream[Sale | Refund]:
        builder = StreamBuilder(parallelism=parallelism)
        first, second = builder.source(sales, name="sales"), builder.source(refunds, name="refunds")
        return first.merge(second).filter(lambda element: element.shop == "a")

    kept = [one for one in [*sales, *refunds] if one.shop == "a"]
    assert Counter(collected(merged())) == Counter(kept)
    assert Counter(collected(merged().filter(is_sale))) == Counter(one for one in kept if isinstance(one, Sale))
    keyed = merged().key_by(lambda element: element.shop).filter(is_refund).map(lambda refund: refund.reason)
    assert newest(keyed.count()) == Counter("a" for one in kept if isinstance(one, Refund))


def test_what_a_predicate_says_of_its_elements_is_known_to_sinks() -> None:
    for predicate, fields in ((is_sale, ["key", "shop", "amount"]), (bool, ["key", "value"])):
        builder = StreamBuilder()
        both = builder.source([Sale("a", 1)], name="sales").merge(builder.source([Refund("b", "x")], name="refunds"))
        both.key_by(lambda element: element.shop).filter(predicate).sink(Kept())
        outputs = builder.topology().components["sales"].outputs
        assert [list(declared.fields) for declared in outputs.values()] == [fields]


@settings(max_examples=10, deadline=None)
@given(st.lists(st.integers(0, 20), max_size=20), st.sampled_from([1, 2]))
def test_values_are_the_elements_without_their_keys(numbers: list[int], parallelism: int) -> None:
    keyed = program(numbers, parallelism).key_by(lambda n: n % 3)
    assert Counter(collected(keyed.values())) == Counter(numbers)
    last = {n % 3: sum(1 for one in numbers if one % 3 == n % 3) for n in numbers}
    assert Counter(collected(program(numbers, parallelism).key_by(lambda n: n % 3).count(combine=False).values())) == (
        Counter(number for count in last.values() for number in range(1, count + 1))
    )


def test_values_may_have_another_key() -> None:
    again = program(SALES).key_by(lambda sale: sale.shop).values().key_by(lambda sale: sale.amount % 2).count()
    assert newest(again) == Counter(sale.amount % 2 for sale in SALES)


class Sales:
    """A source that is an object, and has nothing now and then."""

    def __call__(self) -> Iterator[Sale | None]:
        for sale in SALES:
            yield sale
            yield None


def test_the_records_of_a_source_are_those_of_its_annotation_also_where_it_may_have_nothing() -> None:
    sales = StreamBuilder().source(Sales())
    assert sales.operator.layout.record is Sale and collected(sales) == SALES


def test_an_element_goes_to_the_first_branch_that_holds() -> None:
    small, even = program(list(range(20))).branch(lambda n: n < 5, lambda n: n % 2 == 0)
    assert sorted(collected(small)) == [0, 1, 2, 3, 4]
    assert sorted(collected(even)) == list(range(6, 20, 2))


def test_functions_are_awaited() -> None:
    async def later(number: int) -> int:
        await asyncio.sleep(0)
        return number * 10

    stream = program(list(range(30))).map_async(later).filter(lambda n: n > 100)
    assert sorted(collected(stream)) == list(range(110, 300, 10))
    keyed = program(list(range(30)), 1).map_async(later, ordered=True, parallelism=1)
    assert collected(keyed) == list(range(0, 300, 10))


def test_what_follows_an_awaited_function_runs_in_the_order_of_its_results_and_once() -> None:
    awaited: Counter[int] = Counter()

    async def late_ones_first(number: int) -> int:
        awaited[number] += 1
        await asyncio.sleep(0.01 * (5 - number))
        return number

    def once(number: int) -> tuple[int, int]:
        if number == 2 and awaited[2] == 1:
            raise FailedException("the first attempt fails")
        return number, awaited[number]

    def fault(number: int) -> None:
        raise ZeroDivisionError(f"after {awaited[number]} call")

    def program_of(ordered: bool) -> Stream[int]:
        return program(list(range(5)), 1).map_async(late_ones_first, ordered=ordered, retry=Backoff(max_attempts=3))

    assert collected(program_of(True)) == list(range(5))
    assert sorted(collected(program_of(False).map(once))) == [(0, 1), (1, 1), (2, 2), (3, 1), (4, 1)]
    with pytest.raises(TaskFailedError, match="ZeroDivisionError: after 1 call"):
        collected(program_of(False).map(fault))


def test_elements_keep_their_order_in_one_task() -> None:
    assert collected(program(list(range(100)), parallelism=1).map(lambda n: n + 1)) == list(range(1, 101))


def test_operators_with_their_own_parallelism_are_components_of_their_own() -> None:
    numbers = program(list(range(40)))
    unfused = numbers.map(lambda n: n + 1, parallelism=3).filter(lambda n: n % 3 > 0, parallelism=1)
    unfused = unfused.flat_map(lambda n: [n, n], parallelism=2)
    fused = program(list(range(40))).map(lambda n: n + 1).filter(lambda n: n % 3 > 0).flat_map(lambda n: [n, n])
    assert sorted(collected(unfused)) == sorted(collected(fused))
    assert len(unfused.builder.topology().components) == 4
    assert len(fused.builder.topology().components) == 2


@spout(outputs=["shop", "amount"])
def rows() -> Iterator[list[Any]]:
    yield from (list(sale) for sale in SALES)


@spout(outputs=Sale)
def records() -> Iterator[Sale]:
    yield from SALES


def test_rows_of_a_spout_are_named_tuples_or_records() -> None:
    named = StreamBuilder().source(rows)
    assert collected(named.map(lambda row: row.shop + str(row.amount))) == [f"{s.shop}{s.amount}" for s in SALES]
    declared = StreamBuilder().source(records)
    assert collected(declared) == SALES
    given = StreamBuilder().source(rows, rows=Sale)
    assert newest(given.key_by(lambda sale: sale.shop).map(lambda sale: sale.amount).sum()) == {
        shop: sum(sale.amount for sale in SALES if sale.shop == shop) for shop in {sale.shop for sale in SALES}
    }


class Total(BasicBolt):
    outputs = ["shop", "double"]

    def execute(self, tup: Tuple, collector: BasicCollector) -> Iterator[list[Any]]:
        yield [tup["shop"], 2 * tup["amount"]]


class FirstOf(KeyedProcess):
    key = "shop"
    outputs = ["first"]

    def on_tuple(self, tup: Tuple, state: KeyState[Any], timers: Timers) -> Iterator[list[Any]]:
        if not state.exists:
            state.value = tup["amount"]
            yield [tup["amount"]]


def test_bolts_take_part_in_a_program() -> None:
    doubled = StreamBuilder(parallelism=2).source(records).process(Total()).map(lambda row: (row.shop, row.double))
    assert sorted(collected(doubled)) == sorted((sale.shop, 2 * sale.amount) for sale in SALES)
    first = StreamBuilder(parallelism=3).source(records).process(FirstOf())
    assert sorted(collected(first)) == [0, 1, 2]


class Kept(BasicBolt):
    """A sink that emits what it got, for the test."""

    outputs = ["fields", "values"]

    def execute(self, tup: Tuple, collector: BasicCollector) -> Iterator[list[Any]]:
        yield [list(tup.fields), list(tup.values)]


def sunk(make: Callable[[Stream[Any]], None], elements: list[Any]) -> list[list[Any]]:
    stream = program(elements)
    make(stream)
    topology = stream.builder.topology()
    [name] = [name for name in topology.components if name.endswith("sink")]
    completed = complete_topology(topology, {"lines": [[element] for element in elements]})
    return sorted(completed[name])


def test_a_sink_gets_named_fields() -> None:
    assert sunk(lambda s: s.sink(Kept()), [1, 2]) == [[["value"], [1]], [["value"], [2]]]
    assert sunk(lambda s: s.sink(Kept(), fields=["number"]), [1]) == [[["number"], [1]]]
    assert sunk(lambda s: s.sink(Kept(), fields=["a", "b"]), [(1, 2)]) == [[["a", "b"], [1, 2]]]
    assert sunk(lambda s: s.key_by(str).sink(Kept()), [1]) == [[["key", "value"], ["1", 1]]]
    assert sunk(lambda s: s.key_by(str).count().sink(Kept(), fields=["number", "times"]), [1]) == [
        [["number", "times"], ["1", 1]]
    ]
    assert sunk(lambda s: s.map(sale_of).sink(Kept()), [3]) == [[["shop", "amount"], ["a shop", 3]]]


def sale_of(amount: int) -> Sale:
    return Sale("a shop", amount)


def test_elements_are_printed(capfd: pytest.CaptureFixture[str]) -> None:
    stream = program(["a"], parallelism=1)
    stream.key_by(lambda element: element).count().print("count of ")
    stream.print()
    stream.builder.run_local()
    assert sorted(capfd.readouterr().out.split("\n")) == ["", "a", "count of a: 1"]
