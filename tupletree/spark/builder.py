"""The topology of a pipeline: a coordinator, the task that drives Spark, and whatever bolts are set downstream.

pipeline:coordinator (spout) --batch, commit--> pipeline (one task, the Spark driver) --rows--> bolts
"""

from __future__ import annotations

from typing import Any

from tupletree.declarer import Definition
from tupletree.spark.pipeline import checked
from tupletree.spark.pipeline_bolt import TICK_S, PipelineBolt
from tupletree.topology import Topology
from tupletree.transactional.builder import TransactionalTopologyBuilder
from tupletree.transactional.emitter_bolt import EmitterBolt
from tupletree.transactional.spouts import TransactionalSpout

COMPONENT = "pipeline"
"""The id of the component that drives Spark, and emits the rows of ``outputs``."""

BATCHES = 4
"""How many batches are under way at a time where ``topology.max.spout.pending`` does not say."""


class PipelineBuilder(TransactionalTopologyBuilder):
    """A TransactionalTopologyBuilder whose batches are those of a pipeline. Bolts subscribe to ``pipeline``.

    Raises:
        TopologyError: the pipeline lacks a part, or one is of the wrong kind.
        UsageError: its transactional id is no name.
    """

    _default_active = BATCHES

    def __init__(self, pipeline: Any) -> None:
        self.pipeline = checked(pipeline)
        super().__init__(self.pipeline.transactional_id, COMPONENT, self.pipeline.source.spout())

    def create_topology(self) -> Topology:
        """As TransactionalTopologyBuilder.create_topology."""
        topology = super().create_topology()
        topology.components[COMPONENT].conf["topology.tick.tuple.freq.secs"] = TICK_S
        return topology

    def _emitter_bolt(self, spout: TransactionalSpout) -> EmitterBolt:
        return PipelineBolt(self.transactional_id, self.pipeline, spout)

    def _check_streams(self, definition: Definition) -> None:
        if definition.id != COMPONENT:  # a pipeline that emits nothing is one all the same
            super()._check_streams(definition)
