"""Validation of table names and keys, and encoding of values as JSON text."""

from __future__ import annotations  # pure

import json
import re
from collections.abc import Iterable

from tupletree.errors import UsageError
from tupletree.transactional.databases.contract import JsonValue

FORMAT = 1
"""The version of the layout, stored per table. Incremented when older versions of Tupletree would misread a table."""

TABLES = "tupletree_tables"
"""The table in which a SQL database keeps one row for each table: its name, its format and its mark."""

_NAME = re.compile(r"(?!sqlite_|tupletree_)[A-Za-z0-9_]{1,50}", re.IGNORECASE | re.ASCII)


def check_table(name: str) -> str:
    """Return the name of a table. Raises UsageError if the name is invalid."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UsageError(
            f"table {name!r}: a name has 1 to 50 letters, digits and underscores,"
            " and begins with neither sqlite_ nor tupletree_"
        )
    return name


def check_keys(table: str, keys: Iterable[str]) -> None:
    """Raise UsageError unless every key is a str that every database can store."""
    for key in keys:
        if not isinstance(key, str):
            raise UsageError(f"table {table!r}: keys must be str, but {key!r} is {_type_of(key)}")
        if "\0" in key or not _encodable(key):
            raise UsageError(f"table {table!r}: key {key!r} has a character that cannot be stored")


def check_format(table: str, found: int) -> None:
    """Raise UsageError if a newer version of Tupletree wrote the table in a format that is unknown here."""
    if found > FORMAT:
        raise UsageError(
            f"table {table!r} has format {found}, and this version of Tupletree knows formats up to {FORMAT}:"
            " a newer version has written it"
        )


def not_ours(table: str) -> UsageError:
    """Return the error for a table that Tupletree did not create."""
    return UsageError(f"table {table!r} exists already, but Tupletree did not create it: choose another name")


def encode(table: str, key: str, value: JsonValue) -> str:
    """Encode a value as JSON text.

    Raises UsageError for any value that JSON would not preserve: NaN, a tuple, a dict with keys other than str.
    """
    culprit = _not_json(value)
    if culprit:
        raise UsageError(f"table {table!r}, key {key!r}: JSON cannot represent the value, which has {culprit}")
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def decode(text: str) -> JsonValue:
    """Decode a value that ``encode`` encoded."""
    return json.loads(text)


def _not_json(value: JsonValue) -> str:
    """Describe the part of a value that JSON cannot represent; empty if there is none."""
    if value is None or type(value) in (bool, int):
        return ""
    if type(value) is str:
        return "" if _encodable(value) else "a lone surrogate"
    if type(value) is float:
        return "" if value - value == 0 else f"the float {value}"
    if type(value) is list:
        return next(filter(None, map(_not_json, value)), "")
    if type(value) is dict:
        if odd := [key for key in value if type(key) is not str]:
            return f"the dict key {odd[0]!r}, which is no str"
        return next(filter(None, map(_not_json, [*value, *value.values()])), "")
    return _type_of(value)


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _type_of(value: object) -> str:
    kind = type(value)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
