"""The function that narrow operators are compiled to does what the operators say, one element after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tupletree.errors import ReportedFailedException
from tupletree.streams.code import ARGUMENTS, Code, counted_texts, read
from tupletree.streams.graph import Kind
from tupletree.streams.layout import Layout
from tupletree.streams.operators import COUNT
from tupletree.streams.steps import Chain, Combine, Emit, Fold, Next, Step
from tupletree.testing import make_tuple

Element = tuple[Any, Any, Any]  # key, time, value


class Adds:
    """An object that is called, as a function of the user."""

    def __init__(self, amount: int) -> None:
        self.amount = amount

    def __call__(self, value: int) -> int:
        return value + self.amount


class AddsMore(Adds):
    """An object whose class inherits ``__call__``."""


class Triples:
    """An object whose ``__call__`` is static."""

    @staticmethod
    def __call__(value: int) -> int:
        return value * 3


FUNCTIONS: dict[Kind, list[Any]] = {
    Kind.MAP: [lambda v: v + 1, lambda v: v * 3, lambda v: -v, Adds(1), AddsMore(2), Triples(), partial(max, 1)],
    Kind.FLAT_MAP: [lambda v: [v, v + 1], lambda v: [], lambda v: (v for _ in range(abs(v) % 4))],
    Kind.FILTER: [lambda v: v % 2 == 0, lambda v: v > 3, lambda v: True],
    Kind.KEY_BY: [lambda v: v % 5, str, lambda v: (v % 2, "x")],
    Kind.EVENT_TIME: [lambda v: v * 1000],
    Kind.ITEMS: [None],
    Kind.MERGE: [None],
}
NUMBERS = {Kind.MAP, Kind.FLAT_MAP, Kind.FILTER}


RULES: dict[Kind, Callable[[Any, Any, Any, Any], Iterable[Element]]] = {
    Kind.MAP: lambda f, key, time, value: [(key, time, f(value))],
    Kind.FLAT_MAP: lambda f, key, time, value: [(key, time, one) for one in f(value)],
    Kind.FILTER: lambda f, key, time, value: [(key, time, value)] if f(value) else [],
    Kind.KEY_BY: lambda f, key, time, value: [(f(value), time, value)],
    Kind.EVENT_TIME: lambda f, key, time, value: [(key, f(value), value)],
    Kind.ITEMS: lambda f, key, time, value: [(None, time, (key, value))],
    Kind.MERGE: lambda f, key, time, value: [(key, time, value)],
}


def reference(steps: tuple[Next, ...], element: Element) -> Iterator[tuple[str, Element]]:
    """Yield what operators emit for one element, by the words of their documentation."""
    for step in steps:
        if isinstance(step, Emit):
            yield step.stream, element
            continue
        assert isinstance(step, Step)
        if step.kind is Kind.BRANCH:
            cases = [case for holds, case in zip(step.argument, step.then, strict=True) if holds(element[2])]
            for case in cases[:1]:
                assert isinstance(case, Step)
                yield from reference(case.then, element)
            continue
        for one in RULES[step.kind](step.argument, *element):
            yield from reference(step.then, one)


EMITS = [Emit("default", Layout(has_key=True, has_time=True)), Emit("other", Layout())]


def steps(depth: int) -> st.SearchStrategy[tuple[Next, ...]]:
    """Return trees of operators on whole numbers. Some results go nowhere."""
    ends = st.sampled_from(EMITS)
    if depth == 0:
        return st.lists(ends, max_size=2, unique=True).map(tuple)
    deeper = st.deferred(lambda: steps(depth - 1))

    def narrow(kind: Kind) -> st.SearchStrategy[Step]:
        return st.builds(Step, st.just(kind), st.sampled_from(FUNCTIONS[kind]), deeper)

    items = st.builds(Step, st.just(Kind.ITEMS), st.none(), st.just((EMITS[1],)))
    cases = st.lists(st.tuples(st.sampled_from(FUNCTIONS[Kind.FILTER]), deeper), min_size=1, max_size=3)
    branches = cases.map(
        lambda given: Step(
            Kind.BRANCH, tuple(f for f, _ in given), tuple(Step(Kind.CASE, None, then) for _, then in given)
        )
    )
    kinds = [narrow(kind) for kind in FUNCTIONS if kind is not Kind.ITEMS]
    return st.lists(st.one_of(*kinds, branches, items, ends), min_size=1, max_size=3).map(tuple)


def run(then: tuple[Next, ...], elements: Iterable[Element], *, collects: bool = False) -> list[tuple[str, Element]]:
    """Return what the compiled function emits. ``collects``: by one call for the results of a flat_map."""
    found: list[tuple[str, Element]] = []

    def emit(row: Sequence[Any], stream: str) -> None:
        found.append((stream, (row[0], row[1], row[2]) if stream == "default" else row[0]))

    def emit_many(rows: list[Sequence[Any]], stream: str) -> None:
        for row in rows:
            emit(row, stream)

    streams = ("default", "other")
    code = Code({one: f"emit({{row}}, {one!r})" for one in streams}, emit=emit, emit_many=emit_many)
    if collects:
        code.emits_rows = {one: f"emit_many({{rows}}, {one!r})" for one in streams}
    code.add(0, "def run(k, t, v, a):")
    code.then(then, ARGUMENTS, 1)
    function = code.compiled("test")
    for key, time, value in elements:
        function(key, time, value, None)
    return found


@given(st.integers(1, 4).flatmap(steps), st.lists(st.integers(-20, 20), min_size=1, max_size=6))
def test_compiled_operators_do_what_each_operator_says(then: tuple[Next, ...], values: list[int]) -> None:
    elements = [("k", 7, value) for value in values]
    expected = [
        (stream, element if stream == "default" else element[2])
        for one in elements
        for stream, element in reference(then, one)
    ]
    assert run(then, elements) == expected
    collected = run(then, elements, collects=True)
    for name in ("default", "other"):
        assert [one for one in collected if one[0] == name] == [one for one in expected if one[0] == name]


def test_a_hundred_loops_in_each_other_are_compiled() -> None:
    then: tuple[Next, ...] = (Emit("other", Layout()),)
    for number in range(100):
        kind, f = (Kind.FLAT_MAP, lambda v: [v + 1]) if number % 2 else (Kind.FILTER, lambda v: True)
        then = (Step(kind, f, then),)
    assert run(then, [(None, None, 0)]) == [("other", 50)]
    assert run(then, [(None, None, 0)], collects=True) == [("other", 50)]


@pytest.mark.parametrize("splits", [str.split, str.rsplit, str.splitlines, lambda line: line.split()])
@pytest.mark.parametrize("collects", [False, True])
def test_words_are_their_own_keys(splits: Callable[[str], list[str]], collects: bool) -> None:
    same: Any = lambda v: v  # noqa: E731
    keyed = Step(Kind.KEY_BY, same, (EMITS[0],))
    then = (Step(Kind.FLAT_MAP, splits, (Step(Kind.FILTER, lambda word: word != "be", (keyed,)),)),)
    words = [("default", (word, 7, word)) for word in splits("to be or not") if word != "be"]
    assert run(then, [(None, 7, "to be or not")], collects=collects) == words


def test_what_is_only_counted_is_counted_by_one_call() -> None:
    same: Any = lambda v: v  # noqa: E731

    def steps(splits: Any = str.split, key: Any = same, fold: Fold = COUNT) -> tuple[Next, ...]:
        return (Step(Kind.FLAT_MAP, splits, (Step(Kind.KEY_BY, key, (Combine("partial", fold),)),)),)

    assert counted_texts(steps()) is str.split
    assert counted_texts((*steps(), EMITS[1])) is None
    assert counted_texts(steps(splits=lambda line: line.split())) is None
    assert counted_texts(steps(key=len)) is None
    assert counted_texts(steps(fold=Fold(None, None, None))) is None
    assert counted_texts((Step(Kind.FLAT_MAP, str.split, (EMITS[1],)),)) is None


def test_a_thousand_maps_after_each_other_are_compiled() -> None:
    then: tuple[Next, ...] = (Emit("other", Layout()),)
    for _ in range(300):
        then = (Step(Kind.MAP, lambda v: v + 1, then),)
    assert run(then, [(None, None, 0)]) == [("other", 300)]


def test_a_function_that_returns_its_argument_is_not_called() -> None:
    same: Any = lambda v: v  # noqa: E731

    def others(*v: Any) -> Any:
        return v

    assert run((Step(Kind.MAP, same, (Step(Kind.MAP, others, (EMITS[1],)),)),), [(None, None, 5)]) == [("other", (5,))]
    code = Code({"other": "emit({row})"}, emit=print)
    code.then((Step(Kind.MAP, same, (Step(Kind.KEY_BY, same, ()),)),), ARGUMENTS, 1)
    assert same not in code.names.values()


@pytest.mark.parametrize("key", [None, 1.5, True, [1], ("a", None), ()])
def test_a_key_of_another_type_fails_the_element(key: Any) -> None:
    with pytest.raises(ReportedFailedException, match=r"key_by returned .* was expected"):
        run((Step(Kind.KEY_BY, lambda v: key, (EMITS[0],)),), [(None, None, 1)])


def test_an_event_time_that_is_none_fails_the_element() -> None:
    with pytest.raises(ReportedFailedException, match="event_time returned 'noon'; a whole number"):
        run((Step(Kind.EVENT_TIME, lambda v: "noon", (EMITS[0],)),), [(None, None, 1)])


class Named(NamedTuple):
    user: str
    key: str


@dataclass(kw_only=True)
class Plain:
    user: str
    time: int


@pytest.mark.parametrize(
    ("layout", "element"),
    [
        (Layout(), (None, None, 5)),
        (Layout(single="line"), (None, None, "to be")),
        (Layout(has_key=True), ("k", None, 5)),
        (Layout(has_key=True, has_value=False), ("k", None, None)),
        (Layout(has_time=True), (None, 9, [5])),
        (Layout(has_key=True, has_time=True, record=Named), ("k", 9, Named("ann", "x"))),
        (Layout(has_key=True, has_time=True, record=Plain), ("k", 9, Plain(user="ann", time=3))),
    ],
)
def test_an_element_is_read_as_it_was_sent(layout: Layout, element: Element) -> None:
    rows: list[Sequence[Any]] = []
    send = Code({"default": "emit({row})"}, emit=rows.append)
    send.add(0, "def run(k, t, v, a):")
    send.then((Emit("default", layout),), ARGUMENTS, 1)
    send.compiled("test")(*element, None)
    take = Code({})
    take.add(0, "def run(a, v=None):")
    at = read(take, layout, 1)
    take.add(1, f"return {at.key}, {at.time}, {at.value}")
    assert take.compiled("test")(make_tuple(list(rows[0]), layout.fields)) == element
    assert len(set(layout.fields)) == len(layout.fields)


WORDS = ["to", "be", "or", "not", "to", "be"]


@pytest.mark.parametrize(
    ("fold", "expected"),
    [
        (Fold(None, None, None, is_count=True), {"t": 2, "b": 2, "o": 1, "n": 1}),
        (Fold(None, max, max), {"t": "to", "b": "be", "o": "or", "n": "not"}),
        (Fold(list, lambda a, v: [*a, v], None), {"t": ["to", "to"], "b": ["be", "be"], "o": ["or"], "n": ["not"]}),
    ],
)
def test_elements_are_combined_by_key(fold: Fold, expected: dict[str, Any]) -> None:
    code = Code({})
    code.add(0, "def run(k, t, v, a):")
    code.then((Combine("partial", fold),), ARGUMENTS, 1)
    function = code.compiled("test")
    for word in WORDS:
        function(word[0], None, word, None)
    assert dict(code.partials["partial"]) == expected


def test_a_chain_knows_its_streams() -> None:
    fold = Fold(None, None, None)
    inner = Step(Kind.FILTER, bool, (Emit("small", Layout()), Combine("partial", fold)))
    chain = Chain(Layout(), (inner, Emit("default", Layout(has_key=True))))
    assert list(chain.emits) == ["small", "partial", "default"]
    assert chain.combines == {"partial": fold}


@pytest.mark.parametrize("collects", [False, True])
def test_a_type_error_behind_or_within_a_flat_map_stays_as_it_is(collects: bool) -> None:
    def broken(value: Any) -> Iterator[Any]:
        yield value
        len(value)

    class Broken:
        def __iter__(self) -> Iterator[Any]:
            len(7)  # type: ignore[arg-type]
            return iter(())

    emit = (Emit("other", Layout()),)
    for then in (
        (Step(Kind.FLAT_MAP, lambda value: [value], (Step(Kind.MAP, len, emit),)),),
        (Step(Kind.FLAT_MAP, broken, emit),),
        (Step(Kind.FLAT_MAP, lambda value: Broken(), emit),),
        (Step(Kind.FLAT_MAP, len, emit),),
    ):
        with pytest.raises(TypeError, match=r"^object of type 'int' has no len\(\)$"):
            run(then, [("k", 7, 1)], collects=collects)
