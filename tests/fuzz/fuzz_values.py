"""Values that a user can write, as Python expressions: sizes, nestings, numbers, strings and types at their edges.

An input is the text of an expression, so a failure prints the input itself and not a representation of 100 MB.
``evaluate`` makes the value. Pure: everything follows from the ``random.Random`` that is handed over. Workers use this
module too: submitted topologies carry it by value.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import random
from collections.abc import Callable
from typing import Any

from tupletree.attempt import TransactionAttempt

DEPTHS = (1, 2, 10, 31, 32, 33, 49, 50, 51, 63, 64, 65, 100, 200, 330, 340, 500, 511, 512, 990, 1000, 3000, 10_000)
SIZES = (0, 1, 31, 32, 255, 256, 65_535, 65_536)
LARGE = (1_000_000, 5_000_000, 20_000_000, 63_000_000, 67_108_864, 80_000_000, 100_000_000)
"""Sizes in bytes for a bounded number of inputs only."""

TEXTS = (
    *("''", "'x'", r"'\0'", r"'a\0b'", r"'\ud800'", r"'a\udfff'", r"'\udc80\udcff'", "'A=B'", "'='", r"'a\nb'"),
    *(r"'\n'", r"'\r\n'", r"'\t'", "' '", r"'\x1b[31m'", r"'\x7f'", r"'\u202e'", r"'\u2028'", r"'\ufeff'"),
    *(r"'\U0001f600'", r"'e\u0301'", "'\\xe9' * 300", "'__x'", "'$x'", "'.'", "'..'", "'../../x'", "'a/b'", "'/'"),
    *("'%s%n'", "'{0}'", "'${HOME}'", "'`id`'", "'-x'", "'null'", "'0'", "'x' * 101", "'x' * 201", "'x' * 70_000"),
)
MEGABYTE = "'x' * 1_000_000"

NUMBERS = (
    *("0", "1", "-1", "2", "3", "True", "None", "1.5", "-0.0", "1e308", "5e-324", "1e999", "-1e999", "float('nan')"),
    *("100", "2_000", "2_001", "10_000", "10_001", "30_000", "99_999", "100_000", "100_001", "2**31 - 1", "2**31"),
    *("2**32 - 1", "2**32", "2**53 + 1", "2**63 - 1", "2**63", "2**64 - 1", "2**64", "-2**63", "-2**63 - 1"),
    *("10**400", "-10**5000", "'1'", "[1]", "{}"),
)
TYPES = (
    *("object()", "...", "NotImplemented", "1j", "range(3)", "bytearray(b'x')", "memoryview(b'x')", "len", "int"),
    *("{1, 2}", "frozenset('a')", "{None, 1, 'a'}", "{(1, 2): 3}", "{None: 1, 'a': 2}", "{1.5: 1, True: 2}"),
    *("{b'a': 1}", "{frozenset((1,)): ()}", "(x for x in ())", "ValueError('x')", "Text('x')", "Number(1)", "Row([1])"),
    *("Colour.RED", "decimal.Decimal('1')", "datetime.date(2000, 1, 1)", "datetime.timedelta(1)"),
    *("datetime.datetime(1, 1, 1)", "datetime.datetime(9999, 12, 31)", "datetime.datetime.max", "aware(1, 1, 1, 14)"),
    *("aware(9999, 12, 31, -12)", "aware(2000, 1, 1, 0)", "attempt(1, 1)", "attempt(2**70, -1)", "attempt(-1, None)"),
    *("attempt('a', [])", "circle()", "dict_circle()", "Refuses()", "{'a': Refuses()}", "2**64", "[2**64, {2**70: 1}]"),
    *("[-0.0, float('nan')]", "{float('nan'): 1}", "{(): [{}]}", "{'a': 1, b'a': 2, 97: 3}", "[None] * 100_000"),
)
KINDS = ("list", "tuple", "dict", "frozenset", "mixed", "key")


class Text(str):
    """A string that is none: the codec matches types exactly."""


class Number(int):
    pass


class Row(list[Any]):
    pass


class Colour(enum.IntEnum):
    RED = 1


class Refuses:
    """Everything that a framework may do with a value by accident raises."""

    def __repr__(self) -> str:
        raise RuntimeError("no representation")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no comparison")

    def __hash__(self) -> int:
        raise RuntimeError("no hash")

    def __bool__(self) -> bool:
        raise RuntimeError("no truth")


def nested(kind: str, depth: int, inner: Any = 1) -> Any:
    """A value inside ``depth`` containers, built from the inside."""
    value = inner
    for level in range(depth):
        value = _wrapped(kind if kind != "mixed" else KINDS[level % 4], value)
    return value


def _wrapped(kind: str, value: Any) -> Any:
    match kind:
        case "list":
            return [value]
        case "dict":
            return {"a": value}
        case "frozenset":
            return frozenset((value if not isinstance(value, list | dict) else 1,))
        case "key":
            return {(value if not isinstance(value, dict) else tuple(value)): 1}
        case _:
            return (value,)


def circle() -> Any:
    """A list that holds itself."""
    found: list[Any] = []
    found.append(found)
    return found


def dict_circle() -> Any:
    found: dict[str, Any] = {}
    found["a"] = [found]
    return found


def aware(year: int, month: int, day: int, offset_h: int) -> datetime.datetime:
    zone = datetime.timezone(datetime.timedelta(hours=offset_h))
    return datetime.datetime(year, month, day, tzinfo=zone)


NAMES: dict[str, Any] = {
    "Colour": Colour,
    "Number": Number,
    "Refuses": Refuses,
    "Row": Row,
    "Text": Text,
    "attempt": TransactionAttempt,
    "aware": aware,
    "circle": circle,
    "datetime": datetime,
    "decimal": decimal,
    "dict_circle": dict_circle,
    "nested": nested,
}


def evaluate(expression: str, **more: Any) -> Any:
    """The value that an expression of this module stands for; ``more``: further names in it."""
    return eval(expression, {**NAMES, **more})


def text(rng: random.Random, megabytes: bool = False) -> str:
    """A string: one that something may take for more than a string, or several of them joined."""
    if megabytes and rng.random() < 0.01:
        return MEGABYTE
    if rng.random() < 0.2:
        return f"{rng.choice(TEXTS)} + {rng.choice(TEXTS)}"
    return rng.choice(TEXTS)


def number(rng: random.Random) -> str:
    """A number at an edge, or what stands in the place of one."""
    return rng.choice(NUMBERS) if rng.random() < 0.8 else str(rng.randint(-10, 100_001))


def sized(rng: random.Random) -> str:
    """Bytes, a string, or rows of a size at an edge; small."""
    unit = rng.choice(("b'x'", "'x'", "'\\xe9'", "[1]", "(None,)"))
    return f"{unit} * {rng.choice(SIZES if rng.random() < 0.2 else SIZES[:-2])}"


def large(size: int, rng: random.Random) -> str:
    """A value of so many bytes."""
    unit, divisor = rng.choice((("b'x'", 1), ("'x'", 1), ("[b'x' * 1000]", 1000)))
    return f"{unit} * {size // divisor}"


def nesting(rng: random.Random) -> str:
    return f"nested({rng.choice(KINDS)!r}, {rng.choice(DEPTHS)}, {rng.choice(('1', '()', *TEXTS[:8]))})"


def value(rng: random.Random, depth: int = 0) -> str:
    """A value of any kind, by itself or in a small container; never a large one."""
    kind = rng.random()
    if depth < 3 and kind < 0.2:
        parts = [value(rng, depth + 1) for _ in range(rng.randrange(4))]
        open_close = rng.choice(("[]", "()", "{}"))
        if open_close == "{}":
            return "{" + ", ".join(f"{rng.choice(TEXTS[:20])}: {part}" for part in parts) + "}"
        return open_close[0] + "".join(f"{part}, " for part in parts) + open_close[1]
    makers: tuple[Callable[[random.Random], str], ...] = (text, number, sized, nesting, lambda r: r.choice(TYPES))
    return rng.choice(makers)(rng)


def json_text(rng: random.Random) -> str:
    """The text of a JSON object as an expression: of odd values, nested, repeated, or broken."""
    depth = rng.choice(DEPTHS)
    return rng.choice(
        (
            f"'{{\"a\":' + '[' * {depth} + ']' * {depth} + '}}'",
            f"'{{\"a\":' * {depth} + '1' + '}}' * {depth}",
            f"'[' * {depth}",
            "'{\"a\":' + '9' * 5000 + '}'",
            "'{\"a\":1e999}'",
            "'{\"a\":NaN}'",
            '\'{"a":1,"a":2}\'',
            r"""'{"a":"\\ud800"}'""",
            r"""'{"\\ud800":1}'""",
            r"""'{"a":"\\u0000"}'""",
            "'{\"a\":\"' + '\\xe9' * 200_000 + '\"}'",
            "'{\"a\":\"' + 'x' * 262_200 + '\"}'",
            "'{\"\":1}'",
            "'{' + ','.join(f'\"k{n}\":{n}' for n in range(10_000)) + '}'",
            "''",
            "'{}'",
            "'null'",
        )
    )
