"""How tuple values become bytes between workers.

The values of a batch are one msgpack array of columns, one for each field. msgpack itself carries None, bool, int
(64 bits), float, str, bytes, list, dict and datetime with a time zone. Beside these, five types travel as msgpack
extensions, and a user may register more with ``register_type``. Every other type is an error, never a silent pickle:
what a receiver builds is decided by the receiver's own registry.

    extension code   type
    1                tuple             msgpack array
    2                int, big          two's complement, big-endian
    3                datetime, naive   ISO 8601
    4                set, frozenset    msgpack array, sorted where the items allow it
    5                attempt           of a transaction: txid and attempt, 8 bytes each, little-endian
    32…127           registered        the bytes its encoder returned

Types are matched exactly: a subclass of a carried type is another type.
"""

from __future__ import annotations

import datetime as dt
import math
import numbers
import struct
import zlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import msgpack

from tupletree.attempt import TransactionAttempt
from tupletree.errors import ProtocolError, UnregisteredTypeError, UsageError

Encoder = Callable[[Any], bytes]
Decoder = Callable[[bytes], Any]

_TUPLE, _BIG_INT, _NAIVE_DATETIME, _SET, _ATTEMPT = 1, 2, 3, 4, 5
_TWO_U64 = struct.Struct("<QQ")
_FIRST_USER_CODE, _LAST_USER_CODE = 32, 127

_encoders: dict[type, tuple[int, Encoder]] = {}
_decoders: dict[int, Decoder] = {}


def register_type(cls: type, code: int, encode: Encoder, decode: Decoder) -> None:
    """Let values of exactly ``cls`` travel between workers as extension ``code`` (32 to 127).

    Call it where every worker does too: at the top of the module that defines the component. Registering the same
    class and code again replaces the functions.

    Raises:
        UsageError: the code is out of range or another class has it.
    """
    if not _FIRST_USER_CODE <= code <= _LAST_USER_CODE:
        raise UsageError(
            f"extension code {code} for {cls.__name__} must be from {_FIRST_USER_CODE} to {_LAST_USER_CODE}"
        )
    for other, (taken, _) in _encoders.items():
        if taken == code and (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
            raise UsageError(f"extension code {code} for {cls.__name__} is taken by {other.__name__}")
    _encoders[cls] = (code, encode)
    _decoders[code] = decode


def _encode_extension(value: Any) -> Any:
    kind = type(value)
    if kind is TransactionAttempt:
        return msgpack.ExtType(_ATTEMPT, _encode_attempt(value))
    if kind is tuple:
        return msgpack.ExtType(_TUPLE, _pack(list(value)))
    if kind is int:
        return msgpack.ExtType(_BIG_INT, value.to_bytes((value.bit_length() + 8) // 8, "big", signed=True))
    if kind is dt.datetime:
        return msgpack.ExtType(_NAIVE_DATETIME, value.isoformat().encode())
    if kind is set or kind is frozenset:
        try:
            items = sorted(value)
        except TypeError:
            items = list(value)
        return msgpack.ExtType(_SET, _pack([kind is frozenset, items]))
    if kind in _encoders:
        code, encode = _encoders[kind]
        return msgpack.ExtType(code, encode(value))
    raise TypeError(kind.__qualname__)


def _decode_extension(code: int, data: bytes) -> Any:
    if code == _TUPLE:
        return tuple(_unpack(data))
    if code == _BIG_INT:
        return int.from_bytes(data, "big", signed=True)
    if code == _NAIVE_DATETIME:
        return dt.datetime.fromisoformat(data.decode())
    if code == _SET:
        is_frozen, items = _unpack(data)
        return frozenset(items) if is_frozen else set(items)
    if code == _ATTEMPT:
        return _decode_attempt(data)
    if code in _decoders:
        return _decoders[code](data)
    raise ValueError(f"extension code {code} is not registered here")


@lru_cache(maxsize=256)
def _encode_attempt(attempt: TransactionAttempt) -> bytes:
    return _TWO_U64.pack(*attempt)


@lru_cache(maxsize=256)
def _decode_attempt(data: bytes) -> TransactionAttempt:
    return TransactionAttempt(*_TWO_U64.unpack(data))


def _pack(value: Any) -> bytes:
    packed: bytes = msgpack.packb(value, default=_encode_extension, strict_types=True, datetime=True)
    return packed


def _unpack(data: bytes | memoryview) -> Any:
    return msgpack.unpackb(data, ext_hook=_decode_extension, strict_map_key=False, timestamp=3)


def encode_value(value: Any) -> bytes:
    """One value as bytes, by the rules above.

    Raises:
        UnregisteredTypeError: it cannot be written so.
    """
    try:
        try:
            return _pack(value)
        except OverflowError:
            return _pack(_widen(value))
    except (TypeError, ValueError, OverflowError) as error:
        raise UnregisteredTypeError(f"a value of type {type(value).__name__} cannot be written: {error}") from None


def decode_value(data: bytes) -> Any:
    """The value that ``encode_value`` wrote.

    Raises:
        ProtocolError: the bytes are not that.
    """
    try:
        return _unpack(data)
    except Exception as error:  # msgpack raises many kinds, and so may a user's decoder: all mean bad bytes
        raise ProtocolError(f"a value cannot be decoded: {error}") from error


def encode_columns(columns: Sequence[list[Any]], component: str, fields: Sequence[str]) -> bytes:
    """The values of a batch as bytes: ``columns`` are those of the ``fields``.

    Raises:
        UnregisteredTypeError: names the component, the field and the type of the first value that cannot travel.
    """
    try:
        return _pack(columns)
    except (TypeError, ValueError, OverflowError):
        parts = [_encode_column(column, component, field) for column, field in zip(columns, fields, strict=True)]
        return b"".join([_header(len(columns)), *parts])


def _header(count: int) -> bytes:
    header: bytes = msgpack.Packer().pack_array_header(count)
    return header


def _encode_column(column: Sequence[Any], component: str, field: str) -> bytes:
    """One column, value by value: the slow path, taken only for a batch that msgpack refused as a whole."""
    parts = [_header(len(column))]
    for value in column:
        try:
            parts.append(_pack(value))
        except OverflowError:
            parts.append(_pack(_widen(value)))
        except TypeError as error:
            raise UnregisteredTypeError(
                f"component {component!r} emitted a value of type {error} in field {field!r}, which cannot leave its "
                f"worker: emit a plain type or register it with tupletree.register_type"
            ) from None
        except ValueError as error:  # of a type that travels, but not this one: half a character, nested too deeply
            raise UnregisteredTypeError(
                f"component {component!r} emitted a value in field {field!r} that cannot leave its worker: {error}"
            ) from None
    return b"".join(parts)


def _widen(value: Any) -> Any:
    """The same value with every integer beyond 64 bits as an extension."""
    if type(value) is int and not -(1 << 63) <= value < (1 << 64):
        return _encode_extension(value)
    if type(value) in (list, tuple, set, frozenset):
        return type(value)(map(_widen, value))
    if type(value) is dict:
        return {_widen(key): _widen(item) for key, item in value.items()}
    return value


def decode_columns(data: bytes, rows: int, arity: int) -> list[list[Any]]:
    """The values of a batch: ``arity`` lists of ``rows`` values each.

    Raises:
        ProtocolError: the bytes are not that.
    """
    try:
        columns = _unpack(data)
    except Exception as error:  # msgpack raises many kinds, and so may a user's decoder: all mean a bad batch
        raise ProtocolError(f"a batch of tuples cannot be decoded: {error}") from error
    if type(columns) is not list or len(columns) != arity:
        raise ProtocolError(f"a batch of tuples does not hold {arity} columns")
    if not all(type(column) is list and len(column) == rows for column in columns):
        raise ProtocolError(f"a batch of tuples does not hold the {rows} rows that it announces")
    return columns


def hash_values(values: Sequence[Any], component: str, fields: Sequence[str]) -> int:
    """A hash of field values for routing: 32 bits, the same in every process, host and restart.

    Values that compare equal hash equally (1, 1.0 and True go to the same task), as they do as dict keys.

    Raises:
        UnregisteredTypeError: a value of a type that cannot leave its worker.
    """
    canonical = [_canonical(value) for value in values]
    return zlib.crc32(encode_columns([[value] for value in canonical], component, fields))


def _canonical(value: Any) -> Any:
    """A stand-in that is the same for all values that compare equal.

    Python's hash of a number is the same for equal numbers of all types, and is not salted as that of a string is.
    """
    if isinstance(value, numbers.Number):
        return hash(value) if value == value else math.nan  # noqa: PLR0124  # hash(nan) differs from object to object
    if type(value) is list or type(value) is tuple:
        return [_canonical(item) for item in value]
    if type(value) is dict:
        pairs = [[_canonical(key), _canonical(item)] for key, item in value.items()]
        return sorted(pairs, key=lambda pair: _pack(pair[0]))
    if type(value) is set or type(value) is frozenset:
        return sorted((_canonical(item) for item in value), key=_pack)
    return value
