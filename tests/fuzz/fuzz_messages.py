"""Inputs that no client of ours sends: messages made from their descriptors with odd values, and mutated bytes.

Pure: everything follows from the ``random.Random`` that is handed over.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf import message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

Words = Mapping[str, Sequence[Any]]
"""Values that mean something to the peer, by the name of the field that they fit."""

TEXTS = (*("", "x", "word", "..", "../../etc/passwd", "a/b", "\0", "é", "{}", "null", "[]"), "x" * 300, "x" * 70_000)
JSONS = (
    *("{}", "[]", "null", "{", '{"a":1}', '{"topology.workers": -1}', '{"topology.workers":"x"}', "NaN", '"x"'),
    "[" * 2000,
)
BYTES = (
    b"",
    b"\0",
    b"\xff" * 8,
    bytes(8),
    bytes(range(64)),
    b"\x93\x01\x02\x03",
    b"\x91\x91\x01",
    b"\xdd" + b"\xff" * 4,
)
FLOATS = (0.0, 1.0, -1.0, 1e-9, 1e300, math.inf, -math.inf, math.nan, 0.25)
DEEPEST = 4
LONGEST = 6  # of a repeated field, mostly

_INTEGERS = {
    FieldDescriptor.TYPE_UINT32: (0, (1 << 32) - 1),
    FieldDescriptor.TYPE_UINT64: (0, (1 << 64) - 1),
    FieldDescriptor.TYPE_FIXED64: (0, (1 << 64) - 1),
    FieldDescriptor.TYPE_INT32: (-(1 << 31), (1 << 31) - 1),
    FieldDescriptor.TYPE_INT64: (-(1 << 63), (1 << 63) - 1),
}


def make_message(descriptor: Descriptor, rng: random.Random, words: Words, depth: int = 0) -> Message:
    """A message of this type in which each field is left out, sensible, or odd."""
    message = message_factory.GetMessageClass(descriptor)()
    for field in descriptor.fields:
        if rng.random() < 0.7:
            _fill(message, field, rng, words, depth)
    return message


def _fill(message: Message, field: FieldDescriptor, rng: random.Random, words: Words, depth: int) -> None:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        _fill_map(getattr(message, field.name), field.message_type, rng, words, depth)
        return
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        if depth >= DEEPEST:
            return
        if field.is_repeated:
            for _ in range(rng.randrange(LONGEST)):
                getattr(message, field.name).add().CopyFrom(make_message(field.message_type, rng, words, depth + 1))
        else:
            getattr(message, field.name).CopyFrom(make_message(field.message_type, rng, words, depth + 1))
        return
    if field.is_repeated:
        count = rng.choice((0, 1, 2, LONGEST, 1000 if rng.random() < 0.02 else 3))
        getattr(message, field.name).extend(_value(field, rng, words) for _ in range(count))
    else:
        setattr(message, field.name, _value(field, rng, words))


def _fill_map(target: Any, entry: Descriptor, rng: random.Random, words: Words, depth: int) -> None:
    key, value = entry.fields_by_name["key"], entry.fields_by_name["value"]
    for _ in range(rng.randrange(4)):
        if value.type == FieldDescriptor.TYPE_MESSAGE:
            target[_value(key, rng, words)].CopyFrom(make_message(value.message_type, rng, words, depth + 1))
        else:
            target[_value(key, rng, words)] = _value(value, rng, words)


def _value(field: FieldDescriptor, rng: random.Random, words: Words) -> Any:
    known = words.get(field.name)
    if known and rng.random() < 0.6:
        return rng.choice(known)
    if field.type == FieldDescriptor.TYPE_STRING:
        return rng.choice(JSONS if field.name.endswith("_json") else TEXTS)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return rng.choice((rng.choice(BYTES), rng.randbytes(rng.randrange(64)), rng.randbytes(8 * rng.randrange(5))))
    if field.type == FieldDescriptor.TYPE_BOOL:
        return rng.random() < 0.5
    if field.type == FieldDescriptor.TYPE_ENUM:
        return rng.choice((0, 1, 2, 3, 9, 1000))
    if field.type in (FieldDescriptor.TYPE_DOUBLE, FieldDescriptor.TYPE_FLOAT):
        return rng.choice((*FLOATS, rng.uniform(0, 100)))
    low, high = _INTEGERS[field.type]
    return rng.choice((low, 0, 1, 2, 3, rng.randint(0, 100), rng.randint(low, high), high))


def mutated(data: bytes, rng: random.Random) -> bytes:
    """``data`` with a few bytes changed, removed, doubled or put in."""
    found = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        rng.choice(MUTATIONS)(found, rng.randrange(len(found) + 1), rng)
    return bytes(found)


def _change(data: bytearray, at: int, rng: random.Random) -> None:
    data[at : at + 1] = bytes([rng.randrange(256)])


def _remove(data: bytearray, at: int, rng: random.Random) -> None:
    del data[at : at + rng.randint(1, 8)]


def _put_in(data: bytearray, at: int, rng: random.Random) -> None:
    data[at:at] = rng.randbytes(rng.randint(1, 8))


def _double(data: bytearray, at: int, rng: random.Random) -> None:
    data.extend(data[: rng.randint(0, 64)])


def _cut(data: bytearray, at: int, rng: random.Random) -> None:
    del data[at:]


MUTATIONS = (_change, _remove, _put_in, _double, _cut)


def make_json(rng: random.Random, words: Sequence[Any], depth: int = 0) -> Any:
    """A value with a JSON text: mostly an object whose keys and values are among ``words``."""
    kind = rng.random()
    if depth > 3 or kind < 0.4:
        return rng.choice((*words, None, True, -1, 0, 1e308, 1 << 70, "", "x" * 5000, "\0"))
    if kind < 0.6:
        return [make_json(rng, words, depth + 1) for _ in range(rng.randrange(4))]
    return {str(rng.choice(words)): make_json(rng, words, depth + 1) for _ in range(rng.randrange(4))}


def make_body(rng: random.Random, words: Sequence[Any]) -> bytes:
    """The body of a request: JSON of some kind, that mutated, or noise."""
    text = json.dumps(make_json(rng, words)).encode()
    return rng.choice((text, text, mutated(text, rng), rng.randbytes(rng.randrange(200)), b"[" * 5000, b""))
