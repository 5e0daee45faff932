"""JSON lines: one JSON object per line of a file, parsed by Spark."""

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
    """Files with a JSON object in each line, as rows with the columns of ``schema``. Blank lines are skipped.

    ``schema``: in Spark's DDL (``"name STRING, age INT"``) or as a StructType. A column missing in an object is null.

    ``mode``: the treatment of a line that is not a JSON object, or has a value of another type:

    * ``"PERMISSIVE"``: a row with nulls for unreadable values. The line is stored in the column
      ``_corrupt_record STRING``, if the schema has one.
    * ``"FAILFAST"``: the batch fails, with the line in the error.
    * ``"DROPMALFORMED"``: the line is dropped.

    ``options``: other options of Spark's JSON reader that concern single lines, such as ``{"timestampFormat": …}``.

    All other arguments are the same as for TextFiles.
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
