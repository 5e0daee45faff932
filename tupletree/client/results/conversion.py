"""Conversion of protobuf messages to the dataclasses that a client returns. Pure.

A field of a dataclass has the name of the message's field and is converted by its annotation: a repeated field to a
tuple, a map to a dict, an enumeration to its StrEnum, a message to its dataclass. ``raw`` is the message itself.
"""

from __future__ import annotations  # pure

import dataclasses
from collections.abc import Callable, Mapping
from enum import StrEnum
from operator import attrgetter
from types import UnionType
from typing import Any, Self, get_args, get_origin, get_type_hints

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message

_Convert = Callable[[Any], Any]


class Result:
    """Base of the dataclasses that a client returns: immutable, and compared by their fields.

    ``raw`` is the protobuf message that the object was made from; repr, comparison and hash leave it out. Do not change
    ``raw``: the object does not follow. Texts and numbers that are not known are "" and 0, unless a field says None.
    """

    __slots__ = ()

    @classmethod
    def of(cls, raw: Any) -> Self:
        """Return the object made from a message of the type that ``raw`` is annotated with."""
        convert = _converters.get(cls) or _converter(cls)
        result: Self = convert(raw)
        return result


def message_type(cls: type[Result]) -> Descriptor:
    """Return the descriptor of the message that objects of a dataclass are made from."""
    descriptor: Descriptor = _required(get_type_hints(cls)["raw"]).DESCRIPTOR
    return descriptor


_converters: dict[type[Result], _Convert] = {}
"""Made at the first use of a dataclass."""


def _converter(cls: type[Result]) -> _Convert:
    """Return the function that makes an object of ``cls``. Fields are read in C, since lists may be long."""
    hints = get_type_hints(cls)
    names = [field.name for field in dataclasses.fields(cls) if field.name != "raw"]  # type: ignore[arg-type]
    getter = attrgetter(*names, "__class__")  # with the class, as the getter of a single name returns no tuple
    message = message_type(cls)
    steps: list[tuple[int, _Convert]] = []
    optional: list[tuple[int, str, _Convert]] = []
    for index, name in enumerate(names):
        convert = _step(hints[name], message, name)
        if convert is not None and _required(hints[name]) is not hints[name]:
            optional.append((index, name, convert))
        elif convert is not None:
            steps.append((index, convert))

    def make(raw: Message) -> Any:
        values = [*getter(raw)]
        for index, convert in steps:
            values[index] = convert(values[index])
        for index, name, convert in optional:
            values[index] = convert(values[index]) if raw.HasField(name) else None
        values[-1] = raw
        return cls(*values)

    _converters[cls] = make
    return make


def _step(hint: Any, message: Descriptor, name: str) -> _Convert | None:
    """Return the conversion of a field, or None for a value that is already what the annotation says."""
    hint = _required(hint)
    if get_origin(hint) is tuple:
        item = _step(get_args(hint)[0], message, name)
        return tuple if item is None else lambda values: tuple(map(item, values))
    if get_origin(hint) is Mapping:
        value = _step(get_args(hint)[1], message, name)
        return _map if value is None else lambda values: {key: value(values[key]) for key in values} if values else {}
    if isinstance(hint, type) and issubclass(hint, Result):
        return _converter(hint)
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return _members(hint, message, name)
    return None


def _map(values: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return a map as a dict, in half the time that ``dict`` takes."""
    return {key: values[key] for key in values} if values else {}


def _members(kind: type[StrEnum], message: Descriptor, name: str) -> _Convert:
    """Return the member by number: "active" for TOPOLOGY_STATUS_ACTIVE, "unknown" for a number without a member."""
    enum = message.fields_by_name[name].enum_type
    assert enum is not None
    prefix = enum.values[0].name.removesuffix("UNSPECIFIED")
    known = {member.value for member in kind}
    names = {one.number: one.name.removeprefix(prefix).lower() for one in enum.values}
    members = {number: kind(short) for number, short in names.items() if short in known}
    unknown = kind("unknown")
    return lambda number: members.get(number, unknown)


def _required(hint: Any) -> Any:
    """Return ``X`` for ``X | None``, and every other annotation as it is."""
    return next(one for one in get_args(hint) if one is not type(None)) if isinstance(hint, UnionType) else hint
