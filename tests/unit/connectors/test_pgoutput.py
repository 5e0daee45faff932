"""Messages of pgoutput, laid out by hand as PostgreSQL's manual has them."""

from __future__ import annotations

import struct
from datetime import UTC, datetime
from decimal import Decimal
from uuid import UUID

import pytest

from tupletree.connectors.pgoutput import Begin, Change, Commit, Decoder, load


def relation(id: int, name: str, *columns: tuple[str, int, int], schema: str = "shop") -> bytes:
    parts = [f"{schema}\0{name}\0".encode() + struct.pack(">BH", ord("d"), len(columns))]
    parts += [
        struct.pack(">B", flags) + f"{column}\0".encode() + struct.pack(">Ii", kind, -1)
        for column, kind, flags in columns
    ]
    return b"R" + struct.pack(">I", id) + b"".join(parts)


def row(*values: str | bytes | None) -> bytes:
    """A row: text, null, or b"u" for what is unchanged."""
    parts = [struct.pack(">H", len(values))]
    for value in values:
        if isinstance(value, str):
            parts.append(b"t" + struct.pack(">I", len(value.encode())) + value.encode())
        else:
            parts.append(value or b"n")
    return b"".join(parts)


def change(kind: bytes, *rows: bytes, id: int = 7) -> bytes:
    return kind + struct.pack(">I", id) + b"".join(rows)


@pytest.fixture
def decoder() -> Decoder:
    decoder = Decoder()
    assert not decoder.decode(relation(7, "orders", ("id", 23, 1), ("city", 25, 0)))
    return decoder


def test_begin_and_commit_have_the_positions_of_a_transaction() -> None:
    begin = b"B" + struct.pack(">QqI", 0x1528A60, 86_400_000_000, 727)
    assert Decoder().decode(begin) == Begin(0x1528A60, datetime(2000, 1, 2, tzinfo=UTC), 727)
    assert Decoder().decode(b"C" + struct.pack(">BQQq", 0, 0x1528A60, 0x1528A90, 0)) == Commit(0x1528A90)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (change(b"I", b"N", row("1", "Ulm")), ("insert", {"id": 1}, {"id": 1, "city": "Ulm"}, None)),
        (change(b"U", b"N", row("1", None)), ("update", {"id": 1}, {"id": 1, "city": None}, None)),
        (change(b"U", b"N", row("1", b"u")), ("update", {"id": 1}, {"id": 1}, None)),
        (
            change(b"U", b"K", row("1", None), b"N", row("2", "Ulm")),
            ("update", {"id": 2}, {"id": 2, "city": "Ulm"}, {"id": 1}),
        ),
        (
            change(b"U", b"O", row("1", "large"), b"N", row("2", b"u")),
            ("update", {"id": 2}, {"id": 2, "city": "large"}, {"id": 1, "city": "large"}),
        ),
        (  # a large key that the update left alone
            change(b"U", b"K", row("1", None), b"N", row(b"u", "Ulm")),
            ("update", {"id": 1}, {"id": 1, "city": "Ulm"}, {"id": 1}),
        ),
        (change(b"D", b"K", row("1", None)), ("delete", {"id": 1}, None, {"id": 1})),
        (change(b"D", b"O", row("1", "Ulm")), ("delete", {"id": 1}, None, {"id": 1, "city": "Ulm"})),
    ],
)
def test_changes_have_key_new_and_old_values(decoder: Decoder, message: bytes, expected: tuple[object, ...]) -> None:
    operation, *values = expected
    assert decoder.decode(message) == [Change(operation, "shop.orders", *values)]  # type: ignore[arg-type]


def test_a_truncate_names_each_table(decoder: Decoder) -> None:
    decoder.decode(relation(8, "pg_class", ("oid", 26, 1), schema=""))
    changes = decoder.decode(b"T" + struct.pack(">IBII", 2, 0, 7, 8))
    assert changes == [Change("truncate", table, {}, None, None) for table in ("shop.orders", "pg_catalog.pg_class")]


def test_a_table_that_has_changed_has_other_columns_from_then_on(decoder: Decoder) -> None:
    decoder.decode(relation(7, "orders", ("id", 23, 1), ("city", 25, 0), ("price", 1700, 0)))
    [inserted] = decoder.decode(change(b"I", b"N", row("1", "Ulm", "2.50")))  # type: ignore[misc]
    assert inserted == Change(
        "insert", "shop.orders", {"id": 1}, {"id": 1, "city": "Ulm", "price": Decimal("2.50")}, None
    )


def test_other_messages_have_no_changes(decoder: Decoder) -> None:
    for message in (b"Y\0\0\0\1\0", b"O" + bytes(9), b"M\0", b"?"):
        assert not decoder.decode(message)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (16, "t", True),
        (16, "f", False),
        (17, "\\x00ff", b"\x00\xff"),
        (20, "-9223372036854775808", -(2**63)),
        (701, "-Infinity", float("-inf")),
        (1700, "1.50", Decimal("1.50")),
        (3802, '{"a": [1, null]}', {"a": [1, None]}),
        (2950, "00000000-0000-0000-0000-000000000001", UUID(int=1)),
        (1184, "2026-01-02 03:04:05.6+00", "2026-01-02 03:04:05.6+00"),
        (1007, "{1,2}", "{1,2}"),
    ],
)
def test_values_have_the_types_of_their_columns(kind: int, text: str, value: object) -> None:
    loaded = load(kind, text.encode())
    assert (loaded, type(loaded)) == (value, type(value))
    assert load(kind, None) is None


@pytest.mark.parametrize(
    "text",
    ["1" * 5000, "[" * 100_000 + "]" * 100_000, r'["\ud800"]'],
    ids=["a long number", "deep", "half a character"],
)
def test_json_that_python_cannot_read_stays_text(text: str) -> None:
    assert load(3802, text.encode()) == text
