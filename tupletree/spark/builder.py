"""The topology of a pipeline: a coordinator, the task that drives Spark, and any downstream bolts.

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
"""The id of the component that drives Spark and emits the rows of ``outputs``."""

BATCHES = 4
"""Default number of batches in progress at a time; ``topology.max.spout.pending`` overrides it."""


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
        """Same as TransactionalTopologyBuilder.create_topology."""
        topology = super().create_topology()
        topology.components[COMPONENT].conf["topology.tick.tuple.freq.secs"] = TICK_S
        return topology

    def _emitter_bolt(self, spout: TransactionalSpout) -> EmitterBolt:
        return PipelineBolt(self.transactional_id, self.pipeline, spout)

    def _check_streams(self, definition: Definition) -> None:
        if definition.id != COMPONENT:  # a pipeline without outputs is valid
            super()._check_streams(definition)
