"""Entries of states in files: what was exported is read as it was, and what is no entry gets a sentence."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math
import uuid
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tupletree._savepoints.export import writer_of
from tupletree._savepoints.importing import read_entries
from tupletree._wire.codec import encode_value
from tupletree._wire.plain_form import plain_form
from tupletree._wire.plain_values import value_of
from tupletree.attempt import TransactionAttempt
from tupletree.errors import UnavailableError, UsageError

LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(1 << 200), 1 << 200),
    st.just(1 << 10_500),
    st.floats(allow_nan=False),
    st.text(max_size=20),
    st.binary(max_size=20),
    st.datetimes(),
    st.datetimes(timezones=st.just(dt.UTC)),
    st.dates(),
    st.times(),
    st.integers(-(10**9), 10**9).map(lambda seconds: dt.timedelta(seconds=seconds, milliseconds=5)),
    st.decimals(allow_nan=False),
    st.uuids(),
    st.builds(TransactionAttempt, st.integers(0, 1 << 40), st.integers(0, 1 << 40)),
)
KEYS = st.one_of(st.text(max_size=8), st.integers(), st.binary(max_size=8), st.tuples(st.text(max_size=3)))
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.one_of(st.text(max_size=5), st.sampled_from(["$set", "$x"])), inner, max_size=3),
        st.dictionaries(KEYS, inner, max_size=3),
        st.sets(KEYS, max_size=3),
        st.frozensets(KEYS, max_size=3),
    ),
    max_leaves=8,
)


@given(VALUES)
def test_a_plain_form_stands_for_its_value(value: Any) -> None:
    encoded = encode_value(value)
    through_json = json.loads(json.dumps(plain_form(encoded)))
    found = value_of(through_json)
    assert type(found) is type(value)
    assert plain_form(encode_value(found)) == plain_form(encoded)


@given(st.lists(KEYS, unique=True), st.randoms(use_true_random=False))
def test_a_set_has_one_plain_form(items: list[Any], random: Random) -> None:
    shuffled = random.sample(items, len(items))
    forms = [plain_form(encode_value({*given})) for given in (items, shuffled)]
    assert forms[0] == forms[1]


def test_values_that_are_not_equal_to_themselves_and_special_ones() -> None:
    assert math.isnan(value_of({"$float": "nan"}))
    assert value_of({"$float": "-inf"}) == -math.inf
    assert value_of({"$uuid": "12345678-1234-5678-1234-567812345678"}) == uuid.UUID(
        "12345678-1234-5678-1234-567812345678"
    )
    assert value_of({"$decimal": "1.50"}) == decimal.Decimal("1.50")


@pytest.mark.parametrize(
    "form",
    [
        {"$bytes": "ä"},
        {"$bytes": 5},
        {"$dict": [[1, 2, 3]]},
        {"$dict": [[[1], 2]]},
        {"$tuple": {"a": 1}},
        {"$float": "5"},
        {"$int": "zz"},
        {"$datetime": "12 s and 3 ns since 1970"},
        {"$time": 5},
        {"$timedelta": "long"},
        {"$timedelta": 1e300},
        {"$decimal": "x"},
        {"$uuid": "x"},
        {"$attempt": [1]},
        {"$set": [[1]]},
        {"$nope": 1},
        {"$set": [], "other": 1},
        {"nested": [{"$tuple": 1}]},
    ],
)
def test_a_form_of_no_value_is_refused(form: Any) -> None:
    with pytest.raises(UsageError, match=r"is no value: "):
        value_of(form)


@pytest.mark.parametrize("form", [{"$value": "a.B", "fields": []}, [{"$registered": 33, "bytes": ""}]])
def test_an_object_of_a_class_is_refused(form: Any) -> None:
    with pytest.raises(UsageError, match=r"^an object of a class is no value in JSON, as in .*: a Parquet file of"):
        value_of(form)


def test_a_value_that_is_nested_too_deep_is_refused() -> None:
    form: Any = 1
    for _ in range(5_000):
        form = [form]
    with pytest.raises(UsageError, match=r"^a value that is nested so deep cannot be stored$"):
        value_of(form)


ROWS = [(0, encode_value("a"), encode_value((1, b"x"))), (2, encode_value(("b", 3)), encode_value({"n": None}))]


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
def test_what_was_exported_is_read_again(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"state.{ending}"
    writer_of(str(path))(path, [ROWS[:1], ROWS[1:]])
    assert list(read_entries(str(path))) == ROWS


def test_a_program_may_leave_out_the_task_and_write_empty_lines_and_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "state.jsonl"
    path.write_text('\ufeff{"key": "a", "value": 1}\n\n{"value": null, "key": ["b", 1], "other": 5}')
    assert list(read_entries(str(path))) == [
        (None, encode_value("a"), encode_value(1)),
        (None, encode_value(("b", 1)), encode_value(None)),
    ]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (b"[1]", r"^line 1 of .*state\.jsonl is not \{\"key\": …, \"value\": …\}: '\[1\]'$"),
        (b'{"key": "a", "value": 1}\n{"key": "a"}', r"^line 2 of .*state\.jsonl is not "),
        (b'{"key": 1.5, "value": 1}', r"^line 1 of .*state\.jsonl: a key in JSON is a string, a whole number"),
        (b'{"key": "a", "value": {"$value": "x"}}', r"^line 1 of .*state\.jsonl: an object of a class is no value"),
        (b'{"key": "a", "value": 1, "task": "x"}', r"^line 1 of .*: a task is a whole number from 0, not 'x'$"),
        (b'{"key": "\xff", "value": 1}', r"^line 1 of .*state\.jsonl is not a text in UTF-8"),
    ],
)
def test_a_line_that_is_no_entry_is_named(text: bytes, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "state.jsonl"
    path.write_bytes(text)
    with pytest.raises(UsageError, match=sentence):
        list(read_entries(str(path)))


CELLS = st.text(st.characters(codec="utf-8"), max_size=20) | st.sampled_from(
    ["5", '"a"', "NaN", "", " 1", "null", "a,\r\n"]
)


@given(st.lists(st.tuples(CELLS | st.integers(), CELLS | st.integers() | st.floats(allow_nan=False) | st.none())))
def test_texts_and_numbers_are_told_apart_in_csv(entries: list[tuple[Any, Any]]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "state.csv"
        rows = [(index, encode_value(key), encode_value(value)) for index, (key, value) in enumerate(entries)]
        writer_of(str(path))(path, [rows])
        assert list(read_entries(str(path))) == rows


def test_a_spreadsheet_has_its_columns_in_any_order_and_more_of_them(tmp_path: Path) -> None:
    path = tmp_path / "state.csv"
    path.write_bytes('\ufeffvalue,note,key\r\n5,new,apple\r\ntrue,,"[""b"", 1]"\r\n'.encode())
    assert list(read_entries(str(path))) == [
        (None, encode_value("apple"), encode_value(5)),
        (None, encode_value(("b", 1)), encode_value(True)),
    ]


def test_a_long_value_in_a_csv_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "state.csv"
    path.write_text("key,value\na," + "x" * 200_000)
    assert list(read_entries(str(path))) == [(None, encode_value("a"), encode_value("x" * 200_000))]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (b"", r"^the first line of .*state\.csv names the columns, and key and value are not among them$"),
        (b"word,count\na,1\n", r"^the first line of .*state\.csv names the columns, and key and value are not among"),
        (b"key,value\na,1\nb\n", r"^line 3 of .*state\.csv has not as many cells as the first line$"),
        (b"key,value\na,1,2\n", r"^line 2 of .*state\.csv has not as many cells as the first line$"),
        (b"key,value\n1.5,1\n", r"^line 2 of .*state\.csv: a key in JSON is a string, a whole number"),
        (b'key,value\na,"{""$value"": ""x""}"\n', r"^line 2 of .*state\.csv: an object of a class is no value"),
        (b"task,key,value\nx,a,1\n", r"^line 2 of .*state\.csv: a task is a whole number from 0, not 'x'$"),
        (b'key,value\na,1\nb,"2\nc,3\n', r"^the row after line 2 of .*state\.csv cannot be read: unexpected end"),
        (b"key,value\n\xff,1\n", r"^.*state\.csv is not a text in UTF-8 after line"),
    ],
)
def test_a_csv_file_that_has_no_entries_is_named(text: bytes, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "state.csv"
    path.write_bytes(text)
    with pytest.raises(UsageError, match=sentence):
        list(read_entries(str(path)))


def test_files_that_cannot_be_imported(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^entries are imported from a .parquet, .csv or .jsonl file, not from 'a.t"):
        list(read_entries("a.txt"))
    with pytest.raises(UnavailableError, match=r"gone\.jsonl cannot be read: No such file or directory$"):
        list(read_entries(str(tmp_path / "gone.jsonl")))
    path = tmp_path / "state.parquet"
    path.write_text("text")
    with pytest.raises(UsageError, match=r"state\.parquet is not a Parquet file"):
        list(read_entries(str(path)))
