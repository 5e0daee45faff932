"""What a row becomes in Redis, and what RedisHashes refuses."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import cloudpickle
import msgpack
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tupletree._sinks.redis_values import Column, checked_columns, encoded_key, hash_name, packed, text
from tupletree.connectors.redis_hashes import RedisHashSink
from tupletree.errors import UsageError
from tupletree.spark.sinks.redis import RedisHashes

TEXTS = st.none() | st.text(alphabet="ab:%25A3null", max_size=5)
KEYS = st.tuples(TEXTS, TEXTS)
URL = "redis://:secret@nowhere:1/0"


@given(KEYS, KEYS)
@example((None, ""), ("%null", ""))
@example(("a:b", "c"), ("a", "b:c"))
@example(("a%3Ab", "c"), ("a:b", "c"))
def test_different_keys_have_different_names(one: Any, other: Any) -> None:
    assert (encoded_key(one) == encoded_key(other)) == (one == other)


def test_the_name_of_a_hash_is_that_under_which_the_sink_stores_it() -> None:
    columns = {"small": "float", "rate": "double", "price": "decimal(10,2)", "at": "timestamp", "n": "bigint"}
    sink = RedisHashSink(URL, "prices", columns, key=["small", "rate", "price", "at"])
    at = dt.datetime(2024, 5, 6, 2, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    [(*key, _)] = sink.stored([[0.1, 1, Decimal("1.5"), at, 7]])
    assert sink.hash_name(0.1, 1, Decimal("1.5"), at) == hash_name("prices", key)
    assert sink.hash_name(0.1, 1, Decimal("1.5"), at).endswith(":1.0:1.50:2024-05-06T00%3A00%3A00.000000Z")
    with pytest.raises(UsageError, match=r"RedisHashSink: key is .*; a value for each of small, rate, price, at was"):
        sink.hash_name(0.1)
    with pytest.raises(UsageError, match="the value 'a' of field 'small' cannot be stored as float"):
        sink.hash_name("a", 1, 2, at)


def test_a_plain_key_is_readable() -> None:
    assert hash_name("visits", ["/index.html", 2024]) == "visits:/index.html:2024"
    assert RedisHashes(URL, "visits", "page", add="n").hash_name("a:b") == "visits:a%3Ab"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, "true"),
        (2**63 - 1, "9223372036854775807"),
        (0.1, "0.1"),
        (Decimal("1E+2"), "100"),
        (Decimal("0.50"), "0.50"),
        ("ä", "ä"),
        (b"\xff", b"\xff"),
        (dt.date(7, 1, 2), "0007-01-02"),
        (dt.datetime(2024, 5, 6, 7, 8, 9), "2024-05-06T07:08:09.000000"),
        (dt.datetime(2024, 5, 6, 7, 8, 9, tzinfo=dt.timezone(dt.timedelta(hours=2))), "2024-05-06T05:08:09.000000Z"),
    ],
)
def test_values_are_written_with_all_their_digits(value: Any, expected: str | bytes) -> None:
    assert text(value) == expected


def test_rows_are_packed_in_chunks_of_bounded_size() -> None:
    rows = [["a", None, 5], ["b", "x" * 600_000, None], ["c", "x" * 600_000, 1], *([["d", "", 0]] * 1500)]
    chunks = [msgpack.unpackb(chunk) for chunk in packed(rows, 1)]
    assert [len(chunk) // 3 for chunk in chunks] == [3, 1000, 500]
    assert chunks[0][:3] == ["a", False, "5"]
    assert chunks[0][6] == "c"


def test_no_rows_are_no_chunks() -> None:
    assert list(packed([], 1)) == []


def test_columns_are_taken_in_the_order_of_the_sink() -> None:
    types = [("n", "long"), ("word", "string"), ("at", "timestamp")]
    assert checked_columns("sink", ["word"], {"at": "max", "n": "add"}, types) == [
        Column("at", "max", "text"),
        Column("n", "add", "whole"),
    ]


@pytest.mark.parametrize(
    ("types", "what"),
    [
        ([("word", "string")], "'n' are missing"),
        ([("word", "string"), ("n", "long"), ("x", "long"), ("y", "long")], "'x', 'y' have no role"),
        ([("word", "string"), ("n", "long"), ("n", "long")], "'n' occur twice"),
        ([("word", "string"), ("n", "string")], "'n' is of type string; 'add' takes"),
        ([("word", "string"), ("n", "decimal")], "'n' is of type decimal; 'add' takes"),
        ([("word", "array"), ("n", "long")], "'word' is of type array"),
        ([("word", "binary"), ("n", "long")], "'word' is of type binary"),
    ],
)
def test_wrong_columns_are_named(types: list[tuple[str, str]], what: str) -> None:
    with pytest.raises(UsageError, match=what):
        checked_columns("sink", ["word"], {"n": "add"}, types)


@pytest.mark.parametrize(
    ("arguments", "columns", "what"),
    [
        ((URL, "a#b", "k"), {"add": "n"}, "prefix is 'a#b'"),
        ((URL, "", "k"), {"add": "n"}, "prefix is ''"),
        ((URL, "p", []), {"add": "n"}, "a key and at least one column"),
        ((URL, "p", "k"), {}, "a key and at least one column"),
        ((URL, "p", "k"), {"add": ["n"], "max": ["n"]}, "'n' is named twice"),
        ((URL, "p", "k"), {"replace": ["k"]}, "'k' is named twice"),
        ((URL, "p", "k"), {"add": [1]}, r"add is \[1\]"),
        (("http://nowhere", "p", "k"), {"add": "n"}, "URL"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(arguments: Any, columns: Any, what: str) -> None:
    with pytest.raises(UsageError, match=what):
        RedisHashes(*arguments, **columns)


def test_it_travels_by_pickling_and_shows_no_password() -> None:
    sink = cloudpickle.loads(cloudpickle.dumps(RedisHashes(URL, "p", "k", add="n")))
    assert (sink.prefix, sink.key, sink.rules) == ("p", ["k"], {"n": "add"})
    assert "secret" not in repr(sink)
