"""Odd values through what encodes and decodes them, in a process of its own: native recursion may end it.

Run as a program: ``python fuzz_codec.py SEED FIRST COUNT NOTES``. The number of the present input is written to the
file NOTES before it is tried, so that whoever started the process knows which input ended it. Faults are printed.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable, Iterator, Sized
from typing import Any

import msgpack
from fuzz_messages import mutated
from fuzz_values import DEPTHS, evaluate, value

from tupletree._wire.codec import decode_columns, decode_value, encode_columns, encode_value
from tupletree._wire.events import encode_event
from tupletree._wire.statuses import decode_status, encode_status
from tupletree._wire.value_hash import hash_values
from tupletree.config import encode_conf
from tupletree.errors import ConfigError, ProtocolError, UnregisteredTypeError
from tupletree.worker.debugging.sampling import shown

MAX_FAULTS = 8
MAX_EVENT_LENGTH = 2000


def made(seed: str, number: int) -> str:
    """The expression of one input."""
    return value(random.Random(f"{seed} {number}"))


def hostile(rng: random.Random, sample: bytes) -> bytes:
    """Bytes that no encoder wrote: nested extensions, and mutations."""
    if rng.random() < 0.8:
        return mutated(sample, rng)
    code = rng.choice((1, 1, 4, 3, 2, 5, 33))
    data = rng.choice((b"\x90", b"\x91\x01", b"\xc0", b""))
    deepest = 30_000 if rng.random() < 0.02 else 3000  # bytes; each level copies what is inside
    for _ in range(rng.choice(DEPTHS)):
        if len(data) >= deepest:
            break
        data = b"\x91" + msgpack.packb(msgpack.ExtType(code, data))
    return data


def check(expression: str, rng: random.Random) -> Iterator[str]:
    """What is wrong with how a value is encoded and decoded, in sentences."""
    given = evaluate(expression)
    sample = b"\x91\x01"
    try:
        sample = encode_columns([[given, 1], [2, given]], "fuzzed", ["a", "b"])
    except UnregisteredTypeError:
        pass
    except Exception as error:
        yield f"encode_columns raised {type(error).__name__}: {str(error)[:200]}"
    else:
        yield from _read_back(sample, given)
    yield from _only(UnregisteredTypeError, hash_values, [given], "fuzzed", ["a"])
    yield from _only(UnregisteredTypeError, encode_value, given)
    yield from _only(ConfigError, encode_conf, {"my.key": given})
    if len(line := encode_event({"values": [shown(given)]})) > MAX_EVENT_LENGTH:
        yield f"an event has {len(line)} characters"
    text = encode_status(lambda: {"value": given})
    if decode_status(text) is None:
        yield f"a status was written that cannot be read: {text[:100]!r}"
    yield from _only(ProtocolError, decode_value, hostile(rng, sample))
    yield from _only(ProtocolError, decode_columns, hostile(rng, sample), 2, 2)


def _read_back(data: bytes, given: Any) -> Iterator[str]:
    """What is written must be read."""
    try:
        columns = decode_columns(data, 2, 2)
    except Exception as error:
        yield f"decode_columns raised {type(error).__name__}: {str(error)[:200]}"
    else:
        if not (same(columns[0][0], given) and same(columns[1][1], given)):
            yield "decode_columns returned another value"


def _only(allowed: type[Exception], call: Callable[..., object], *arguments: Any) -> Iterator[str]:
    try:
        call(*arguments)
    except allowed:
        pass
    except Exception as error:
        yield f"{call.__name__} raised {type(error).__name__}: {str(error)[:200]}"


PLAIN = frozenset({int, str, bytes, bool, type(None)})
SCALAR = frozenset({int, float, bool, type(None)})


def same(one: Any, other: Any) -> bool:
    """True if two values are equal, NaN to itself; without recursion."""
    todo = [(one, other)]
    while todo:
        a, b = todo.pop()
        if isinstance(b, bytearray | memoryview):
            b = bytes(b)  # what is like bytes arrives as bytes
        if type(a) is not type(b) or (type(a) not in SCALAR and isinstance(a, Sized) and len(a) != len(b)):
            return False
        if isinstance(a, list | tuple):
            kinds = list(map(type, a))
            if PLAIN.issuperset(kinds) and kinds == list(map(type, b)) and a == b:  # as most long ones are
                continue
            todo.extend(zip(a, b, strict=True))
        elif isinstance(a, dict):
            todo += [(list(a), list(b)), (list(a.values()), list(b.values()))]
        elif not isinstance(a, frozenset | set) and a != b and not (a != a and b != b):  # noqa: PLR0124  # NaN
            return False
    return True


def main(seed: str, first: int, count: int, notes: str) -> None:
    faults = 0
    at = os.open(notes, os.O_WRONLY | os.O_CREAT, 0o644)
    for number in range(first, first + count):
        os.pwrite(at, f"{number:20}".encode(), 0)
        expression = made(seed, number)
        try:
            found = list(check(expression, random.Random(f"bytes {seed} {number}")))
        except Exception as error:
            found = [f"{type(error).__name__}: {str(error)[:200]}"]
        for fault in found:
            faults += 1
            if faults <= MAX_FAULTS:
                print(json.dumps(f"input {number}, {expression[:300]}: {fault}"), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
