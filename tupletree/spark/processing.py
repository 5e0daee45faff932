"""The part of a pipeline that its task and its driver use. Users write ``Pipeline`` (pipeline.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from tupletree.spark.sink import Sink
from tupletree.spark.source import Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Processing(Protocol):
    """A source, the processing of its batches, and sinks."""

    source: Source
    outputs: Sequence[str]
    transactional_id: str

    def process(self, batch: DataFrame) -> DataFrame:
        """Return the result of a batch."""

    def emit(self, result: DataFrame) -> DataFrame:
        """Return the rows of the result to emit."""

    def all_sinks(self) -> list[Sink]:
        """Return all sinks."""
