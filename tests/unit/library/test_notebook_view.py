"""Running programs as pictures and tables: rates, errors, odd names, topologies with cycles and states."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from tupletree import BasicBolt, BasicStatefulBolt, Topology, TopologyBuilder, bolt
from tupletree.component import BasicCollector
from tupletree.errors import UsageError
from tupletree.notebook import Running
from tupletree.notebook.programs import graph_of, topology_of
from tupletree.notebook.view import MAX_ERROR, as_html, as_text, rows
from tupletree.streams import StreamBuilder
from tupletree.streams.drawing import Box
from tupletree.testing import ComponentCounts, FeederSpout
from tupletree.tuples import Tuple

GRAPH = [
    Box("lines", ("lines", "FeederSpout"), "a source", ()),
    Box("a<b", ("a<b", "Count"), "<why>", (("lines", "by word"),)),
]
NOW = {"lines": ComponentCounts(emitted=3_000, acked=2_000, waiting=1_000), "a<b": ComponentCounts(executed=2_000)}


@bolt(outputs=["word"])
def split(tup: Tuple) -> list[list[str]]:
    return [[word] for word in tup["word"].split()]


class Count(BasicStatefulBolt):
    default_factory = int

    def execute(self, tup: Tuple) -> None:
        self.state[tup["word"]] += 1


class Again(BasicBolt):
    outputs = ["word"]

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        collector.emit([tup["word"]])


def stateful() -> Topology:
    """A topology with a state, and so with a checkpoint spout."""
    builder = TopologyBuilder()
    builder.set_spout("lines", FeederSpout(["word"]))
    builder.set_bolt("split", split, 2).shuffle_grouping("lines")
    builder.set_bolt("count", Count()).fields_grouping("split", "word")
    return builder.create_topology()


def cyclic() -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("lines", FeederSpout(["word"]))
    builder.set_bolt("split", split).shuffle_grouping("lines").shuffle_grouping("again")
    builder.set_bolt("again", Again()).shuffle_grouping("split")
    return builder.create_topology()


def test_rates_are_those_since_the_picture_before() -> None:
    earlier = {"lines": ComponentCounts(emitted=1_000)}
    table = rows(NOW, earlier, 2.0, [])
    assert (table["lines"].emitted_per_s, table["a<b"].executed_per_s) == (1_000, 1_000)
    assert as_text("running", table) == "running\n  lines: 3,000 out, 1,000/s\n  a<b: 2,000 in, 1,000/s"


def test_the_picture_and_the_table_are_well_formed_whatever_names_and_errors_hold() -> None:
    errors: list[tuple[str, BaseException]] = [("a<b", ValueError("old")), ("a<b", ValueError("<&" * MAX_ERROR))]
    root = ElementTree.fromstring(as_html("running & well", GRAPH, rows(NOW, {}, 1.0, errors)))
    assert root.findtext("p") == "running & well"
    space = "{http://www.w3.org/2000/svg}"
    assert [text.text for text in root.iter(f"{space}text") if text.get("font-weight") == "bold"] == ["lines", "a<b"]
    assert "3,000 out, 3,000/s" in [text.text for text in root.iter(f"{space}text")]
    [lines, count] = next(iter(root.iter("tbody")))
    assert [cell.text for cell in lines] == ["lines", "0", "0", "3,000", "3,000", "0", "1,000", None]
    newest = str(count[-1].text)
    assert newest.startswith("2: ValueError: <&<&") and newest.endswith("…") and len(newest) == MAX_ERROR + 3


def test_the_graph_of_a_topology_has_what_its_user_wrote() -> None:
    built = stateful()
    graph = {box.id: box for box in graph_of(built, built)}
    assert graph.keys() == {"lines", "split", "count"}
    assert "$checkpointspout" in built.components
    assert graph["split"].lines == ("split", "split", "2 executors")
    assert graph["count"].lines == ("count", "Count", "1 executor")
    assert graph["split"].inputs == (("lines", ""),)
    assert graph["count"].inputs == (("split", "by word"),)


def test_a_topology_with_a_cycle_is_drawn() -> None:
    root = ElementTree.fromstring(Running(cyclic())._repr_html_())
    corners = [(rect.get("x"), rect.get("y")) for rect in root.iter("{http://www.w3.org/2000/svg}rect")]
    assert len(set(corners)) == len(corners) == 3


def test_a_program_that_has_not_begun_and_one_of_another_type_say_so() -> None:
    builder = StreamBuilder()
    builder.source([1], name="numbers").print()
    running = Running(builder)
    assert (repr(running), running.is_running) == ("not started", False)
    assert running.counts == {"numbers": ComponentCounts()}, "a cell may ask before the first count"
    running.wait()
    assert [box.id for box in graph_of(builder, topology_of(builder))] == ["numbers"]
    with pytest.raises(UsageError, match=r"^a StreamBuilder, a TopologyBuilder or a Topology can run, not a int$"):
        topology_of(5)  # type: ignore[arg-type]
