"""Messages of PostgreSQL's output plugin pgoutput, protocol version 1, and the changes in them.

    Begin      B | commit LSN 8 | time 8 | transaction 4
    Relation   R | id 4 | schema z | table z | identity 1 | columns 2 | (is key 1 | name z | type 4 | modifier 4) …
    Insert     I | id 4 | N row
    Update     U | id 4 | (K key | O old row)? | N row
    Delete     D | id 4 | (K key | O old row)
    Truncate   T | tables 4 | options 1 | id 4 …
    Commit     C | flags 1 | commit LSN 8 | end LSN 8 | time 8
    row        columns 2 | (n | u | t length 4 text) …          null, unchanged (and not sent), value

Numbers are big-endian; z is text that ends with a zero byte. A relation comes before the first change of a table, and
again when the table has changed.
"""

from __future__ import annotations  # pure

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, NamedTuple
from uuid import UUID

from tupletree.connectors.formats import json_value

EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)
LOADERS: Final[Mapping[int, Callable[[str], Any]]] = {
    16: lambda text: text == "t",
    17: lambda text: bytes.fromhex(text[2:]),  # bytea_output = hex
    **dict.fromkeys((20, 21, 23, 26), int),
    **dict.fromkeys((700, 701), float),
    **dict.fromkeys((114, 3802), json_value),
    1700: Decimal,
    2950: UUID,
}
"""The types whose values are not text: bool, bytea, integers, floats, json, jsonb, numeric, uuid."""


class Change(NamedTuple):
    """A change of a row.

    Attributes:
        operation: "insert", "update", "delete", "truncate" or "snapshot" (a row that was there already).
        table: schema and table, with a dot between.
        key: the columns of the replica identity: by default the primary key.
        new: the row; None after delete and truncate. Large values that the change left alone can be missing.
        old: the row before: all of it with REPLICA IDENTITY FULL, otherwise its key, if that was changed or deleted, or
            is so large (2 KB) that it is stored apart from the row.
    """

    operation: str
    table: str
    key: dict[str, Any]
    new: dict[str, Any] | None
    old: dict[str, Any] | None


class Begin(NamedTuple):
    """The begin of a transaction. ``lsn``: where its commit is in the write-ahead log."""

    lsn: int
    time: datetime
    transaction: int


class Commit(NamedTuple):
    """The end of a transaction. ``end``: the LSN behind it."""

    end: int


@dataclass(frozen=True, slots=True)
class Relation:
    """A table. ``columns``: name, type and whether it belongs to the key."""

    table: str
    columns: Sequence[tuple[str, int, bool]]

    def key_of(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return the key of a row."""
        return {name: row[name] for name, _, is_key in self.columns if is_key and name in row}


def load(kind: int, value: bytes | None) -> Any:
    """Return a value of a type, from the text that PostgreSQL writes.

    Types that are not in LOADERS stay text, and so do values that Python cannot read, such as JSON too deep for it.
    """
    if value is None:
        return None
    text = value.decode(errors="replace")  # a database without an encoding takes any bytes
    loader = LOADERS.get(kind)
    if loader is None:
        return text
    try:
        return loader(text)
    except (ValueError, ArithmeticError, RecursionError):
        return text


class Decoder:
    """Decodes the messages of one session of decoding, in their order."""

    def __init__(self) -> None:
        self._relations: dict[int, Relation] = {}
        self._data = b""
        self._at = 0

    def decode(self, message: bytes) -> Begin | Commit | Sequence[Change]:
        """Return what a message says. Messages that say nothing of rows have no changes."""
        self._data, self._at = message, 1
        match chr(message[0]):
            case "B":
                lsn, micros, transaction = self._numbers(">QqI")
                return Begin(lsn, EPOCH + timedelta(microseconds=micros), transaction)
            case "C":
                return Commit(self._numbers(">BQQq")[2])
            case "R":
                self._add_relation()
            case "I" | "U" | "D" as kind:
                return [self._change(kind)]
            case "T":
                count, _ = self._numbers(">IB")
                tables = [self._relations[id].table for id in self._numbers(f">{count}I")]
                return [Change("truncate", table, {}, None, None) for table in tables]
        return ()

    def _change(self, kind: str) -> Change:
        relation = self._relations[self._numbers(">I")[0]]
        rows: dict[bytes, dict[str, Any]] = {}
        while self._at < len(self._data):
            [which] = self._numbers(">c")
            rows[which] = self._row(relation, which == b"K")
        old, new = rows.get(b"K", rows.get(b"O")), rows.get(b"N")
        if kind == "D":
            return Change("delete", relation.table, relation.key_of(old or {}), None, old)
        assert new is not None
        if old is not None:  # a value that is unchanged, and not sent, is in the old row or in the key
            new = {**{name: value for name, value in old.items() if name not in new}, **new}
        return Change("insert" if kind == "I" else "update", relation.table, relation.key_of(new), new, old)

    def _row(self, relation: Relation, is_key: bool) -> dict[str, Any]:
        row = {}
        [count] = self._numbers(">H")
        for name, kind, belongs in relation.columns[:count]:
            [form] = self._numbers(">c")
            value = None
            if form == b"t":
                [length] = self._numbers(">I")
                value = self._data[self._at : self._at + length]
                self._at += length
            if form != b"u" and (belongs or not is_key):
                row[name] = load(kind, value)
        return row

    def _add_relation(self) -> None:
        [id] = self._numbers(">I")
        schema, table = self._text(), self._text()
        _, count = self._numbers(">BH")
        columns = []
        for _ in range(count):
            [flags] = self._numbers(">B")
            name = self._text()
            kind, _ = self._numbers(">Ii")
            columns.append((name, kind, bool(flags & 1)))
        self._relations[id] = Relation(f"{schema}.{table}", columns)

    def _numbers(self, form: str) -> tuple[Any, ...]:
        at = self._at
        self._at += struct.calcsize(form)
        return struct.unpack_from(form, self._data, at)

    def _text(self) -> str:
        end = self._data.index(b"\0", self._at)
        text = self._data[self._at : end].decode()
        self._at = end + 1
        return text or "pg_catalog"
