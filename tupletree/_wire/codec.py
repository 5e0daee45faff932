"""Serialization of tuple values between workers.

The values of a batch are one msgpack array of columns, one column per field. msgpack itself carries None, bool, int
(64 bits), float, str, bytes, list, dict and datetime with a time zone. In addition, some types are encoded as msgpack
extensions; a user can mark dataclasses, NamedTuples and Enums with ``@value``, and register more with
``register_type``. Every other type is an error, never a silent pickle:
only the receiver's own registry determines the objects that the receiver builds. A numpy scalar travels as the Python
value that it holds: a datetime64 as a datetime, or a date where its unit is days or more.

    extension code   type
    1                tuple             msgpack array
    2                int, big          two's complement, big-endian
    3                datetime, naive   ISO 8601
    4                set, frozenset    msgpack array, sorted where the items allow it
    5                attempt           of a transaction: txid and attempt, 8 bytes each, little-endian
    6                date              ISO 8601
    7                time              ISO 8601, with the offset from UTC if it has one
    8                timedelta         days, seconds and microseconds, 4 bytes each, little-endian
    9                Decimal           its digits as text
    10               UUID              its 16 bytes
    11               marked classes    msgpack array: the name of the class, the values of its fields (value_types.py)
    32…127           registered        the bytes its encoder returned

Types are matched exactly: a subclass of a supported type is another type. A bytearray or a memoryview, which msgpack
encodes as bytes, arrives as bytes.

**Depth.** Decoding the content of an extension is a recursion in C, with 40 KB of stack per level. Tuples and sets can
therefore be nested at most ``MAX_NESTED`` levels deep; lists and dicts between them as deep as msgpack allows, about
1,000 levels, or 500 to encode where msgpack is older than 1.2. Encoding and decoding both refuse deeper values, whoever
wrote the bytes.

**Datetimes** with a time zone are encoded as an instant and arrive in UTC. An instant outside UTC's years 1 to 9999,
possible within a day of either end, arrives equal as well, in a time zone that can represent it.
"""

from __future__ import annotations  # pure

import datetime as dt
import decimal
import struct
import uuid
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from typing import Any

import msgpack

from tupletree._wire import value_types
from tupletree.attempt import TransactionAttempt
from tupletree.errors import ProtocolError, UnregisteredTypeError, UnwritableValueError, UsageError

Encoder = Callable[[Any], bytes]
Decoder = Callable[[bytes], Any]

MAX_NESTED = 32
"""Maximum nesting depth of extensions (tuples and sets)."""

_TUPLE, _BIG_INT, _SET, _ATTEMPT, _MARKED = 1, 2, 4, 5, 11
_TWO_U64 = struct.Struct("<QQ")
_FIRST_USER_CODE, _LAST_USER_CODE = 32, 127
_THREE_I32 = struct.Struct("<iii")
_OF_MSGPACK = frozenset({type(None), bool, int, float, str, bytes, list, dict})
_FINER = ("[ns]", "[ps]", "[fs]", "[as]")  # units of numpy below the microseconds of Python
_TOO_DEEP = f"the value nests tuples and sets more than {MAX_NESTED} levels deep"
_EPOCH = dt.datetime(1970, 1, 1)  # naive: a time zone is added where needed
_NEARLY_A_DAY = dt.timedelta(hours=23, minutes=59)

_encoders: dict[type, tuple[int, Encoder]] = {}
_decoders: dict[int, Decoder] = {}


def register_type(cls: type, code: int, encode: Encoder, decode: Decoder) -> None:
    """Let values of exactly ``cls`` travel between workers as extension ``code`` (32 to 127).

    Call this where every worker calls it, too: at the top of the module that defines the component. Registering the
    same class and code again replaces the functions.

    Raises:
        UsageError: the code is out of range or used by another class.
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


def _encode_time(value: dt.time) -> bytes:
    if value.tzinfo is not None and value.utcoffset() is None:
        raise ValueError(f"the offset of {value} from UTC depends on the date")
    return value.isoformat().encode()


def _encode_timedelta(value: dt.timedelta) -> bytes:
    return _THREE_I32.pack(value.days, value.seconds, value.microseconds)


_SCALARS: dict[type, tuple[int, Encoder, Decoder]] = {
    dt.datetime: (3, lambda value: value.isoformat().encode(), lambda data: dt.datetime.fromisoformat(data.decode())),
    dt.date: (6, lambda value: value.isoformat().encode(), lambda data: dt.date.fromisoformat(data.decode())),
    dt.time: (7, _encode_time, lambda data: dt.time.fromisoformat(data.decode())),
    dt.timedelta: (8, _encode_timedelta, lambda data: dt.timedelta(*_THREE_I32.unpack(data))),
    decimal.Decimal: (9, lambda value: str(value).encode(), lambda data: decimal.Decimal(data.decode())),
    uuid.UUID: (10, lambda value: value.bytes, lambda data: uuid.UUID(bytes=data)),
}
_SCALAR_DECODERS = {code: decode for code, _, decode in _SCALARS.values()}


class _UnknownTypeError(TypeError):
    """The named type is not registered."""


def _encode_extension(depth: int, value: Any) -> Any:
    kind = type(value)
    if kind is TransactionAttempt:
        try:
            return msgpack.ExtType(_ATTEMPT, _encode_attempt(value))
        except struct.error:
            raise ValueError(f"{tuple(value)} is not an attempt: its numbers must be from 0 to 2^64 - 1") from None
    if kind is tuple:
        return msgpack.ExtType(_TUPLE, _pack(list(value), depth + 1))
    if kind is int:
        return msgpack.ExtType(_BIG_INT, value.to_bytes((value.bit_length() + 8) // 8, "big", signed=True))
    if kind is set or kind is frozenset:
        return msgpack.ExtType(_SET, _pack([kind is frozenset, _sorted_if_possible(value)], depth + 1))
    if kind in _encoders:
        return msgpack.ExtType(_encoders[kind][0], _encode_registered(value))
    if value_types.is_value_type(kind):
        return msgpack.ExtType(_MARKED, _pack(value_types.content_of(value), depth + 1))
    if kind in _SCALARS:
        code, encode, _ = _SCALARS[kind]
        return msgpack.ExtType(code, encode(value))
    if is_of_numpy(value):
        plain = python_value(value)
        return plain if type(plain) in _OF_MSGPACK else _encode_extension(depth, plain)
    raise _UnknownTypeError(kind.__qualname__)


def is_of_numpy(value: Any) -> bool:
    """True for a numpy scalar, also as an array without dimensions."""
    return type(value).__module__ == "numpy" and hasattr(value, "item") and not getattr(value, "shape", None)


def python_value(scalar: Any) -> Any:
    """Return the Python value of a numpy scalar. Raises ValueError if there is none, as for a time in nanoseconds."""
    value = scalar.item()
    if type(value) is int and scalar.dtype.kind in "mM":  # numpy's answer for a unit that Python's types do not have
        rounded = scalar.astype(f"{scalar.dtype.kind}8[us]") if scalar.dtype.str[3:] in _FINER else None
        if rounded is None or rounded != scalar:
            raise ValueError(f"Python's datetime and timedelta cannot hold {scalar!r}: they have whole microseconds")
        value = rounded.item()
    if type(value).__module__ == "numpy":
        raise _UnknownTypeError(type(value).__qualname__)
    return value


def _sorted_if_possible(items: Iterable[Any]) -> list[Any]:
    try:
        return sorted(items)
    except TypeError:
        return list(items)


def _encode_registered(value: Any) -> bytes:
    name = type(value).__qualname__
    try:
        data = _encoders[type(value)][1](value)
    except Exception as error:  # user code
        raise ValueError(f"the encoder registered for {name} raised {type(error).__name__}: {error}") from error
    if type(data) is not bytes:
        raise ValueError(f"the encoder registered for {name} returned {type(data).__name__}, not bytes")
    return data


def _decode_extension(depth: int, code: int, data: bytes) -> Any:
    if code == _TUPLE:
        return tuple(_unpack(data, depth + 1))
    if code == _BIG_INT:
        return int.from_bytes(data, "big", signed=True)
    if code == _SET:
        is_frozen, items = _unpack(data, depth + 1)
        return frozenset(items) if is_frozen else set(items)
    if code == _ATTEMPT:
        return _decode_attempt(data)
    if code == _MARKED:
        return value_types.object_of(_unpack(data, depth + 1))
    if code in _SCALAR_DECODERS:
        return _SCALAR_DECODERS[code](data)
    if code in _decoders:
        return _decoders[code](data)
    raise ValueError(f"extension code {code} is not registered here")


# Indexed by depth: the content of an extension is packed by a hook that knows its depth.
_ENCODE_AT = tuple(partial(_encode_extension, depth) for depth in range(MAX_NESTED + 1))
_DECODE_AT = tuple(partial(_decode_extension, depth) for depth in range(MAX_NESTED + 1))


@lru_cache(maxsize=256)
def _encode_attempt(attempt: TransactionAttempt) -> bytes:
    return _TWO_U64.pack(*attempt)


@lru_cache(maxsize=256)
def _decode_attempt(data: bytes) -> TransactionAttempt:
    return TransactionAttempt(*_TWO_U64.unpack(data))


def _pack(value: Any, depth: int = 0) -> bytes:
    if depth > MAX_NESTED:
        raise ValueError(_TOO_DEEP)
    packed: bytes = msgpack.packb(value, default=_ENCODE_AT[depth], strict_types=True, datetime=True)
    return packed


def _unpack(data: bytes | memoryview, depth: int = 0) -> Any:
    if depth > MAX_NESTED:
        raise ProtocolError(_TOO_DEEP)
    try:
        return msgpack.unpackb(data, ext_hook=_DECODE_AT[depth], strict_map_key=False, timestamp=3)
    except OverflowError:  # an instant that a datetime in UTC cannot hold
        return _unpack_far(data, depth)


def _unpack_far(data: bytes | memoryview, depth: int) -> Any:
    """Decode like ``_unpack``, but convert each instant separately. Raises ProtocolError for undecodable bytes."""
    try:
        top = [msgpack.unpackb(data, ext_hook=_DECODE_AT[depth], strict_map_key=False, timestamp=0)]
        found: list[Any] = [top]
        while found:  # no recursion: lists can be nested deeply
            one = found.pop()
            if type(one) is dict:
                items = [(_datetime(key), _datetime(item)) for key, item in one.items()]
                one.clear()
                one.update(items)
            else:
                one[:] = [_datetime(item) for item in one]
            found += [item for item in (one.values() if type(one) is dict else one) if type(item) in (list, dict)]
    except Exception as error:
        raise ProtocolError(f"{type(error).__name__}: {error}") from error
    return top[0]


def _datetime(item: Any) -> Any:
    """Return the datetime of a msgpack timestamp; any other item unchanged."""
    if type(item) is not msgpack.Timestamp:
        return item
    since = dt.timedelta(seconds=item.seconds, microseconds=item.nanoseconds // 1000)
    try:
        return _EPOCH.replace(tzinfo=dt.UTC) + since
    except OverflowError:
        shift = _NEARLY_A_DAY if item.seconds < 0 else -_NEARLY_A_DAY
        return (_EPOCH + (since + shift)).replace(tzinfo=dt.timezone(shift))


def decode_plain(data: bytes) -> Any:
    """Decode a value of msgpack's own types, or an attempt. For untrusted bytes: no other object is ever built.

    Raises:
        ProtocolError: the bytes are not an encoding of these types.
    """
    try:
        return msgpack.unpackb(data, ext_hook=_decode_plain_extension, strict_map_key=False)
    except Exception as error:
        raise ProtocolError(f"a value cannot be decoded: {reason_of(error)}") from error


def _decode_plain_extension(code: int, data: bytes) -> Any:
    if code == _ATTEMPT:
        return _decode_attempt(data)
    raise ValueError(f"extension code {code} is not expected here")


def reason_of(error: BaseException) -> str:
    """Return a readable reason why a value cannot be encoded or decoded; some of msgpack's errors have no text."""
    if isinstance(error, RecursionError | msgpack.StackError):
        return "it is nested too deeply"
    return str(error) or type(error).__name__


def encode_value(value: Any) -> bytes:
    """Encode one value by the rules above.

    Raises:
        UnregisteredTypeError: the value cannot be encoded.
    """
    try:
        try:
            return _pack(value)
        except OverflowError:
            return _pack(_widen(value))
    except MemoryError:
        raise
    except Exception as error:  # also from user code: encoders, time zones
        raise UnregisteredTypeError(
            f"a value of type {type(value).__name__} cannot be written: {reason_of(error)}"
        ) from None


def decode_value(data: bytes) -> Any:
    """Decode a value encoded by ``encode_value``.

    Raises:
        ProtocolError: the bytes are not an encoded value.
    """
    try:
        return _unpack(data)
    except Exception as error:  # of many types, from msgpack or a user's decoder: all mean bad bytes
        raise ProtocolError(f"a value cannot be decoded: {reason_of(error)}") from error


def encode_columns(columns: Sequence[list[Any]], component: str, fields: Sequence[str], stream: str = "") -> bytes:
    """Encode the values of a batch: one column per field. ``stream``: "" if unknown.

    Raises:
        UnregisteredTypeError: names the component, the field, the stream if known, and the type of the first value
            that cannot be encoded; an UnwritableValueError if other values of the type can be encoded.
    """
    try:
        return _pack(columns)
    except MemoryError:
        raise
    except Exception:
        on_stream = f" of stream {stream!r}" if stream else ""
        places = [f"field {field!r}{on_stream}" for field in fields]
        parts = [_encode_column(column, component, place) for column, place in zip(columns, places, strict=True)]
        return b"".join([_header(len(columns)), *parts])


def _header(count: int) -> bytes:
    header: bytes = msgpack.Packer().pack_array_header(count)
    return header


def _encode_column(column: Sequence[Any], component: str, place: str) -> bytes:
    """Encode one column value by value: the slow path, taken only if msgpack refused the batch as a whole."""
    parts = [_header(len(column))]
    for value in column:
        try:
            parts.append(_pack_in_column(value))
        except MemoryError:
            raise
        except _UnknownTypeError as error:
            raise UnregisteredTypeError(
                f"component {component!r} emitted a value of type {error} in {place}, which cannot leave its "
                f"worker: emit a plain type, mark the class with tupletree.value, or register it with "
                f"tupletree.register_type"
            ) from None
        except Exception as error:  # the type is supported, this value is not: an unpaired surrogate, too deep
            raise UnwritableValueError(
                f"component {component!r} emitted a value in {place} that cannot leave its worker: {reason_of(error)}"
            ) from None
    return b"".join(parts)


def _pack_in_column(value: Any) -> bytes:
    """Pack a value inside a column inside a batch, at the depth at which it will be decoded."""
    try:
        return _pack([[value]])[2:]
    except OverflowError:
        return _pack([[_widen(value)]])[2:]


def _widen(value: Any) -> Any:
    """Return the value with every integer beyond 64 bits replaced by an extension."""
    if type(value) is int and not -(1 << 63) <= value < (1 << 64):
        return _encode_extension(0, value)
    if type(value) in (list, tuple, set, frozenset):
        return type(value)(map(_widen, value))
    if value_types.is_value_type(type(value)):
        return _encode_extension(0, value)
    if type(value) is dict:
        return {_widen(key): _widen(item) for key, item in value.items()}
    return value


def decode_columns(data: bytes, rows: int, arity: int) -> list[list[Any]]:
    """Decode the values of a batch: ``arity`` lists of ``rows`` values each.

    Raises:
        ProtocolError: the bytes are not an encoded batch of this size.
    """
    try:
        columns = _unpack(data)
    except Exception as error:  # of many types, from msgpack or a user's decoder: all mean a bad batch
        raise ProtocolError(f"a batch of tuples cannot be decoded: {reason_of(error)}") from error
    if type(columns) is not list or len(columns) != arity:
        raise ProtocolError(f"a batch of tuples does not hold {arity} columns")
    if not all(type(column) is list and len(column) == rows for column in columns):
        raise ProtocolError(f"a batch of tuples does not hold the {rows} rows that it announces")
    return columns
