"""Formats: the bytes of a message, and the row that it becomes or was made from."""

from __future__ import annotations  # pure

import contextlib
import inspect
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgpack

from tupletree._limits import is_encodable
from tupletree._wire.codec import reason_of
from tupletree.connectors.arguments import check, check_instance, check_text, checked_names
from tupletree.errors import TupletreeError, UsageError, named
from tupletree.tuples import Tuple, record_fields


class FormatError(TupletreeError):
    """The bytes of a message are not in the expected format, or a tuple cannot be written in it."""


class Format(ABC):
    """Decodes the messages of a source, and encodes the tuples of a sink.

    A FormatError is final: the message is given up, the tuple fails without a retry. A format that asks a service
    raises UnavailableError while the service is away: nothing is given up, and the call is repeated.

    Attributes:
        fields: the fields of a decoded row.
        record: the NamedTuple or dataclass that has these fields, if any.
        blocking: true if ``decode`` and ``encode`` may wait for a service.
        takes_none: true if ``decode`` takes None, for a message without a value, such as a tombstone of Kafka.
    """

    fields: Sequence[str]
    record: type | None = None
    blocking: bool = False
    takes_none: bool = False

    @property
    def outputs(self) -> Sequence[str] | type:
        """The outputs of a spout that emits decoded rows."""
        return self.record or list(self.fields)

    @abstractmethod
    def decode(self, data: bytes) -> Sequence[Any]:
        """Return the row of a message, one value for each of ``fields``. Raises FormatError, or UnavailableError."""

    def decode_delivery(self, data: bytes, headers: Mapping[str, Any]) -> Sequence[Any]:
        """Return the row of a message that came with headers. Raises FormatError, or UnavailableError."""
        return self.decode(data)

    @abstractmethod
    def encode(self, tup: Tuple) -> bytes:
        """Return the message of a tuple. Raises FormatError, or UnavailableError."""

    def encode_many(self, tuples: Sequence[Tuple]) -> list[bytes]:
        """Return the messages of tuples. Raises what ``encode`` raises for any of them."""
        return [self.encode(tup) for tup in tuples]


class Raw(Format):
    """The message as bytes in one field. A tuple's message is its value in that field: bytes, or text as UTF-8."""

    takes_none = True

    def __init__(self, field: str = "data") -> None:
        check_text(type(self).__name__, "field", field)
        self.fields = [field]

    def decode(self, data: bytes) -> Sequence[Any]:
        return [data]

    def encode(self, tup: Tuple) -> bytes:
        value = value_of(tup, self.fields[0])
        if type(value) is bytes:
            return value
        if isinstance(value, str):
            return utf8(value, f"field {self.fields[0]!r}")
        if isinstance(value, bytes | bytearray):
            return bytes(value)
        raise FormatError(f"field {self.fields[0]!r} is {type(value).__name__}, and Raw writes bytes or str")

    def encode_many(self, tuples: Sequence[Tuple]) -> list[bytes]:
        if type(self).encode is Raw.encode:
            field = self.fields[0]
            with contextlib.suppress(KeyError):  # ``encode`` says what is wrong
                values = [tup[field] for tup in tuples]
                if set(map(type, values)) == {bytes}:
                    return values
        return super().encode_many(tuples)


class Text(Raw):
    """The message as text in UTF-8, in one field."""

    takes_none = False

    def __init__(self, field: str = "text") -> None:
        super().__init__(field)

    def decode(self, data: bytes) -> Sequence[Any]:
        try:
            return [data.decode()]
        except UnicodeDecodeError as error:
            raise FormatError(f"the message is not UTF-8: {error}") from error


class _Mapped(Format):
    """Messages that hold one value: a mapping with a value for each of some fields, or with one field, any value."""

    _title = ""

    def __init__(self, fields: Sequence[str] | type | str = "value") -> None:
        self._is_whole = isinstance(fields, str)
        self.fields, self.record = ([fields], None) if isinstance(fields, str) else fields_of(self, fields)
        if self._is_whole:
            check_text(type(self).__name__, "fields", fields)

    def decode(self, data: bytes) -> Sequence[Any]:
        try:
            value = self._loads(data)
        except (ValueError, RecursionError) as error:  # of both libraries
            raise FormatError(f"the message is not {self._title}: {error}") from error
        if self._is_whole:
            return [value]
        if not isinstance(value, dict):
            raise FormatError(f"the message is a {self._title} {type(value).__name__}, not an object with fields")
        return row_of(value, self.fields, self.record)

    def encode(self, tup: Tuple) -> bytes:
        names = self.fields
        value = value_of(tup, names[0]) if self._is_whole else {name: value_of(tup, name) for name in names}
        try:
            return self._dumps(value)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise FormatError(f"the tuple cannot be written as {self._title}: {error}") from error

    def _loads(self, data: bytes) -> Any:
        raise NotImplementedError

    def _dumps(self, value: Any) -> bytes:
        raise NotImplementedError


_HALF: Final = re.compile(r"\\u[dD]")
"""The begin of an escape of JSON that can be half of a surrogate pair."""


class Json(_Mapped):
    """JSON. ``Json(["order", "amount"])``: an object with these fields, others are ignored; ``Json()``: any value.

    ``Json(Sale)``: an object with the fields of a NamedTuple or dataclass, as in ``outputs = Sale``. A field with a
    default may be absent. A Sale is made from each message, so that ``__post_init__`` can convert values or refuse
    them with any exception; types are not checked otherwise. ``encode`` makes no Sale.
    """

    _title = "JSON"

    def _loads(self, data: bytes) -> Any:
        return json_value(data.decode(json.detect_encoding(data)))  # strictly: json lets half of a pair pass

    def _dumps(self, value: Any) -> bytes:
        return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()


class MsgPack(_Mapped):
    """MessagePack, with the same three forms as ``Json``.

    Timestamps are datetimes in UTC. A message with another extension type cannot be decoded.
    """

    _title = "MessagePack"

    def _loads(self, data: bytes) -> Any:
        try:
            return msgpack.unpackb(data, ext_hook=_refused_extension, timestamp=3)
        except (msgpack.UnpackException, msgpack.ExtraData, OverflowError) as error:
            raise ValueError(reason_of(error)) from error

    def _dumps(self, value: Any) -> bytes:
        packed: bytes = msgpack.packb(value, datetime=True)
        return packed


def _refused_extension(code: int, data: bytes) -> Any:
    """Refuse an extension: between workers its code would be one of Tupletree's, with another meaning."""
    raise FormatError(f"the message has a value of extension type {code}, which a tuple cannot carry")


class Protobuf(Format):
    """Messages of a generated Protocol Buffers class, each field of the message a field of the row.

    ``fields``: some of them, in this order; by default all. Repeated fields are lists, and maps dicts. Other values are
    those of the generated class: nested messages must be registered to travel, or be left out. Raises UsageError for
    wrong arguments.
    """

    def __init__(self, message: type[Any], fields: Sequence[str] | None = None) -> None:
        is_message = isinstance(message, type) and hasattr(message, "DESCRIPTOR")
        check("Protobuf", "message", message, is_message, "a generated class of Protocol Buffers")
        self.message = message
        known = [field.name for field in message.DESCRIPTOR.fields]
        self.fields = known if fields is None else checked_names("Protobuf", "fields", fields)
        unknown = [name for name in self.fields if name not in known]
        if unknown:
            raise UsageError(
                f"Protobuf: fields: {message.__name__} has no field {unknown[0]!r}; it has {', '.join(known)}"
            )

    def decode(self, data: bytes) -> Sequence[Any]:
        try:
            parsed = self.message.FromString(data)
        except Exception as error:  # DecodeError of google.protobuf
            raise FormatError(f"the message is not a {self.message.__name__}: {error}") from error
        return [_without_container(getattr(parsed, name)) for name in self.fields]

    def encode(self, tup: Tuple) -> bytes:
        try:
            encoded: bytes = self.message(**{name: value_of(tup, name) for name in self.fields}).SerializeToString()
        except Exception as error:  # TypeError, ValueError, EncodeError of google.protobuf
            raise FormatError(f"the tuple cannot be written as {self.message.__name__}: {error}") from error
        return encoded


def _without_container(value: Any) -> Any:
    """Return the list or dict of a container of protobuf, which no tuple carries, and any other value as it is."""
    if isinstance(value, str | bytes) or hasattr(value, "DESCRIPTOR"):  # a nested Struct is a Mapping too
        return value
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, Sequence) else value


class WithHeaders(Format):
    """The rows of another format, each with one field more: a dict with the headers that came with the message.

    What is in it depends on the system; it is empty if there are none. ``encode`` writes no headers.
    """

    def __init__(self, format: Format, field: str = "headers") -> None:
        check_instance("WithHeaders", "format", format, Format, "an object such as Json()")
        check_text("WithHeaders", "field", field)
        if field in format.fields:
            raise UsageError(f"WithHeaders: the format has a field {field!r} of its own; name another one")
        self._format = format
        self.fields = [*format.fields, field]
        self.blocking = format.blocking

    def decode(self, data: bytes) -> Sequence[Any]:
        return self.decode_delivery(data, {})

    def decode_delivery(self, data: bytes, headers: Mapping[str, Any]) -> Sequence[Any]:
        return [*self._format.decode_delivery(data, headers), dict(headers)]

    def encode(self, tup: Tuple) -> bytes:
        return self._format.encode(tup)


def checked_format(owner: object, format: Format | None, default: type[Format] = Raw) -> Format:
    """Return a component's format, by default ``default``. UsageError, naming the owner's class, if it is none."""
    if format is None:
        return default()
    check_instance(type(owner).__name__, "format", format, Format, "an object such as Json()")
    return format


def decoded(format: Format, data: Any) -> Sequence[Any]:
    """Return the row of a log's message. Raises FormatError, or UnavailableError."""
    if data is None and not format.takes_none:
        raise FormatError("the message has no value")
    return format.decode(data)


def value_of(tup: Tuple, field: str) -> Any:
    """Return the value of a field. Raises FormatError if the tuple lacks it."""
    try:
        return tup[field]
    except KeyError as error:
        raise FormatError(str(error.args[0])) from error


def json_value(text: str) -> Any:
    """Return the value of JSON. Raises ValueError, also for half of a surrogate pair, which no tuple can carry."""
    value = json.loads(text)
    if "\\" in text and _HALF.search(text) and not is_encodable(json.dumps(value, ensure_ascii=False)):
        raise ValueError("it holds half of a surrogate pair, which is not a valid character")
    return value


def utf8(text: str, what: str) -> bytes:
    """Return text in UTF-8. Raises FormatError, naming ``what``, for half of a surrogate pair, as JSON can have."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise FormatError(f"{what} cannot be written in UTF-8: {error.reason}") from error


def fields_of(owner: Format, fields: Sequence[str] | type) -> tuple[list[str], type | None]:
    """Return the names of fields, and the NamedTuple or dataclass that has them, if any. Raises UsageError."""
    if not isinstance(fields, type):
        return checked_names(type(owner).__name__, "fields", fields), None
    try:
        return list(record_fields(fields)), fields
    except TypeError as error:
        raise UsageError(f"{type(owner).__name__}: fields: {error}") from error


def row_of(found: Mapping[str, Any], fields: Sequence[str], record: type | None) -> Sequence[Any]:
    """Return the values of fields, through a record if there is one. Raises FormatError."""
    if record is not None:
        try:
            made = record(**{name: found[name] for name in fields if name in found})
        except Exception as error:  # of the user's class
            missing = [name for name in _required(record) if name not in found]
            why = f"it {_lacks(missing, found)}" if missing else named(error)
            raise FormatError(f"the message is not a {record.__name__}: {why}") from error
        return [getattr(made, name) for name in fields]
    missing = [name for name in fields if name not in found]
    if missing:
        raise FormatError(f"the message {_lacks(missing, found)}")
    return [found[name] for name in fields]


def _lacks(missing: Sequence[str], found: Mapping[str, Any]) -> str:
    return f"has no {', '.join(map(repr, missing))}; it has {', '.join(map(repr, found)) or 'nothing'}"


def _required(record: type) -> list[str]:
    """Return the names of a record's fields without a default."""
    return [one.name for one in inspect.signature(record).parameters.values() if one.default is one.empty]
