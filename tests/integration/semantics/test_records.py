"""NamedTuples and dataclasses as rows: declared, emitted, given back, and checked against who takes them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

from tupletree import BasicBolt, Bolt, Spout, TopologyBuilder, bolt
from tupletree.errors import EmitError, TaskFailedError, TopologyError
from tupletree.testing import FeederSpout, complete_topology, make_tuple, run_bolt


class Sale(NamedTuple):
    shop: str
    amount: int


@dataclass
class Total:
    shop: str
    total: int
    currency: str = "EUR"


@dataclass
class Renamed:
    shop: str
    sum: int


@dataclass
class Retyped:
    shop: str
    total: float


class Add(BasicBolt):
    inputs = Sale
    outputs = Total

    def setup(self) -> None:
        self.totals: dict[str, int] = {}

    def execute(self, tup: Any, collector: Any) -> Iterator[Any]:
        sale = tup.to(Sale)
        self.totals[sale.shop] = self.totals.get(sale.shop, 0) + sale.amount
        yield Total(sale.shop, self.totals[sale.shop])


@bolt(outputs={"default": Sale, "large": ["shop"]})
def check(tup: Any, collector: Any) -> None:
    sale = Sale(tup[0], tup[1])
    collector.emit(sale)
    if sale.amount > 5:
        collector.emit([sale.shop], "large")


def builder_of(last: Any = None) -> TopologyBuilder:
    builder = TopologyBuilder()
    builder.set_spout("raw", FeederSpout(["a", "b"]))
    builder.set_bolt("check", check).shuffle_grouping("raw")
    builder.set_bolt("add", Add()).fields_grouping("check", "shop")
    if last is not None:
        builder.set_bolt("last", last).fields_grouping("add", "currency")
    return builder


def test_objects_are_rows_and_come_back() -> None:
    result = complete_topology(builder_of().create_topology(), {"raw": [["x", 2], ["x", 7]]})
    assert result.rows("check") == [["x", 2], ["x", 7]] and result.rows("check", "large") == [["x"]]
    assert result["add"] == [["x", 2, "EUR"], ["x", 9, "EUR"]]
    assert run_bolt(Add(), [{"shop": "x", "amount": 1}]).rows() == [["x", 1, "EUR"]]


def test_a_tuple_becomes_an_object_by_the_names_of_its_fields() -> None:
    tup = make_tuple({"amount": 3, "at": 0, "shop": "x"})
    assert tup.to(Sale) == Sale("x", 3)
    with pytest.raises(KeyError, match="no field 'total' in a tuple of stream 'default' of component 'test'"):
        tup.to(Total)
    with pytest.raises(TypeError, match="<class 'str'> is neither a NamedTuple nor a dataclass"):
        tup.to(str)


class Takes(Bolt):
    def execute(self, tup: Any) -> None:
        self.collector.ack(tup)


def test_inputs_are_checked_when_the_topology_is_built() -> None:
    builder_of(type("Fits", (Takes,), {"inputs": Total})()).create_topology()
    for inputs, fault in (
        (
            Renamed,
            r"need field 'sum' of Renamed, which stream 'default' of 'add' does not have",
        ),
        (Retyped, "need field 'total' of Retyped, which is float in Retyped and int in stream 'default' of 'add'"),
    ):
        with pytest.raises(TopologyError, match=f"bolt 'last': its inputs {fault}"):
            builder_of(type("Takes", (Takes,), {"inputs": inputs})()).create_topology()
    with pytest.raises(TopologyError, match="bolt 'last': inputs: 'Total' is neither a NamedTuple nor a dataclass"):
        builder_of(type("Takes", (Takes,), {"inputs": "Total"})()).create_topology()


def test_outputs_of_another_kind_are_refused() -> None:
    class Odd(Spout):
        outputs = int

    with pytest.raises(TopologyError, match="'odd': the fields of stream 'default': <class 'int'> is neither"):
        TopologyBuilder().set_spout("odd", Odd())


def test_an_object_of_another_class_is_refused_when_it_is_emitted() -> None:
    class Wrong(Add):
        def execute(self, tup: Any, collector: Any) -> Iterator[Any]:
            yield Renamed("x", 1)

    builder = TopologyBuilder()
    builder.set_spout("raw", FeederSpout(["shop", "amount"]))
    builder.set_bolt("add", Wrong()).shuffle_grouping("raw")
    builder.set_bolt("last", Takes()).shuffle_grouping("add")
    with pytest.raises(TaskFailedError) as caught:
        complete_topology(builder.create_topology(), {"raw": [["x", 2]]})
    assert isinstance(caught.value.__cause__, EmitError)
    assert "component 'add' emitted a Renamed on stream 'default', whose fields are shop, total, currency: " in str(
        caught.value
    )
