"""Streams as DataFrames: the way from a program to Spark."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Unpack

from tupletree.errors import UsageError
from tupletree.streams import operators
from tupletree.streams.graph import Operator
from tupletree.streams.program import Placing


class ToSpark:
    """The methods of a stream that hand its elements to Spark."""

    operator: Operator

    def to_dataframe_sink(
        self, path: str | os.PathLike[str], columns: Mapping[str, str] | None = None, **placing: Unpack[Placing]
    ) -> None:
        """Write each element as a row of Parquet files, which pipelines and streaming queries read as they come.

            counts.to_dataframe_sink("/data/counts", {"word": "string", "count": "bigint"})

            source = ParquetFiles("/data/counts")                                           # of a Pipeline
            spark.readStream.schema("word STRING, count BIGINT").parquet("/data/counts")    # Structured Streaming

        ``path``: a directory that all workers and all of Spark see. ``columns``: names of columns and Spark's names of
        their types. A column that is a field of the elements has its values; if there is one that is not, the columns
        are the key, if there is one, and the parts of the element, in order. None: the fields of the record of which
        the elements are, with the types of its annotations.

        Guarantees and files are those of ``ParquetSink``, with which a program that needs another compression or other
        sizes of files writes: ``stream.sink(ParquetSink(…))``. With exactly_once, a task adds a file with each
        checkpoint that has rows of it, when that is committed; so each row is read once. Raises UsageError for wrong
        columns.
        """
        from tupletree.connectors.file_sinks import ParquetSink

        layout = self.operator.layout
        if columns is None and layout.record is None:
            raise UsageError(
                "to_dataframe_sink: the record of the elements is not known: name the columns and their types, as in "
                "{'word': 'string', 'count': 'bigint'}"
            )
        fields: list[Any] = [] if columns is None or set(columns) <= set(layout.fields) else list(columns)
        operators.sink(self.operator, ParquetSink(path, columns or layout.record), fields, **placing)
