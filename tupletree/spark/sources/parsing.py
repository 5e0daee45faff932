"""Parsing of lines into columns by Spark's own parsers: the common base of JsonLines and CsvFiles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StringType, StructType

from tupletree.errors import UsageError
from tupletree.spark.source import struct_type

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

MODES = ("PERMISSIVE", "FAILFAST", "DROPMALFORMED")

BAD_LINE = "_corrupt_record"
"""The default column in which a parser stores lines that it cannot read."""

_NOT_OPTIONS = {
    "mode": "use the argument 'mode'",
    "sep": "use the argument 'separator'",
    "delimiter": "use the argument 'separator'",
    "header": "use the argument 'header'",
    "encoding": "use the argument 'encoding'",
    "charset": "use the argument 'encoding'",
    "multiline": "a row is one line",
    "linesep": "a row is one line",
}


class Parsing:
    """Parses lines into rows. UsageError, naming ``owner``, for an invalid schema, mode or option."""

    def __init__(
        self,
        owner: str,
        schema: str | StructType,
        mode: str,
        options: Mapping[str, Any] | None,
        fixed: Mapping[str, str] | None = None,
    ) -> None:
        self.schema = checked_schema(owner, schema)
        if mode not in MODES:
            raise UsageError(f"{owner}: mode is {mode!r}; one of {', '.join(MODES)} was expected")
        if not isinstance(options, Mapping | None):
            raise UsageError(f"{owner}: options is {options!r}; a dict of Spark's options was expected")
        for key in options or {}:
            if str(key).lower() in _NOT_OPTIONS:
                raise UsageError(f"{owner}: {key!r} cannot be in options: {_NOT_OPTIONS[str(key).lower()]}")
        given = {str(key).lower(): _text(value) for key, value in (options or {}).items()}
        self.mode = mode
        self.bad_line = given.pop("columnnameofcorruptrecord", BAD_LINE)
        self.comment = given.get("comment")
        self.options = {
            **given,
            **(fixed or {}),
            "mode": "FAILFAST" if mode == "FAILFAST" else "PERMISSIVE",
            "columnNameOfCorruptRecord": self.bad_line,
        }

    def rows(self, lines: DataFrame, parse: Callable[..., Column]) -> DataFrame:
        """Return the lines in a column ``value`` as rows of the schema. ``parse`` is ``from_json`` or ``from_csv``.

        ``inline`` keeps Spark from parsing each line again for a condition on a column, here or in later steps.
        """
        from pyspark.sql import functions

        wanted = struct_type(self.schema)
        columns = StructType(list(wanted.fields))
        is_added = self.mode != "PERMISSIVE" and self.bad_line not in wanted.names
        if is_added:
            columns.add(self.bad_line, StringType())  # marks bad lines, and is shown in the error
        lines = lines.where(functions.length(functions.trim("value")) > 0)
        if self.comment:
            lines = lines.where(~functions.col("value").startswith(self.comment))
        rows = functions.array(parse("value", columns.toDDL(), self.options))
        if self.mode == "DROPMALFORMED":
            rows = functions.filter(rows, lambda row: row[self.bad_line].isNull())
        table = lines.select(functions.inline(rows))
        return table.drop(self.bad_line) if is_added else table


def checked_schema(owner: str, schema: str | StructType) -> str | StructType:
    """Return a user's schema, checked. UsageError, naming ``owner``, if it is invalid."""
    if not isinstance(schema, str | StructType) or not schema:
        raise UsageError(f"{owner}: schema is {schema!r}; columns in Spark's DDL were expected, such as 'value STRING'")
    return schema


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
