"""What a row becomes in Redis: the name of its hash, the text of each value, and how a column is merged.

    <prefix>:<key value>:<key value>…    hash: column -> text

Different keys have different names: in the text of a key value ``%`` is written ``%25`` and ``:`` is written ``%3A``,
and a NULL is ``%null``, which no other value can become. Integers and decimals keep all their digits, doubles are
written so that reading them gives the same double, and times have a fixed width, so that their order is the order of
their texts.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import msgpack

from tupletree.errors import UsageError

ROWS_PER_CHUNK = 1_000
BYTES_PER_CHUNK = 1 << 20
"""A chunk of staged rows is closed when it has so many rows or so many bytes."""

KINDS: Mapping[str, str] = {
    **dict.fromkeys(("byte", "short", "integer", "long"), "whole"),
    **dict.fromkeys(("float", "double"), "double"),
    "decimal": "decimal",
    **dict.fromkeys(("string", "varchar", "char", "boolean", "date", "timestamp", "timestamp_ntz"), "text"),
    "binary": "binary",
}
"""From the name of a type in Spark to how its values compare and add up."""


class Column(NamedTuple):
    """A column of a hash. ``rule``: add, min, max or replace; ``kind``: one of KINDS."""

    name: str
    rule: str
    kind: str


def text(value: Any) -> str | bytes:
    """A value that is not NULL as it stands in Redis."""
    return _TEXTS[type(value)](value)


def hash_name(prefix: str, key: Iterable[Any]) -> str:
    """The name of the hash of a key."""
    return f"{prefix}:{encoded_key(key)}"


def encoded_key(key: Iterable[Any]) -> str:
    """The values of a key as one text; other values are another text."""
    return ":".join("%null" if value is None else _escaped(text(value)) for value in key)


def checked_columns(
    what: str, key: Sequence[str], rules: Mapping[str, str], types: Sequence[tuple[str, str]]
) -> list[Column]:
    """The columns of the hashes, for a result with columns of these types. UsageError if it has others.

    ``rules``: column -> add, min, max or replace. ``types``: the result's columns and the names of their types.
    """
    names = [name for name, _ in types]
    wanted = [*key, *rules]
    missing = [name for name in wanted if name not in names]
    unknown = [name for name in names if name not in wanted]
    twice = sorted({name for name in names if names.count(name) > 1})
    for columns, problem in ((missing, "are missing"), (unknown, "have no place in it"), (twice, "are there twice")):
        if columns:
            raise UsageError(f"{what}: of the columns of the result, {_listed(columns)} {problem}: it has {names}")
    kinds = {name: KINDS.get(type_name) for name, type_name in types}
    for name, type_name in types:
        if kinds[name] is None or (name in key and kinds[name] == "binary"):
            raise UsageError(f"{what}: column {name!r} is of type {type_name}; a number, a text or a time was expected")
        if rules.get(name) == "add" and kinds[name] not in {"whole", "double"}:
            raise UsageError(f"{what}: column {name!r} is of type {type_name}; what adds up is BIGINT or DOUBLE")
    return [Column(name, rule, str(kinds[name])) for name, rule in rules.items()]


def packed(rows: Iterable[Sequence[Any]], keys: int) -> Iterator[bytes]:
    """Rows, each of ``keys`` key values and then the columns, in chunks.

    A chunk is an array in MessagePack: key, column, column, …, key, column, …; false for NULL, so that a Lua table has
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
