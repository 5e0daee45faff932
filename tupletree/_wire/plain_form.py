"""Encoded values in a form that JSON can carry, and keys given in that form. No object of a user's class is built.

=====================================  ===================================================================
value                                  plain form
=====================================  ===================================================================
None, bool, int, float, str, list      itself
dict whose keys are str without ``$``  object
other dict                             ``{"$dict": [[key, value], …]}``
tuple                                  ``{"$tuple": […]}``
bytes                                  ``{"$bytes": "…"}``, base64
set, frozenset                         ``{"$set": […]}``, ``{"$frozenset": […]}``
infinite float, not a number           ``{"$float": "inf"}``, ``"-inf"``, ``"nan"``
int of more than 10,000 bits           ``{"$int": "0x…"}``
datetime, date, time, Decimal, UUID    ``{"$datetime": "…"}`` and so on, as text
timedelta                              ``{"$timedelta": seconds}``
attempt of a transaction               ``{"$attempt": [txid, attempt]}``
object of a class with ``@value``      ``{"$value": "module.Class", "fields": […]}``, or the name of an Enum's member
object of a registered type            ``{"$registered": code, "bytes": "…"}``
=====================================  ===================================================================
"""

from __future__ import annotations  # pure

import base64
import binascii
import datetime as dt
import decimal
import json
import math
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import msgpack

from tupletree._wire.codec import MAX_NESTED, decode_value, reason_of
from tupletree.attempt import TransactionAttempt
from tupletree.errors import ProtocolError, UsageError

_BUILT_IN_CODES: Final = (2, 3, 5, 6, 7, 8, 9, 10)
_MAX_DIGIT_BITS: Final = 10_000  # Python refuses to write longer numbers in decimal
_TUPLE, _SET, _MARKED = 1, 4, 11
_TEXTS: Final[Mapping[type, tuple[str, Callable[[Any], Any]]]] = {
    dt.datetime: ("$datetime", lambda value: value.isoformat()),
    dt.date: ("$date", lambda value: value.isoformat()),
    dt.time: ("$time", lambda value: value.isoformat()),
    dt.timedelta: ("$timedelta", lambda value: value.total_seconds()),
    decimal.Decimal: ("$decimal", str),
    uuid.UUID: ("$uuid", str),
    TransactionAttempt: ("$attempt", list),
}


class _Tagged:
    """A part of a value that is in plain form already."""

    __slots__ = ("form",)

    def __init__(self, form: Any) -> None:
        self.form = form


def plain_form(data: bytes) -> Any:
    """Return the plain form of an encoded value.

    Raises:
        ProtocolError: the bytes are not an encoded value.
    """
    try:
        return _of(_unpack(0, data))
    except ProtocolError:
        raise
    except Exception as error:  # of many types, from msgpack: all mean bad bytes
        raise ProtocolError(f"a value cannot be shown: {reason_of(error)}") from error


def shown_form(data: bytes) -> Any:
    """Return the plain form of an encoded value, or ``{"$unreadable": reason}``."""
    try:
        return plain_form(data)
    except ProtocolError as error:
        return {"$unreadable": str(error)}


def key_of(form: Any) -> Any:
    """Return the key of a state that JSON stands for; an array is a tuple. Raises UsageError."""
    if type(form) in (str, int):
        return form
    if type(form) is list:
        return tuple(map(key_of, form))
    if type(form) is dict and len(form) == 1:
        [(tag, content)] = form.items()
        if tag == "$tuple" and type(content) is list:
            return tuple(map(key_of, content))
        if tag == "$bytes" and type(content) is str:
            try:
                return base64.b64decode(content, validate=True)
            except (binascii.Error, ValueError):
                raise UsageError(f"the content of a key's $bytes is not base64: {content[:100]!r}") from None
    raise UsageError(
        f'a key in JSON is a string, a whole number, an array of keys (for a tuple) or {{"$bytes": base64}}, '
        f"not {str(form)[:100]}"
    )


def _unpack(depth: int, data: bytes) -> Any:
    if depth > MAX_NESTED:
        raise ProtocolError(f"the value nests tuples and sets more than {MAX_NESTED} levels deep")
    return msgpack.unpackb(data, ext_hook=partial(_extension, depth), strict_map_key=False, timestamp=0)


def _extension(depth: int, code: int, data: bytes) -> Any:
    if code in _BUILT_IN_CODES:
        return decode_value(msgpack.packb(msgpack.ExtType(code, data)))
    if code == _TUPLE:
        return _Tagged({"$tuple": _items(_unpack(depth + 1, data))})
    if code == _SET:
        is_frozen, items = _unpack(depth + 1, data)
        # In an order of their forms: equal sets look alike, though they were encoded in any order.
        forms = sorted(_items(items), key=lambda form: json.dumps(form, sort_keys=True))
        return _Tagged({"$frozenset" if is_frozen else "$set": forms})
    if code == _MARKED:
        name, *fields = _unpack(depth + 1, data)
        return _Tagged({"$value": str(name), "fields": _items(fields)})
    return _Tagged({"$registered": code, "bytes": _base64(data)})


def _of(value: Any) -> Any:
    kind = type(value)
    if kind is _Tagged:
        return value.form
    if kind is list:
        return _items(value)
    if kind is dict:
        return _of_dict(value)
    if kind is bytes:
        return {"$bytes": _base64(value)}
    if kind is float and not math.isfinite(value):
        return {"$float": str(value)}
    if kind is msgpack.Timestamp:
        return {"$datetime": _instant(value)}
    if kind is int and value.bit_length() > _MAX_DIGIT_BITS:
        return {"$int": hex(value)}
    if kind in _TEXTS:
        tag, text = _TEXTS[kind]
        return {tag: text(value)}
    return value


def _items(items: list[Any]) -> list[Any]:
    return [_of(item) for item in items]


def _of_dict(value: dict[Any, Any]) -> Any:
    if all(type(key) is str and not key.startswith("$") for key in value):
        return {key: _of(item) for key, item in value.items()}
    return {"$dict": [[_of(key), _of(item)] for key, item in value.items()]}


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _instant(value: Any) -> str:
    try:
        return str(value.to_datetime().isoformat())
    except (OverflowError, ValueError):
        return f"{value.seconds} s and {value.nanoseconds} ns since 1970"
