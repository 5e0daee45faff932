"""CSV files with one row per line, parsed by Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructType

from tupletree.errors import UsageError
from tupletree.spark.sources.lines import LineFiles
from tupletree.spark.sources.parsing import Parsing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class CsvFiles(LineFiles):
    """Files with values separated by ``separator``, one row per line. Columns of ``schema`` are matched by position.

    No value may contain a line end, quoted or not. Blank lines are skipped.

    ``schema``: in Spark's DDL (``"name STRING, age INT"``) or as a StructType.

    ``header``: True to skip the first line of each file. Its names are ignored.

    ``mode``: the treatment of a line with too few or too many values, or with a value of another type:

    * ``"PERMISSIVE"``: a row with nulls for unreadable values, and without surplus values. The line is stored in the
      column ``_corrupt_record STRING``, if the schema has one.
    * ``"FAILFAST"``: the batch fails, with the line in the error.
    * ``"DROPMALFORMED"``: the line is dropped.

    ``options``: other options of Spark's CSV reader that concern single lines, such as
    ``{"quote": "'", "nullValue": "-"}``.

    All other arguments are the same as for TextFiles.
    """

    def __init__(
        self,
        files: str | Path,
        schema: str | StructType,
        max_bytes_per_batch: int | str = "4MB",
        *,
        header: bool = False,
        separator: str = ",",
        mode: str = "PERMISSIVE",
        options: Mapping[str, Any] | None = None,
        are_complete: bool = False,
        encoding: str = "utf-8",
        errors: str = "strict",
    ) -> None:
        super().__init__(files, max_bytes_per_batch, are_complete=are_complete, encoding=encoding, errors=errors)
        if type(header) is not bool:
            raise UsageError(f"CsvFiles: header is {header!r}; True or False was expected")
        if not isinstance(separator, str) or not separator or "\n" in separator:
            raise UsageError(f"CsvFiles: separator is {separator!r}; one or more characters were expected")
        self.skips_first_line = header
        self.parsing = Parsing("CsvFiles", schema, mode, options, {"sep": separator})

    def dataframe(self, spark: SparkSession, splits: Sequence[Any]) -> DataFrame:
        from pyspark.sql import functions

        return self.parsing.rows(super().dataframe(spark, splits), functions.from_csv)
