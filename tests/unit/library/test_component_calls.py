"""Methods that the framework could not run are refused when a topology is built, in a sentence with the remedy."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from tupletree import AsyncBolt, BasicBolt, Bolt, Spout, TopologyBuilder
from tupletree._signatures import CALLED, Result, check_calls, check_returned
from tupletree.combiner import CombinerBolt
from tupletree.component import BasicStatefulBolt, Component, StatefulBolt
from tupletree.errors import TopologyError
from tupletree.grouping import CustomGrouping
from tupletree.testing import FeederSpout
from tupletree.transactional import BatchBolt, TransactionalTopologyBuilder
from tupletree.transactional.memory import MemoryTransactionalSpout
from tupletree.transactional.spouts import TransactionEmitter
from tupletree.windows.bolt import WindowedBolt


def generator(*_: Any) -> Iterator[list[Any]]:
    yield [1]


async def coroutine(*_: Any) -> None:
    pass


async def async_generator(*_: Any) -> AsyncIterator[int]:
    yield 1


def made(base: type, **methods: Any) -> Any:
    """An object of a class ``Bad`` with these methods."""
    return type("Bad", (base,), {"outputs": ["word"], **methods})()


def refused(component: Any, title: str = "bolt 'bad'") -> str:
    """Assert that the component is refused, and return the sentence without its beginning."""
    with pytest.raises(TopologyError) as caught:
        check_calls(title, "bad", component)
    assert caught.value.component == "bad"
    sentence = str(caught.value)
    assert sentence.startswith(f"{title}: {type(component).__name__}.{caught.value.field} ")
    assert "\n" not in sentence
    return sentence.removeprefix(f"{title}: ")


@pytest.mark.parametrize(
    ("base", "method", "instead"),
    [
        (Bolt, "execute_batch", "self.collector.emit([value], tup)"),
        (TransactionEmitter, "emit_batch", "collector.emit([value])"),
    ],
)
def test_a_generator_is_told_what_to_write(base: type, method: str, instead: str) -> None:
    sentence = refused(made(base, **{method: generator}))
    assert sentence == (
        f"Bad.{method} has a 'yield', so a call runs none of its code: emit instead, 'for value in …: {instead}'"
    )


@pytest.mark.parametrize(
    ("base", "method"),
    [
        (Spout, "next_tuple"),
        (Bolt, "execute"),
        (BasicBolt, "execute"),
        (WindowedBolt, "execute_window"),
        (BatchBolt, "execute"),
        (BatchBolt, "finish_batch"),
    ],
)
def test_where_rows_are_emitted_a_generator_is_well(base: type, method: str) -> None:
    check_calls("bolt 'good'", "good", made(base, **{method: generator}))


@pytest.mark.parametrize("function", [coroutine, async_generator])
def test_an_async_method_is_told_what_to_write(function: Callable[..., Any]) -> None:
    assert refused(made(BasicBolt, execute=function)) == (
        "Bad.execute is 'async def', and nothing awaits it: derive from AsyncBolt, or write it without async"
    )
    assert "context.call_soon" in refused(made(Spout, next_tuple=function))


def test_what_is_awaited_is_async() -> None:
    async def execute(self: Any, tup: Any) -> None:
        pass

    async def rows(self: Any, tup: Any) -> AsyncIterator[list[int]]:
        yield [1]

    async def opened(self: Any) -> None:
        pass

    check_calls("bolt 'good'", "good", made(AsyncBolt, execute=execute, open_async=opened))
    check_calls("bolt 'good'", "good", made(AsyncBolt, execute=rows))
    for method, function in {"execute": lambda self, tup: None, "close_async": async_generator}.items():
        sentence = refused(made(AsyncBolt, **{"execute": execute, method: function}))
        assert sentence == (
            f"Bad.{method} is not 'async def', and it is awaited: write 'async def', or derive from BasicBolt or Bolt"
        )
    assert refused(made(AsyncBolt)).startswith("Bad.execute is not 'async def'")


def called_methods() -> list[tuple[str, str]]:
    awaited = (Result.AWAITED, Result.AWAITED_ROWS)
    return [
        (path, name) for path, kind in CALLED.items() for name, one in kind.methods.items() if one.result not in awaited
    ]


@pytest.mark.parametrize(("path", "name"), called_methods())
def test_every_method_of_the_table_exists_and_is_refused_as_a_coroutine(path: str, name: str) -> None:
    module, _, owner = path.rpartition(".")
    if module.startswith("tupletree.spark"):
        pytest.importorskip("pyspark")
    base = getattr(__import__(module, fromlist=[owner]), owner)
    assert "is 'async def'" in refused(made(base, **{name: coroutine}))


class Twice:
    def __call__(self, *_: Any) -> Any:
        yield [1]


class Inherited(BasicBolt):
    def prepare(self, conf: Any, context: Any) -> Any:
        yield [conf]


def test_however_the_method_came_to_be() -> None:
    set_on_the_instance = made(BasicBolt)
    set_on_the_instance.prepare = generator
    for component in (
        type("Heir", (Inherited,), {})(),
        set_on_the_instance,
        made(BasicBolt, prepare=staticmethod(generator)),
        made(BasicBolt, prepare=classmethod(generator)),
        made(BasicBolt, prepare=functools.partial(generator, 1)),
        made(BasicBolt, prepare=functools.partialmethod(generator, 1)),
        made(BasicBolt, prepare=Twice()),
        made(BasicBolt, prepare=functools.partial(Twice())),
    ):
        assert "has a 'yield', so a call runs none of its code: write it without 'yield'" in refused(component)
    assert refused(made(Spout, ack=None)) == "Bad.ack is None; a method was expected"


def test_what_is_run_may_be_a_generator() -> None:
    @functools.wraps(generator)
    def emitting(self: Any, tup: Any, collector: Any) -> None:
        for row in generator(tup):
            collector.emit(row)

    check_calls("bolt 'good'", "good", made(BasicBolt, execute=emitting))
    check_calls("bolt 'good'", "good", made(CombinerBolt, key_values=generator, rows=generator))


@pytest.mark.parametrize(
    ("base", "method", "function", "sentence"),
    [
        (
            Bolt,
            "execute",
            lambda self, tup, collector: None,
            "takes (tup, collector), but Bolt.execute is called with (tup); the collector is self.collector",
        ),
        (
            BasicBolt,
            "execute",
            lambda self, tup: None,
            "takes (tup), but BasicBolt.execute is called with (tup, collector)",
        ),
        (Spout, "next_tuple", lambda self, tup: None, "takes (tup), but Spout.next_tuple is called with ()"),
        (Spout, "ack", lambda self: None, "takes (), but Spout.ack is called with (msg_id)"),
    ],
)
def test_a_wrong_signature_is_refused(base: type, method: str, function: Any, sentence: str) -> None:
    assert refused(made(base, **{method: function})) == f"Bad.{method} {sentence}"


def test_more_arguments_that_need_not_be_given_are_well() -> None:
    check_calls("bolt 'b'", "b", made(Bolt, execute=lambda self, tup, trace=None, *more, **named: None))
    spout = made(Spout)
    spout.ack = {}.pop  # a function in C, which may have no signature
    check_calls("spout 's'", "s", spout)


def test_builders_refuse_it() -> None:
    builder = TopologyBuilder()
    with pytest.raises(TopologyError, match=r"^spout 'lines': Bad\.open has a 'yield'"):
        builder.set_spout("lines", made(Spout, open=generator))
    builder.set_spout("lines", FeederSpout(["line"]))
    for base in (BasicBolt, Bolt, WindowedBolt, StatefulBolt, CombinerBolt):
        with pytest.raises(TopologyError, match=r"^bolt 'split': Bad\.prepare has a 'yield'"):
            builder.set_bolt("split", made(base, prepare=generator))
    grouping = made(CustomGrouping, choose_tasks=coroutine)
    good = builder.set_bolt("split", made(BasicBolt, execute=generator))
    with pytest.raises(TopologyError, match=r"^bolt 'split', custom grouping on 'lines': Bad\.choose_tasks is 'async"):
        good.custom_grouping("lines", grouping)
    with pytest.raises(TopologyError, match=r"^bolt 'split': Bad\.prepare has a 'yield'"):
        good.shuffle_grouping("lines")
        builder.create_topology().replacing({"split": made(BasicBolt, prepare=generator)})


def test_transactional_builders_refuse_it() -> None:
    source = MemoryTransactionalSpout([[["a"]]], ["word"], 1)
    builder = TransactionalTopologyBuilder("words", "spout", source)
    for base in (BatchBolt, BasicBolt):
        with pytest.raises(TopologyError, match=r"^bolt 'count': Bad\.prepare has a 'yield'"):
            builder.set_bolt("count", made(base, prepare=generator))
    with pytest.raises(TopologyError, match=r"^bolt 'count': Bad\.finish_batch is 'async def'"):
        builder.set_committer_bolt("count", made(BatchBolt, finish_batch=coroutine))
    source.emitter = generator  # type: ignore[method-assign, assignment]
    with pytest.raises(TopologyError, match=r"^spout 'spout': MemoryTransactionalSpout\.emitter has a 'yield'"):
        TransactionalTopologyBuilder("words", "spout", source)


@pytest.mark.parametrize("returned", [None, True, 3, (), (4, 5)])
def test_what_emit_returns_may_be_returned(returned: object) -> None:
    check_returned("split", made(BasicBolt), "execute", returned, {4, 5}.__contains__)


def test_a_method_that_need_not_emit_may_return_anything_that_is_no_unfinished_call() -> None:
    check_returned("lines", made(Spout), "ack", ["popped"])
    with pytest.raises(TopologyError, match=r"Bad\.ack returned a coroutine; a returned value is ignored$"):
        check_returned("lines", made(Spout), "ack", coroutine())


@pytest.mark.parametrize(
    ("returned", "what"), [(["a"], "a list"), ((4, 6), "a tuple"), ("a", "a str"), (generator(), "a generator")]
)
def test_values_that_are_returned_are_refused(returned: object, what: str) -> None:
    with pytest.raises(TopologyError) as caught:
        check_returned("split", made(BasicBolt), "execute", returned, {4, 5}.__contains__)
    assert str(caught.value) == (
        f"component 'split': Bad.execute returned {what}; a returned value is ignored; "
        "yield rows instead: yield [value]"
    )


def test_every_component_of_this_project_is_well() -> None:
    for component in (FeederSpout(["a"]), made(Component)):
        check_calls("component 'own'", "own", component)


def test_a_bolt_that_does_nothing_with_its_input_is_refused() -> None:
    for base in (BasicBolt, Bolt, StatefulBolt, BasicStatefulBolt):
        arguments = "tup, collector" if base is BasicBolt else "tup"
        with pytest.raises(TopologyError) as missing:
            check_calls("bolt 'bad'", "bad", made(base))
        assert str(missing.value) == f"bolt 'bad': Bad has no execute({arguments})"
    on_the_instance = made(BasicBolt)
    on_the_instance.execute = lambda tup, collector: None
    ticking = made(Bolt, tick=lambda self: None)  # may have no input
    for bolt in (on_the_instance, ticking, made(Bolt, execute_batch=lambda self, tuples: None)):
        check_calls("bolt 'good'", "good", bolt)
