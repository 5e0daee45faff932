"""Values that a plain form stands for: the inverse of plain_form.py, for files that people and programs write.

Objects of users' classes are refused: their plain form shows them, and only their encoding carries them.
"""

from __future__ import annotations  # pure

import base64
import binascii
import datetime as dt
import decimal
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final

from tupletree._limits import shown
from tupletree.attempt import TransactionAttempt
from tupletree.errors import UsageError

_FLOATS: Final = ("inf", "-inf", "nan")


def value_of(form: Any) -> Any:
    """Return the value of a plain form, as ``json.loads`` returns it. Raises UsageError."""
    try:
        return _value_of(form)
    except RecursionError:
        raise UsageError("a value that is nested so deep cannot be stored") from None


def _value_of(form: Any) -> Any:
    if type(form) is list:
        return [_value_of(one) for one in form]
    if type(form) is not dict:
        return form
    if not any(name.startswith("$") for name in form):
        return {name: _value_of(one) for name, one in form.items()}
    tag = next(name for name in form if name.startswith("$"))
    if tag in ("$value", "$registered", "$unreadable"):
        raise UsageError(
            f"an object of a class is no value in JSON, as in {shown(form)}: a Parquet file of 'state export' has it"
        )
    read = _READ.get(tag)
    if read is None or len(form) > 1:
        raise UsageError(f"{shown(form)} is no value: an object with other names than {', '.join(_READ)} is a dict")
    try:
        return read(form[tag])
    except UsageError:
        raise
    except (ValueError, TypeError, ArithmeticError, binascii.Error):
        raise UsageError(f"{shown(form)} is no value: the content of {tag} is not as tupletree shows it") from None


def _items(form: Any) -> list[Any]:
    if type(form) is not list:
        raise TypeError
    return [_value_of(one) for one in form]


def _dict(form: Any) -> dict[Any, Any]:
    return {key: value for key, value in _items(form)}


def _bytes(form: Any) -> bytes:
    return base64.b64decode(form, validate=True)


def _float(form: Any) -> float:
    if form not in _FLOATS:
        raise ValueError
    return float(form)


def _int(form: Any) -> int:
    return int(form, 16)


def _attempt(form: Any) -> TransactionAttempt:
    txid, attempt = form
    return TransactionAttempt(int(txid), int(attempt))


_READ: Final[Mapping[str, Callable[[Any], Any]]] = {
    "$dict": _dict,
    "$tuple": lambda form: tuple(_items(form)),
    "$bytes": _bytes,
    "$set": lambda form: set(_items(form)),
    "$frozenset": lambda form: frozenset(_items(form)),
    "$float": _float,
    "$int": _int,
    "$datetime": dt.datetime.fromisoformat,
    "$date": dt.date.fromisoformat,
    "$time": dt.time.fromisoformat,
    "$timedelta": lambda form: dt.timedelta(seconds=form),
    "$decimal": decimal.Decimal,
    "$uuid": uuid.UUID,
    "$attempt": _attempt,
}
