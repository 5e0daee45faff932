"""Pipelines, written by users: Spark processes the batches of a pipeline, and the effects happen exactly once.

    class WordCount(Pipeline):
        source = TextFiles("corpus/*.txt", max_bytes_per_batch="4MB")
        state = SqlState("counts.db", table="counts", key=["word"], add=["count"])
        def process(self, batch):
            return batch.select(explode(split("value", r"\\W+")).alias("word")).groupBy("word").count()

    def topology():
        return WordCount().topology()

Rows never pass through the topology's workers, unless the pipeline has ``outputs``. Then the rows of each batch's
result are emitted as tuples to bolts downstream of the component ``pipeline``::

    builder = WordCount().builder()
    builder.set_bolt("alerts", Alerts()).shuffle_grouping("pipeline")
    topology = builder.create_topology()

The topology has a coordinator, the task that drives Spark, and any downstream bolts::

    pipeline:coordinator (spout) --batch, commit--> pipeline (one task, the Spark driver) --rows--> bolts
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import cloudpickle

from tupletree._definition import Definition
from tupletree._signatures import check_calls
from tupletree.errors import TopologyError
from tupletree.spark.pipeline_bolt import BATCHES, TICK_S, PipelineBolt
from tupletree.spark.sink import Sink
from tupletree.spark.source import Source
from tupletree.topology import Topology
from tupletree.transactional.builder import TransactionalTopologyBuilder
from tupletree.transactional.emitter_bolt import EmitterBolt
from tupletree.transactional.spouts import TransactionalSpout, TransactionalSpoutBase

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COMPONENT = "pipeline"
"""The id of the component that drives Spark and emits the rows of ``outputs``."""


class Pipeline:
    """Batches of a source, processed by Spark and committed to sinks in the order of their txids.

    Attributes:
        source: the source of the rows.
        state, sinks: one sink, or several, for the result of each batch. Each sink takes every batch exactly once; the
            sinks do not commit at the same moment.
        outputs: the columns of the result that are emitted as tuples, if any.
        transactional_id: the name that progress is stored under; by default the name of the class, in lower case with
            hyphens. A pipeline submitted with the same id continues where the last one stopped.
    """

    source: Source
    state: Sink | None = None
    sinks: Sequence[Sink] = ()
    outputs: Sequence[str] = ()
    transactional_id: str = ""

    def process(self, batch: DataFrame) -> DataFrame:
        """Return the result of a batch. Called in the Spark driver, for several batches at once from several threads.

        Must only describe the computation: actions (``count``, ``collect``) run jobs of their own. An exception fails
        the batch.

        A replayed batch is processed again. If the same rows can give a different result (random numbers, the time of
        day), several sinks and bolts downstream can each take the result of a different attempt: one result each, but
        not the same result.
        """
        return batch

    def emit(self, result: DataFrame) -> DataFrame:
        """Return the rows of the result to emit, by default all. Called only if there are ``outputs``."""
        return result

    def all_sinks(self) -> list[Sink]:
        """Return ``state`` and ``sinks`` in one list."""
        return [*([self.state] if self.state is not None else []), *self.sinks]

    def builder(self) -> PipelineBuilder:
        """Return the builder of the pipeline's topology, for adding bolts. TopologyError if the pipeline is faulty."""
        return PipelineBuilder(self)

    def topology(self) -> Topology:
        """Return the topology of this pipeline alone. Raises TopologyError if the pipeline is faulty."""
        return self.builder().create_topology()


class PipelineBuilder(TransactionalTopologyBuilder):
    """A TransactionalTopologyBuilder for the batches of a pipeline. Bolts subscribe to ``pipeline``.

    Raises:
        TopologyError: a part of the pipeline is missing or has the wrong type.
        UsageError: the transactional id is not a valid name.
    """

    _default_active = BATCHES

    def __init__(self, pipeline: Any) -> None:
        self.pipeline = checked(pipeline)
        super().__init__(self.pipeline.transactional_id, COMPONENT, self.pipeline.source.spout())

    def create_topology(self) -> Topology:
        """Same as TransactionalTopologyBuilder.create_topology. Refuses several tasks of the pipeline."""
        topology = super().create_topology()
        driver = topology.components[COMPONENT]
        if driver.tasks > 1:
            fault = f"the pipeline has {driver.tasks} tasks, and each would commit a part of a batch; one was expected"
            _refuse("topology.tasks", fault)
        driver.conf["topology.tasks"] = 1  # also if the topology's configuration has another number for all components
        driver.conf["topology.tick.tuple.freq.secs"] = TICK_S
        return topology

    @property
    def _commits_in_groups(self) -> bool:
        """False, whatever the bolts downstream permit: the driver commits one transaction after the other."""
        return False

    def _emitter_bolt(self, spout: TransactionalSpout) -> EmitterBolt:
        return PipelineBolt(self.transactional_id, self.pipeline, spout)

    def _check_outputs(self, spout: Definition) -> None:
        """Accept a pipeline without outputs."""


def checked(pipeline: Any) -> Pipeline:
    """Check a pipeline and return it. Its parts become instance attributes, so that they are pickled with the pipeline.

    Raises:
        TopologyError: a part is missing or has the wrong type.
    """
    if isinstance(pipeline, type) or not isinstance(pipeline, Pipeline):
        found = f"the class {pipeline.__name__}" if isinstance(pipeline, type) else type(pipeline).__name__
        _refuse("", f"an object of a subclass of Pipeline was expected, not {found}")
    name = type(pipeline).__name__
    for field in ("source", "state", "sinks", "outputs"):
        setattr(pipeline, field, getattr(pipeline, field, None))
    _check_source(pipeline, name)
    _check_sinks(pipeline, name)
    if not _is_list_of(pipeline.outputs, str):
        _refuse("outputs", f"{name}.outputs is {pipeline.outputs!r}; a list of column names was expected")
    if "attempt" in pipeline.outputs:
        _refuse("outputs", f"{name}.outputs has 'attempt': leave it out, as every tuple begins with the attempt")
    for method in ("process", "emit"):
        if not callable(getattr(pipeline, method)):
            _refuse(method, f"{name}.{method} is {_said(getattr(pipeline, method))}; a method was expected")
    for part in (pipeline, pipeline.source, *pipeline.all_sinks()):
        check_calls(f"pipeline {name}", "pipeline", part)
    if not pipeline.all_sinks() and not pipeline.outputs:
        _refuse("state", f"{name} has neither state nor sinks nor outputs: its results would go nowhere")
    _check_pickles(pipeline, name)
    pipeline.transactional_id = pipeline.transactional_id or _hyphened(name)
    checked_pipeline: Pipeline = pipeline
    return checked_pipeline


def _check_pickles(pipeline: Pipeline, name: str) -> None:
    for field, value in vars(pipeline).items():
        try:
            cloudpickle.dumps(value)
        except Exception as error:
            _refuse(
                field,
                f"{name}.{field} ({type(value).__name__}) cannot be copied to the pipeline's task: {error}; "
                "make the value in 'process', or in the method 'open' of a sink",
            )


def _check_source(pipeline: Pipeline, name: str) -> None:
    source: Any = getattr(pipeline, "source", None)
    if source is None:
        _refuse("source", f"{name} has no source; a Source such as TextFiles(…) was expected")
    if not isinstance(source, Source):
        _refuse("source", f"{name}.source is {_said(source)}; a Source such as TextFiles(…) was expected")
    kind = type(source)
    if kind.spout is Source.spout:
        _refuse("source", f"{kind.__name__} has no method 'spout', which defines the batches")
    if kind.dataframe is Source.dataframe:
        if kind.read is Source.read:
            _refuse("source", f"{kind.__name__} has neither a method 'read' nor 'dataframe'")
        if not hasattr(source, "schema"):
            _refuse("source", f"{kind.__name__} has no schema; a schema such as 'value STRING' was expected")
    spout: Any = source.spout()
    if not isinstance(spout, TransactionalSpoutBase):
        _refuse("source", f"{kind.__name__}.spout returned {_said(spout)}; a transactional spout was expected")


def _check_sinks(pipeline: Pipeline, name: str) -> None:
    if isinstance(pipeline.sinks, Sink):
        _refuse("sinks", f"{name}.sinks is a single sink: put it in a list, or assign it to 'state'")
    if not isinstance(pipeline.sinks, list | tuple):
        _refuse("sinks", f"{name}.sinks is {_said(pipeline.sinks)}; a list of sinks was expected")
    for field, sink in [("state", pipeline.state), *(("sinks", sink) for sink in pipeline.sinks)]:
        if sink is not None and not isinstance(sink, Sink):
            hint = ", or 'sinks' for several" if _is_list_of(sink, Sink) else ""
            _refuse(field, f"{name}.{field} holds {_said(sink)}; a Sink such as SqlState(…) was expected{hint}")
        if sink is not None and sink.opaque_refusal and pipeline.source.is_opaque:
            refusal = f"{sink.target} cannot be written behind an opaque source: {sink.opaque_refusal}"
            _refuse(field, f"{name}.{field}: {refusal}")
    targets = [sink.target for sink in pipeline.all_sinks() if sink.target]
    for target in targets:
        if targets.count(target) > 1:
            _refuse("sinks", f"{name} has two sinks for {target}; one sink per target was expected")


def _hyphened(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower()


def _is_list_of(value: Any, kind: type) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(item, kind) for item in value)


def _said(value: Any) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else repr(value)


def _refuse(field: str, fault: str) -> None:
    raise TopologyError(fault, component="pipeline", field=field)
