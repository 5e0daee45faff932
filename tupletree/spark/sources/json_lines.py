"""JSON lines: a JSON object in each line of a file, parsed by Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructType

from tupletree.spark.sources.lines import LineFiles
from tupletree.spark.sources.parsing import Parsing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class JsonLines(LineFiles):
    """Files with a JSON object in each line, as rows of the columns of ``schema``. Blank lines are no rows.

    ``schema``: in Spark's DDL (``"name STRING, age INT"``) or as a StructType. A column that an object does not have
    is null.

    ``mode``: what becomes of a line that is no such object, or has a value of another type:

    * ``"PERMISSIVE"``: a row with nulls where nothing could be read; a column ``_corrupt_record STRING``, if there is
      one, has the line.
    * ``"FAILFAST"``: the batch fails, with the line in the error.
    * ``"DROPMALFORMED"``: no row.

    ``options``: others of Spark's JSON reader that concern single lines, such as ``{"timestampFormat": …}``.

    All else is as for TextFiles.
    """

    def __init__(
        self,
        files: str | Path,
        schema: str | StructType,
        max_bytes_per_batch: int | str = "4MB",
        *,
        mode: str = "PERMISSIVE",
        options: Mapping[str, Any] | None = None,
        are_complete: bool = False,
        encoding: str = "utf-8",
        errors: str = "strict",
    ) -> None:
        super().__init__(files, max_bytes_per_batch, are_complete=are_complete, encoding=encoding, errors=errors)
        self.parsing = Parsing("JsonLines", schema, mode, options)

    def dataframe(self, spark: SparkSession, splits: Sequence[Any]) -> DataFrame:
        from pyspark.sql import functions

        return self.parsing.rows(super().dataframe(spark, splits), functions.from_json)
