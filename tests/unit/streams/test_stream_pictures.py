"""The plan of a program for people: why each component stands alone, in words and in a picture."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree

import pytest

from tupletree import BasicBolt
from tupletree.component import BasicCollector
from tupletree.connectors.sqlite import SqliteSink
from tupletree.streams import StreamBuilder
from tupletree.tuples import Tuple


def lines() -> Iterator[str]:
    yield "to be or not to be"


async def looked_up(word: str) -> str:
    return word


class Doubled(BasicBolt):
    outputs = ["word"]

    def execute(self, tup: Tuple, collector: BasicCollector) -> Iterator[list[str]]:
        yield [tup["value"] * 2]


@pytest.fixture
def builder() -> StreamBuilder:
    """A program in which each kind of component stands alone for its own reason."""
    builder = StreamBuilder(parallelism=2)
    words = builder.source(lines).flat_map(str.split)
    counts = words.key_by(lambda word: word).count()
    counts.sink(SqliteSink("counts.db", "counts", {"key": "string", "value": "bigint"}, key="key"))
    words.map(str.upper, parallelism=4).filter(lambda word: "<" in word)
    words.map_async(looked_up).print()
    words.process(Doubled()).map(lambda word: word).print()
    return builder


REASONS = {
    "lines": ["a source: its executors read, and run no operators"],
    "lines-flat_map": [
        "own parallelism: 2 executors, and lines has 1",
        "partial values: elements are added up for up to 50 ms or 5,000 inputs, and sent as one value per key",
    ],
    "lines-count": [
        "a key exchange: all elements of a key go to one executor, which has its state",
        "it merges the partial values that are sent to it",
    ],
    "lines-count-sink": ["a key exchange: all elements of a key go to one executor", "a sink: it writes in batches"],
    "lines-flat_map-map": ["own parallelism: 4 executors, and lines-flat_map has 2"],
    "lines-map_async": ["awaited calls: many at a time"],
    "lines-process": ["a bolt of the program: it takes tuples"],
    "lines-process-map": ["behind a bolt: lines-process passes tuples on, and runs no operators"],
}


@pytest.mark.parametrize("component", REASONS)
def test_each_component_says_why_it_stands_alone(builder: StreamBuilder, component: str) -> None:
    paragraphs = {text.partition(":")[0]: text for text in builder.explain().replace("\n    ", "\t").splitlines()}
    assert paragraphs.keys() == REASONS.keys()
    found = [part.removeprefix("why: ") for part in paragraphs[component].split("\t") if part.startswith("why: ")]
    assert len(found) == len(REASONS[component])
    for text, expected in zip(found, REASONS[component], strict=True):
        assert text.startswith(expected)


def test_results_that_go_nowhere_are_named(builder: StreamBuilder) -> None:
    [told] = [line for line in builder.explain().splitlines() if "go nowhere" in line]
    assert told == "    the results of filter go nowhere: add print, peek, sink or an aggregation"


def test_a_notebook_shows_a_box_for_each_component_and_a_line_for_each_input(builder: StreamBuilder) -> None:
    picture = builder._repr_html_()
    root = ElementTree.fromstring(picture)
    space = "{http://www.w3.org/2000/svg}"
    boxes = [group.findtext(f"{space}text") for group in root.iter(f"{space}g")]
    assert sorted(map(str, boxes)) == sorted(REASONS)
    assert len(list(root.iter(f"{space}path"))) == len(REASONS) - 1
    assert [text.text for text in root.findall(f"{space}text")] == ["by key", "by key"]
    assert "script" not in picture and "http" not in picture.replace("http://www.w3.org/2000/svg", "")
    corners = [(rect.get("x"), rect.get("y")) for rect in root.iter(f"{space}rect")]
    assert len(set(corners)) == len(REASONS)


def test_names_are_escaped_in_the_picture() -> None:
    builder = StreamBuilder(parallelism=2)
    builder.source([1], name="a<b").print(name="&c")
    texts = [element.text for element in ElementTree.fromstring(builder._repr_html_()).iter() if element.text]
    assert "a<b" in texts and "&c" in texts


def test_a_builder_is_shown_in_a_line_and_a_program_with_a_mistake_says_so(builder: StreamBuilder) -> None:
    shown = repr(builder).removeprefix("<StreamBuilder: ").removesuffix(">").split(", ")
    assert sorted(shown) == sorted(REASONS)
    empty = StreamBuilder()
    assert repr(empty) == "<StreamBuilder: the program has no source: begin with builder.source(…)>"
    assert empty._repr_html_() == "the program has no source: begin with builder.source(…)"
