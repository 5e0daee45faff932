"""Headers of AMQP's messages are read as they were written, and the rest of the frame stays as it is."""

from __future__ import annotations

import struct
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pika
import pytest
from pika.frame import Header, decode_frame

from tupletree.connectors.amqp_headers import decoded_table, frame_end, without_headers


def table(**raw: bytes) -> bytes:
    return b"".join(bytes([len(name)]) + name.encode() + value for name, value in raw.items())


PROPERTIES: list[dict[str, Any]] = [
    {"message_id": "m1"},
    {"headers": {"a": 1}},
    {"headers": {"a": 1}, "content_type": "text/plain", "content_encoding": "gzip", "message_id": "m1", "priority": 3},
    {"headers": {}, "content_encoding": "x", "timestamp": 5},
]


@pytest.mark.parametrize("given", PROPERTIES)
def test_a_frame_without_its_headers_has_all_other_properties(given: dict[str, Any]) -> None:
    frame = Header(7, 123, pika.BasicProperties(**given)).marshal()
    assert frame_end(frame + b"more") == len(frame)
    assert [frame_end(frame[:length]) for length in range(len(frame))] == [0] * len(frame)
    cut, headers = without_headers(frame)
    _, found = decode_frame(cut)
    assert (found.channel_number, found.body_size) == (7, 123)
    assert found.properties == pika.BasicProperties(**{**given, "headers": None})
    assert decoded_table(headers) == given.get("headers", {})


def test_values_are_those_that_were_written() -> None:
    written = {
        "text": "é", "whole": -5, "large": 2**40, "yes": True, "nothing": None, "bytes": b"\0\1",
        "at": datetime(2026, 1, 2, 3, tzinfo=UTC), "price": Decimal("-1.25"), "table": {"list": [1, "a", {"b": 2}]},
    }  # fmt: skip
    _, headers = without_headers(Header(1, 0, pika.BasicProperties(headers=written)).marshal())
    found = decoded_table(headers)
    assert found == written
    assert type(found["large"]) is int


def test_numbers_keep_their_fractions_and_a_time_that_is_no_datetime_is_its_seconds() -> None:
    raw = table(
        double=b"d" + struct.pack(">d", 1.75),
        single=b"f" + struct.pack(">f", 0.5),
        far=b"T" + struct.pack(">Q", 1_700_000_000_000),
        farthest=b"T" + struct.pack(">Q", 2**64 - 1),
        odd=b"S" + struct.pack(">I", 1) + b"\xff",
    )
    expected = {"double": 1.75, "single": 0.5, "far": 1_700_000_000_000, "farthest": 2**64 - 1, "odd": b"\xff"}
    assert decoded_table(raw) == expected


@pytest.mark.parametrize("raw", [b"\1a", b"\1aZ", b"\1ad\0", b"\1aA\0\0\0\1"])
def test_what_is_no_table_is_refused(raw: bytes) -> None:
    with pytest.raises((ValueError, struct.error)):
        decoded_table(raw)
