"""Which components name the attempt and which have it carried, what each may emit, and what each receives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

from tupletree.attempt import TransactionAttempt
from tupletree.component import BasicBolt, BasicCollector, BoltCollector
from tupletree.errors import EmitError, TopologyError
from tupletree.grouping import CustomGrouping
from tupletree.outputs import REPORT_STREAM, FieldsDeclarer, direct
from tupletree.topology import Topology
from tupletree.transactional import (
    BatchBolt,
    MemoryTransactionalSpout,
    TransactionalSpout,
    TransactionalTopologyBuilder,
)
from tupletree.transactional.attempt_field import carry_attempt
from tupletree.transactional.checksum import ChecksumCollector
from tupletree.transactional.coordinated_bolt import CoordinatedBolt
from tupletree.transactional.emission import Emission, new_emission
from tupletree.tuples import Tuple

ONE = TransactionAttempt(1, 1)
TWO = TransactionAttempt(1, 2)


class Sent(BoltCollector):
    """Keeps the rows that leave a component."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, Sequence[Any]]] = []

    def emit(self, values: Sequence[Any], anchors: Any = None, stream: str = "default") -> tuple[int, ...]:
        self.rows.append((stream, values))
        return (7, 8)

    def emit_direct(self, task: int, values: Sequence[Any], anchors: Any = None, stream: str = "default") -> None:
        self.rows.append((f"{stream} to {task}", values))


def declared(outputs: Any) -> tuple[Any, dict[str, tuple[str, ...]]]:
    declarer = FieldsDeclarer("x")
    declarer.declare_outputs(outputs)
    carried = carry_attempt(declarer)
    return carried, {id: stream.fields for id, stream in declarer.streams.items()}


class Sale(NamedTuple):
    shop: str
    price: int


@dataclass
class Order:
    price: int
    shop: str


@pytest.mark.parametrize(
    ("outputs", "carried", "wire"),
    [
        (["word", "n"], {"default": ("word", "n")}, {"default": ("attempt", "word", "n")}),
        (["id", "n"], {"default": ("id", "n")}, {"default": ("attempt", "id", "n")}),
        (Sale, {"default": ("shop", "price")}, {"default": ("attempt", "shop", "price")}),
        (
            {"default": ["word"], "to": direct(["n"])},
            {"default": ("word",), "to": ("n",)},
            {"default": ("attempt", "word"), "to": ("attempt", "n")},
        ),
        ((), {}, {}),
        (["attempt", "n"], None, {"default": ("attempt", "n")}),
        (["attempt"], None, {"default": ("attempt",)}),
        (
            {"a": ["attempt", "n"], "b": ["attempt"]},
            None,
            {"a": ("attempt", "n"), "b": ("attempt",)},
        ),
    ],
)
def test_the_first_declared_field_decides(outputs: Any, carried: Any, wire: Any) -> None:
    assert declared(outputs) == (carried, wire)


@pytest.mark.parametrize(
    ("outputs", "said"),
    [
        ({"empty": []}, "component 'x': stream 'empty' declares no field; at least one was expected"),
        (["word", "attempt"], "component 'x': stream 'default' declares 'attempt' after other fields"),
        (["attempt", "n", "attempt"], "declares field 'attempt' twice"),
        (
            {"default": ["attempt", "n"], "late": ["n"]},
            "component 'x': stream 'default' declares 'attempt' and stream 'late' does not; leave it out of all",
        ),
    ],
)
def test_a_component_names_the_attempt_first_in_all_streams_or_in_none(outputs: Any, said: str) -> None:
    with pytest.raises(TopologyError) as caught:
        declared(outputs)
    assert said in str(caught.value)


def emission(outputs: Any, attempt: TransactionAttempt = ONE) -> tuple[Emission, Sent]:
    sent = Sent()
    return new_emission(attempt, "x", sent, declared(outputs)[0]), sent


@pytest.mark.parametrize("row", [["a", 1], ("a", 1), Sale("a", 1), Order(1, "a"), {"a": 0, 1: 0}])
def test_a_row_is_sent_after_the_attempt(row: Any) -> None:
    given, sent = emission(Sale)
    assert given.emit(row) == (7, 8)
    assert sent.rows == [("default", [ONE, "a", 1])]
    assert (given.rows, given.counts) == (1, {7: 1, 8: 1})


def test_direct_rows_and_many_rows_carry_the_attempt_too() -> None:
    given, sent = emission({"default": ["word"], "to": direct(["n"])})
    given.emit_direct(9, [5], "to")
    assert given.emit_many([word] for word in "ab") == 2
    assert sent.rows == [("to to 9", [ONE, 5]), ("default", [ONE, "a"]), ("default", [ONE, "b"])]
    assert (given.rows, given.counts) == (3, {9: 1, 7: 2, 8: 2})


def test_an_attempt_that_is_a_value_like_any_other_is_sent_too() -> None:
    given, sent = emission(["id", "n"])
    given.emit([ONE, 5])
    assert sent.rows == [("default", [ONE, ONE, 5])]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (["a"], "emitted 1 value on stream 'default', which declares 2: word, n; write [word, n]"),
        ([], "emitted 0 values on stream 'default', which declares 2: word, n; write [word, n]"),
        (["a", 1, 2], "emitted 3 values on stream 'default', which declares 2: word, n; write [word, n]"),
        (
            [ONE, "a", 1],
            "emitted 3 values, the first of which is the attempt, on stream 'default', which declares 2: word, n; "
            "write [word, n] without the attempt, or declare 'attempt' as the first field of the component's streams",
        ),
        ("ab", "emitted an object of str on stream 'default', which declares 2: word, n; write [word, n]"),
        (7, "emitted an object of int on stream 'default', which declares 2: word, n; write [word, n]"),
        (Order(1, "a"), "emitted an object of Order on stream 'default', which declares 2: word, n; write [word, n]"),
    ],
)
@pytest.mark.parametrize("is_direct", [False, True])
def test_a_row_that_does_not_fit_is_refused_with_what_to_write(row: Any, said: str, is_direct: bool) -> None:
    given, sent = emission(["word", "n"])
    with pytest.raises(EmitError) as caught:
        given.emit_direct(9, row) if is_direct else given.emit(row)
    assert str(caught.value) == f"component 'x' {said}"
    assert (sent.rows, given.rows) == ([], 0)


def test_a_component_that_names_the_attempt_must_emit_it() -> None:
    given, sent = emission(["attempt", "word"])
    given.emit([ONE, "a"])
    assert sent.rows == [("default", [ONE, "a"])]
    with pytest.raises(
        EmitError, match=r"component 'x' emitted a tuple on stream 'default' whose first value is 'a'"
    ) as caught:
        given.emit(["a"])
    assert str(caught.value).endswith("or remove 'attempt' from outputs, and the row is complete without it")


@pytest.mark.parametrize("outputs", [["n"], ["attempt", "n"]])
def test_a_batch_that_is_finished_emits_no_more_in_either_form(outputs: list[str]) -> None:
    given, _ = emission(outputs)
    given.end()
    with pytest.raises(EmitError, match="on stream 'default' after that batch was finished"):
        given.emit([ONE, 5] if "attempt" in outputs else [5])


def checksum(outputs: Any, attempt: TransactionAttempt, rows: list[Any]) -> int | None:
    collector = ChecksumCollector(emission(outputs, attempt)[0])
    collector.emit_many(rows)
    return collector.checksum()


def test_a_checksum_is_the_same_in_both_forms_and_for_every_attempt() -> None:
    rows = [["a", 1], ["b", 2]]
    sums = {
        checksum(["word", "n"], ONE, rows),
        checksum(["word", "n"], TWO, [tuple(row) for row in rows]),
        checksum(["attempt", "word", "n"], ONE, [[ONE, *row] for row in rows]),
        checksum(["attempt", "word", "n"], TWO, [[TWO, *row] for row in rows]),
    }
    assert len(sums) == 1 and None not in sums
    assert checksum(["id", "n"], ONE, [[ONE, 1]]) == checksum(["id", "n"], TWO, [[TWO, 1]])
    assert (
        checksum(Sale, ONE, [Order(1, "a")])
        == checksum(Sale, TWO, [Order(1, "a")])
        != checksum(Sale, TWO, [Order(2, "a")])
    )
    assert checksum(["word", "n"], ONE, rows) != checksum(["word", "n"], ONE, rows[::-1])


# What bolts receive


class Named(BatchBolt):
    outputs = ["attempt", "word"]


class Carried(BatchBolt):
    outputs = ["word"]


class CarriedBasic(BasicBolt):
    outputs = ["word"]

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        pass


class End(BatchBolt):
    pass


class NamedSpout(TransactionalSpout):
    outputs = ["attempt", "word"]


class CarriedSpout(TransactionalSpout):
    outputs = ["word"]


class ByWord(CustomGrouping):
    def choose_tasks(self, task_id: int, values: Sequence[Any]) -> Sequence[int]:
        return [values[0]]


def library_spout() -> MemoryTransactionalSpout:
    return MemoryTransactionalSpout({0: [["a"]]}, ["word"], 1)


def built(spout: Any, *bolts: tuple[str, Any]) -> Topology:
    """Every bolt is fed by the spout and by the bolts before it."""
    one = TransactionalTopologyBuilder("t", "spout", spout)
    sources = ["spout"]
    for name, bolt in bolts:
        declarer = one.set_bolt(name, bolt)
        for source in sources:
            declarer.custom_grouping(source, ByWord())
        if bolt.outputs:
            sources.append(name)
    return one.create_topology()


@pytest.mark.parametrize("spout", [NamedSpout, CarriedSpout, library_spout])
def test_a_bolt_receives_the_attempt_if_it_names_it_and_otherwise_not(spout: Callable[[], Any]) -> None:
    topology = built(spout(), ("named", Named()), ("carried", Carried()), ("basic", CarriedBasic()), ("end", End()))
    hidden = {
        id: set(definition.component.hidden)
        for id, definition in topology.components.items()
        if isinstance(definition.component, CoordinatedBolt)
    }
    shown = {"named"} | ({"spout"} if spout is NamedSpout else set())
    assert hidden == {
        "named": set(),
        "carried": {"spout", "named"},
        "basic": {"spout", "named", "carried"},
        "end": {"spout", "named", "carried", "basic"} - shown,
    }
    for definition in topology.components.values():
        for stream, declared in definition.outputs.items():
            assert declared.fields[0] == "attempt"
            assert stream == REPORT_STREAM or definition.id == "spout:coordinator" or declared.fields[1:] == ("word",)


def test_a_custom_grouping_gets_the_values_that_its_bolt_gets() -> None:
    topology = built(CarriedSpout(), ("named", Named()), ("carried", Carried()))
    chosen = {
        (id, item.source): item.custom.choose_tasks(1, [ONE, "a"])
        for id in ("named", "carried")
        for item in topology.components[id].inputs
        if item.custom is not None
    }
    assert chosen == {("named", "spout"): [ONE], ("carried", "spout"): ["a"], ("carried", "named"): ["a"]}
