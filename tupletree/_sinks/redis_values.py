"""The representation of a row in Redis: the name of its hash, the text of each value, and how a column is merged.

    <prefix>:<key value>:<key value>…    hash: column -> text

Different keys have different names. In the text of a key value ``%`` is written ``%25`` and ``:`` is written ``%3A``. A
NULL is ``%null``, which no other value can produce. Integers and decimals keep all their digits, doubles are written so
that reading them returns the same double, and times have a fixed width, so that their texts sort chronologically.
"""

from __future__ import annotations  # pure

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import msgpack

from tupletree.errors import UsageError

ROWS_PER_CHUNK = 1_000
BYTES_PER_CHUNK = 1 << 20
"""A chunk of staged rows is closed at this number of rows or bytes, whichever comes first."""

KINDS: Mapping[str, str] = {
    **dict.fromkeys(("byte", "short", "integer", "long"), "whole"),
    **dict.fromkeys(("float", "double"), "double"),
    "decimal": "decimal",
    **dict.fromkeys(("string", "varchar", "char", "boolean", "date", "timestamp", "timestamp_ntz"), "text"),
    "binary": "binary",
}
"""Spark type name -> kind, which decides how values are compared and added."""


class Column(NamedTuple):
    """A column of a hash. ``rule``: add, min, max or replace; ``kind``: one of KINDS."""

    name: str
    rule: str
    kind: str


def text(value: Any) -> str | bytes:
    """Return the text in Redis of a value that is not NULL."""
    return _TEXTS[type(value)](value)


def hash_name(prefix: str, key: Iterable[Any]) -> str:
    """Return the name of the hash of a key."""
    return f"{prefix}:{encoded_key(key)}"


def encoded_key(key: Iterable[Any]) -> str:
    """Encode the values of a key as one text, unique for these values."""
    return ":".join("%null" if value is None else _escaped(text(value)) for value in key)


def checked_columns(
    what: str, key: Sequence[str], rules: Mapping[str, str], types: Sequence[tuple[str, str]]
) -> list[Column]:
    """Return the columns of the hashes for a result with these types. UsageError if the result has other columns.

    ``rules``: column -> add, min, max or replace. ``types``: the result's columns and the names of their types.
    """
    names = [name for name, _ in types]
    wanted = [*key, *rules]
    missing = [name for name in wanted if name not in names]
    unknown = [name for name in names if name not in wanted]
    twice = sorted({name for name in names if names.count(name) > 1})
    for columns, problem in ((missing, "are missing"), (unknown, "have no role"), (twice, "occur twice")):
        if columns:
            raise UsageError(f"{what}: of the result's columns, {_listed(columns)} {problem}: the result has {names}")
    kinds = {name: KINDS.get(type_name) for name, type_name in types}
    for name, type_name in types:
        if kinds[name] is None or (name in key and kinds[name] == "binary"):
            raise UsageError(f"{what}: column {name!r} is of type {type_name}; a number, a text or a time was expected")
        if rules.get(name) == "add" and kinds[name] not in {"whole", "double"}:
            raise UsageError(f"{what}: column {name!r} is of type {type_name}; 'add' takes BIGINT or DOUBLE")
    return [Column(name, rule, str(kinds[name])) for name, rule in rules.items()]


def packed(rows: Iterable[Sequence[Any]], keys: int) -> Iterator[bytes]:
    """Pack rows, each of ``keys`` key values followed by the columns, into chunks.

    A chunk is an array in MessagePack: key, column, column, …, key, column, …. NULL is false, so that a Lua table has
    no holes.
    """
    chunk: list[str | bytes | bool] = []
    count = size = 0
    for row in rows:
        values = [encoded_key(row[:keys]), *(value is not None and text(value) for value in row[keys:])]
        chunk += values
        count += 1
        size += sum(len(value) for value in values if not isinstance(value, bool))
        if count >= ROWS_PER_CHUNK or size >= BYTES_PER_CHUNK:
            yield msgpack.packb(chunk, use_bin_type=False)
            chunk, count, size = [], 0, 0
    if chunk:
        yield msgpack.packb(chunk, use_bin_type=False)


def _escaped(value: str | bytes) -> str:
    plain = value if isinstance(value, str) else value.decode()
    return plain.replace("%", "%25").replace(":", "%3A")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names))


def _time(value: dt.datetime) -> str:
    if value.tzinfo is None:
        return value.isoformat(timespec="microseconds")
    return value.astimezone(dt.UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


_TEXTS: Mapping[type, Callable[[Any], str | bytes]] = {
    bool: lambda value: "true" if value else "false",
    int: str,
    float: repr,
    Decimal: lambda value: format(value, "f"),
    str: str,
    bytes: bytes,
    dt.date: dt.date.isoformat,
    dt.datetime: _time,
}
