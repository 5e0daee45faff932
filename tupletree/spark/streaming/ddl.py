"""Parser for columns in Spark's DDL. It needs no Spark session: tasks that exchange rows with Spark have none.

columns  name type, name type, …        a name may be in backquotes
type     BIGINT, STRING, …, DECIMAL(10, 2), ARRAY<type>, MAP<type, type>, STRUCT<name: type, …>
"""

from __future__ import annotations  # pure

import re
from typing import NoReturn

from pyspark.sql import types
from pyspark.sql.types import DataType, StructField, StructType

from tupletree.errors import UsageError

_TOKEN = re.compile(r"\s*(?:`((?:[^`]|``)+)`|(\w+)|([<>(),:]))")

_PLAIN: dict[str, type[DataType]] = {
    "BOOLEAN": types.BooleanType,
    "TINYINT": types.ByteType,
    "BYTE": types.ByteType,
    "SMALLINT": types.ShortType,
    "SHORT": types.ShortType,
    "INT": types.IntegerType,
    "INTEGER": types.IntegerType,
    "BIGINT": types.LongType,
    "LONG": types.LongType,
    "FLOAT": types.FloatType,
    "REAL": types.FloatType,
    "DOUBLE": types.DoubleType,
    "STRING": types.StringType,
    "BINARY": types.BinaryType,
    "DATE": types.DateType,
    "TIMESTAMP": types.TimestampType,
    "TIMESTAMP_NTZ": types.TimestampNTZType,
}


def parse_schema(schema: str | StructType) -> StructType:
    """Return columns as Spark's own type. Every column is nullable.

    Raises:
        UsageError: the schema has no columns, two columns of one name, or a type that is not listed above.
    """
    parsed = _Parser(schema).parse() if isinstance(schema, str) else schema
    if not isinstance(parsed, StructType) or not parsed.fields:
        raise UsageError(f"the schema {schema!r} names no columns; 'word STRING, count BIGINT' is an example")
    names = parsed.fieldNames()
    if len({name.lower() for name in names}) < len(names):
        raise UsageError(f"the schema {schema!r} names a column twice")
    return parsed


class _Parser:
    """Reads one schema from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, bool]] = []  # (text, True if it is a word)
        position = 0
        while text[position:].strip():
            match = _TOKEN.match(text, position)
            if match is None:
                self._refuse(text[position:].split(maxsplit=1)[0])
            quoted, word, mark = match.groups()
            self._tokens.append((quoted.replace("``", "`") if quoted else word or mark, mark is None))
            position = match.end()

    def parse(self) -> StructType:
        columns = StructType(self._columns() if self._tokens else [])
        if self._tokens:
            self._refuse(self._tokens[0][0])
        return columns

    def _columns(self) -> list[StructField]:
        columns = [self._column()]
        while self._accept(","):
            columns.append(self._column())
        return columns

    def _column(self) -> StructField:
        name = self._word("the name of a column")
        self._accept(":")
        return StructField(name, self._type(), nullable=True)

    def _type(self) -> DataType:
        name = self._word("a type")
        kind = _PLAIN.get(name.upper())
        if kind is not None:
            return kind()
        match name.upper():
            case "DECIMAL" | "NUMERIC" | "DEC":
                return self._decimal()
            case "ARRAY":
                self._expect("<")
                made: DataType = types.ArrayType(self._type())
            case "MAP":
                self._expect("<")
                key = self._type()
                self._expect(",")
                made = types.MapType(key, self._type())
            case "STRUCT":
                self._expect("<")
                made = StructType(self._columns())
            case _:
                known = ", ".join([*_PLAIN, "DECIMAL", "ARRAY", "MAP", "STRUCT"])
                raise UsageError(f"the schema {self._text!r} has the type {name}; one of {known} was expected")
        self._expect(">")
        return made

    def _decimal(self) -> DataType:
        if not self._accept("("):
            return types.DecimalType(10, 0)
        precision = self._number()
        scale = self._number() if self._accept(",") else 0
        self._expect(")")
        return types.DecimalType(precision, scale)

    def _number(self) -> int:
        text = self._word("a number")
        return int(text) if text.isdecimal() else self._refuse(text)

    def _word(self, expected: str) -> str:
        if not self._tokens:
            raise UsageError(f"the schema {self._text!r} ends where {expected} was expected")
        token, is_word = self._tokens.pop(0)
        return token if is_word else self._refuse(token)

    def _accept(self, mark: str) -> bool:
        if self._tokens and self._tokens[0] == (mark, False):
            del self._tokens[0]
            return True
        return False

    def _expect(self, mark: str) -> None:
        if not self._accept(mark):
            self._refuse(self._tokens[0][0] if self._tokens else f"an end where '{mark}' was expected")

    def _refuse(self, token: str) -> NoReturn:
        raise UsageError(
            f"the schema {self._text!r} cannot be parsed at {token!r}; 'word STRING, count BIGINT' is an example"
        )
