"""CSV files: a row in each line, parsed by Spark."""

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
    """Files with values separated by ``separator`` in each line, as rows of the columns of ``schema``, by position.

    A row is one line: no value may contain a line end, quoted or not. Blank lines are no rows.

    ``schema``: in Spark's DDL (``"name STRING, age INT"``) or as a StructType.

    ``header``: whether the first line of each file is no row. Its names are not looked at.

    ``mode``: what becomes of a line with too few or too many values, or with one of another type:

    * ``"PERMISSIVE"``: a row with nulls where nothing could be read, and without what is too much; a column
      ``_corrupt_record STRING``, if there is one, has the line.
    * ``"FAILFAST"``: the batch fails, with the line in the error.
    * ``"DROPMALFORMED"``: no row.

    ``options``: others of Spark's CSV reader that concern single lines, such as ``{"quote": "'", "nullValue": "-"}``.

    All else is as for TextFiles.
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
