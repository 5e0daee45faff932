"""Validation of table names, and encoding of keys and of values as text.

A str key is stored as it is. A tuple of str and int is stored as ``tuple:`` and a JSON array without spaces:

    ("/login", 304)        tuple:["/login",304]

A str that is such a text is refused as a key, so a stored key has one meaning.
"""

from __future__ import annotations  # pure

import json
import re
from typing import Final

from tupletree._limits import is_encodable
from tupletree.errors import UsageError
from tupletree.transactional.databases.contract import JsonValue, Key

FORMAT = 1
"""The version of the layout, stored per table. Incremented when older versions of Tupletree would misread a table."""

TABLES = "tupletree_tables"
"""The table in which a SQL database keeps one row for each table: its name, its format and its mark."""

_TUPLE: Final = "tuple:"

_NAME = re.compile(r"(?!sqlite_|tupletree_)[A-Za-z0-9_]{1,50}", re.IGNORECASE | re.ASCII)


def check_table(name: str) -> str:
    """Return the name of a table. Raises UsageError if the name is invalid."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UsageError(
            f"table {name!r}: a name has 1 to 50 letters, digits and underscores,"
            " and begins with neither sqlite_ nor tupletree_"
        )
    return name


def encode_key(table: str, key: Key) -> str:
    """Return the text that is stored for a key.

    Raises UsageError unless the key is a str, or a tuple of str and int, that every database can store.
    """
    if isinstance(key, tuple):
        return _encode_tuple(table, key)
    if not isinstance(key, str):
        raise UsageError(f"table {table!r}: keys must be str or tuples of str and int, but {key!r} is {_type_of(key)}")
    if "\0" in key or not is_encodable(key):
        raise UsageError(f"table {table!r}: key {key!r} has a character that cannot be stored")
    if key.startswith(_TUPLE) and isinstance(decode_key(key), tuple):
        raise UsageError(f"table {table!r}: key {key!r} is how a tuple is stored; use the tuple, or another key")
    return key


def decode_key(text: str) -> Key:
    """Return the key that is stored as a text."""
    if not text.startswith(_TUPLE):
        return text
    try:
        key = tuple(json.loads(text.removeprefix(_TUPLE)))
        return key if _encode_tuple("", key) == text else text
    except (ValueError, TypeError, RecursionError, UsageError):  # a str that only begins like a tuple
        return text


def _encode_tuple(table: str, key: tuple[str | int, ...]) -> str:
    for item in key:
        if not isinstance(item, str | int) or isinstance(item, bool):
            raise UsageError(
                f"table {table!r}: keys must be str or tuples of str and int, but {key!r} has {_type_of(item)} in it"
            )
    try:
        text = _TUPLE + json.dumps(key, ensure_ascii=False, separators=(",", ":"))
    except ValueError as error:  # an int of thousands of digits
        raise UsageError(f"table {table!r}: a tuple key cannot be stored: {error}") from error
    if not is_encodable(text):
        raise UsageError(f"table {table!r}: key {key!r} has a character that cannot be stored")
    return text


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
        return "" if is_encodable(value) else "a lone surrogate"
    if type(value) is float:
        return "" if value - value == 0 else f"the float {value}"
    if type(value) is list:
        return next(filter(None, map(_not_json, value)), "")
    if type(value) is dict:
        if odd := [key for key in value if type(key) is not str]:
            return f"the dict key {odd[0]!r}, which is no str"
        return next(filter(None, map(_not_json, [*value, *value.values()])), "")
    return _type_of(value)


def _type_of(value: object) -> str:
    kind = type(value)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
