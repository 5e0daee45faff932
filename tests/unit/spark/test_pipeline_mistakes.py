"""Each mistake in a pipeline is one sentence when its topology is built, naming the thing and what was expected."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tupletree import BasicBolt
from tupletree.errors import TopologyError, UsageError
from tupletree.spark import Pipeline, Sink, Source
from tupletree.spark.pipeline import PipelineBuilder
from tupletree.spark.sources.memory import MemorySource

ROWS = MemorySource([[[1]]], "number BIGINT", 1)


class Good(Pipeline):
    source: Any = ROWS
    state: Any = Sink()


def fault(**parts: Any) -> str:
    """What is said of a pipeline with these parts."""
    made = type("Bad", (Good,), parts)()
    with pytest.raises(TopologyError) as caught:
        made.topology()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_what_it_needs_is_a_source_and_somewhere_to_put_results() -> None:
    assert set(Good().topology().components) == {"pipeline", "pipeline:coordinator"}
    assert type("Emitting", (Good,), {"state": None, "outputs": ["number"]})().topology()


@pytest.mark.parametrize(
    ("pipeline", "sentence"),
    [
        (Good, "an object of a subclass of Pipeline was expected, not the class Good"),
        (Good().topology(), "an object of a subclass of Pipeline was expected, not Topology"),
        (Pipeline(), "Pipeline has no source; a Source such as TextFiles(…) was expected"),
    ],
)
def test_what_is_no_pipeline(pipeline: Any, sentence: str) -> None:
    with pytest.raises(TopologyError) as caught:
        PipelineBuilder(pipeline)
    assert str(caught.value) == sentence


class NoSpout(Source):
    schema = "number BIGINT"

    def read(self, split: Any) -> Iterator[Any]:
        yield [1]


class NoRead(NoSpout):
    read = Source.read

    def spout(self) -> Any:
        return ROWS.spout()


class NoSchema(Source):
    def spout(self) -> Any:
        return ROWS.spout()

    def read(self, split: Any) -> Iterator[Any]:
        yield [1]


class WrongSpout(NoSpout):
    def spout(self) -> Any:
        return [1, 2]


class ForgetsToReturn(NoSpout):
    def spout(self) -> Any:
        ROWS.spout()


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("corpus/*.txt", "Bad.source is 'corpus/*.txt'; a Source such as TextFiles(…) was expected"),
        (MemorySource, "Bad.source is the class MemorySource; a Source such as TextFiles(…) was expected"),
        (ROWS.spout(), "; a Source such as TextFiles(…) was expected"),
        (NoSpout(), "NoSpout has no method 'spout', which defines the batches"),
        (NoRead(), "NoRead has neither a method 'read' nor 'dataframe'"),
        (NoSchema(), "NoSchema has no schema; a schema such as 'value STRING' was expected"),
        (WrongSpout(), "WrongSpout.spout returned [1, 2]; a transactional spout was expected"),
        (ForgetsToReturn(), "ForgetsToReturn.spout returned None; a transactional spout was expected"),
    ],
)
def test_a_source_that_is_none(source: Any, sentence: str) -> None:
    assert sentence in fault(source=source)


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        ({"state": None}, "Bad has neither state nor sinks nor outputs: its results would go nowhere"),
        ({"state": Sink}, "Bad.state holds the class Sink; a Sink such as SqlState(…) was expected"),
        ({"state": "counts.db"}, "Bad.state holds 'counts.db'; a Sink such as SqlState(…) was expected"),
        ({"state": [Sink()]}, "a Sink such as SqlState(…) was expected, or 'sinks' for several"),
        ({"sinks": Sink()}, "Bad.sinks is a single sink: put it in a list, or assign it to 'state'"),
        ({"sinks": "counts.db"}, "Bad.sinks is 'counts.db'; a list of sinks was expected"),
        ({"sinks": None}, "Bad.sinks is None; a list of sinks was expected"),
        ({"sinks": [Sink(), "counts.db"]}, "Bad.sinks holds 'counts.db'; a Sink such as SqlState(…) was expected"),
        ({"outputs": "number"}, "Bad.outputs is 'number'; a list of column names was expected"),
        ({"outputs": [1]}, "Bad.outputs is [1]; a list of column names was expected"),
        ({"outputs": None}, "Bad.outputs is None; a list of column names was expected"),
        ({"outputs": ["number", "number"]}, "number"),
        ({"outputs": ["attempt"]}, "Bad.outputs has 'attempt': leave it out, as every tuple begins with the attempt"),
        ({"process": None}, "Bad.process is None; a method was expected"),
    ],
)
def test_results_that_would_go_nowhere_or_to_what_is_no_sink(parts: dict[str, Any], sentence: str) -> None:
    assert sentence in fault(**parts)


def test_an_attribute_that_cannot_be_copied_is_named() -> None:
    class Locked(Good):
        def __init__(self) -> None:
            self.lock = threading.Lock()

    with pytest.raises(TopologyError, match=r"Locked.lock \(lock\) cannot be copied to the pipeline's task") as caught:
        Locked().topology()
    assert "\n" not in str(caught.value)


def test_a_transactional_id_that_is_no_name() -> None:
    made = Good()
    made.transactional_id = "a/b"
    with pytest.raises(UsageError, match="a/b"):
        made.topology()


class Prints(BasicBolt):
    def execute(self, tup: Any, collector: Any) -> None:
        print(tup)


def test_a_bolt_downstream_of_a_pipeline_without_outputs_is_refused() -> None:
    builder = Good().builder()
    with pytest.raises(TopologyError, match=r"bolt 'prints': .* 'default' of 'pipeline', which is not one of its"):
        builder.set_bolt("prints", Prints()).shuffle_grouping("pipeline")
