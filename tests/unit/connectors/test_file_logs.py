"""Files as logs: any range has the same messages, whatever the blocks, row groups and line ends are."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tupletree.connectors import file_blocks
from tupletree.connectors.csv_format import Csv
from tupletree.connectors.files import TextFileLog
from tupletree.connectors.formats import FormatError
from tupletree.connectors.log_source import LogSource
from tupletree.connectors.messages import LogRecord
from tupletree.connectors.parquet import ParquetLog, RowGroupLog
from tupletree.errors import FailedException, ReportedFailedException, UsageError
from tupletree.testing import make_tuple


def records(log: LogSource, name: str, start: int, end: int) -> list[LogRecord]:
    return [record for some in log.read(name, start, end) for record in some]


@pytest.fixture(params=[1, 5, 1 << 22])
def block(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(file_blocks, "BLOCK_BYTES", request.param)
    yield


def test_lines_have_their_places_and_those_after_them(tmp_path: Path, block: None) -> None:
    (tmp_path / "a").write_bytes(b"one\n\r\ntwo\r\nthree")
    log = TextFileLog(tmp_path)
    end = log.limited("a", 0, log.bounds("a").end, 1000)
    assert end == 11
    found = records(log, "a", 0, end)
    assert [(one.data, one.position, one.next) for one in found] == [(b"one", 0, 4), (b"", 4, 6), (b"two", 6, 11)]
    assert [one.metadata for one in found] == [("a", 0), ("a", 4), ("a", 6)]
    assert records(log, "a", 4, end) == found[1:]
    assert [one.next for one in records(TextFileLog(tmp_path, are_complete=True), "a", 6, 16)] == [11, 16]


@pytest.mark.parametrize("asked", ["a", "*", "."])
def test_messages_name_their_file_as_people_do(tmp_path: Path, asked: str) -> None:
    (tmp_path / "a").write_bytes(b"one\n")
    log = TextFileLog(tmp_path / asked)
    [partition] = log.partitions()
    assert [one.metadata for one in records(log, partition, 0, 4)] == [("a", 0)]


def test_the_first_line_of_each_file_is_left_out_as_a_header(tmp_path: Path, block: None) -> None:
    (tmp_path / "a").write_bytes(b"name,age\nann,5\nbob,6\n")
    log = TextFileLog(tmp_path, header=True)
    assert [one.data for one in records(log, "a", 0, 21)] == [b"ann,5", b"bob,6"]
    assert [one.data for one in records(log, "a", 9, 21)] == [b"ann,5", b"bob,6"]
    assert records(log, "a", 0, 9) == []


def test_a_byte_order_mark_is_no_part_of_the_first_line(tmp_path: Path, block: None) -> None:
    mark = b"\xef\xbb\xbf"
    (tmp_path / "a").write_bytes(mark + b"one\n" + mark + b"two\n")
    found = records(TextFileLog(tmp_path), "a", 0, 14)
    assert [(one.data, one.position, one.next) for one in found] == [(b"one", 3, 7), (mark + b"two", 7, 14)]
    assert records(TextFileLog(tmp_path, header=True), "a", 0, 14) == found[1:]
    (tmp_path / "b").write_bytes(mark)
    assert records(TextFileLog(tmp_path, are_complete=True, header=True), "b", 0, 3) == []


def test_a_file_that_shrank_is_named(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"one\n")
    with pytest.raises(ReportedFailedException, match=r"a: 8 bytes were already read, but the file has only 4: a file"):
        TextFileLog(tmp_path).limited("a", 8, 4, 100)


def test_a_pattern_without_files_is_named_with_the_directory_searched(tmp_path: Path) -> None:
    for log in (TextFileLog(tmp_path / "*.txt"), ParquetLog(tmp_path / "*.txt")):
        assert log.absence() == (
            f"no file matches the pattern {tmp_path}/*.txt; it was searched in {tmp_path}; the spout goes on looking"
        )
    assert TextFileLog(tmp_path / "away" / "*.txt").absence() == (
        f"no file matches the pattern {tmp_path}/away/*.txt, as there is no directory {tmp_path}/away; "
        "the spout goes on looking"
    )
    assert TextFileLog(tmp_path).absence() == ""  # an empty directory is one that waits for files
    (tmp_path / "a.txt").write_bytes(b"")
    assert TextFileLog(tmp_path / "*.txt").absence() == ParquetLog(tmp_path / "*.txt").absence() == ""


SCHEMA = pa.schema([("number", pa.int64()), ("word", pa.string()), ("other", pa.int64())])


def table(*numbers: int) -> pa.Table:
    columns = {"number": list(numbers), "word": [f"w{number}" for number in numbers], "other": list(numbers)}
    return pa.table(columns, SCHEMA)


def write(path: Path, *groups: list[int]) -> None:
    with pq.ParquetWriter(path, SCHEMA) as writer:
        for numbers in groups:
            writer.write_table(table(*numbers))


def test_any_range_of_rows_is_read_whatever_the_row_groups_are(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", [0, 1, 2], [3], [], [4, 5, 6, 7])
    log = ParquetLog(tmp_path, ["word", "number"])
    assert log.extents() == [("a.parquet", (0, 8))] and log.bounds("a.parquet") == (0, 8)
    assert RowGroupLog(tmp_path).bounds("a.parquet").end == pq.read_metadata(tmp_path / "a.parquet").num_row_groups
    for start in range(8):
        for end in range(start + 1, 9):
            found = records(log, "a.parquet", start, end)
            assert [one.data for one in found] == [(f"w{n}", n) for n in range(start, end)]
            assert [(one.position, one.next) for one in found] == [(n, n + 1) for n in range(start, end)]


def test_a_file_without_a_footer_is_not_there_yet(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"PAR1")
    log = ParquetLog(tmp_path, ["number"])
    assert log.partitions() == []
    with pytest.raises(FailedException, match="is not there, or has no footer yet"):
        log.bounds("a")
    write(tmp_path / "a", [1])
    assert log.partitions() == ["a"]


def test_a_column_that_is_missing_and_a_range_that_is_not_there_are_named(tmp_path: Path) -> None:
    write(tmp_path / "a", [1])
    with pytest.raises(ReportedFailedException, match="/a has no column 'colour'; it has number, word, other"):
        records(ParquetLog(tmp_path, ["colour"]), "a", 0, 1)
    with pytest.raises(ReportedFailedException, match="row 1 was expected, but the file has only 1 rows"):
        records(ParquetLog(tmp_path, ["word"]), "a", 0, 2)


@pytest.mark.parametrize(
    ("format", "line", "row"),
    [
        (Csv(["a", "b"]), b"1,two", ["1", "two"]),
        (Csv(["a", "b"], separator=";"), b'1;"t;""wo"', ["1", 't;"wo']),
        (Csv({"a": int, "b": float}), b"1,2.5", [1, 2.5]),
    ],
)
def test_a_line_of_csv_is_a_row(format: Csv, line: bytes, row: list[Any]) -> None:
    assert format.decode(line) == row


@pytest.mark.parametrize("value", ["", " a ", 'say "a, b"', "tab\t;", "\u2028", "\0", "q" * 200_000])
def test_a_value_that_is_written_as_csv_is_read_again(value: str) -> None:
    format = Csv(["a", "b"])
    assert format.decode(format.encode(make_tuple({"a": value, "b": "b"}))) == [value, "b"]


@pytest.mark.parametrize("value", ["two\nlines", "two\rlines", "two\r\nlines", "\n"])
def test_a_value_with_a_line_end_is_not_written_as_csv(value: str) -> None:
    with pytest.raises(FormatError, match="the tuple cannot be written as CSV: a value contains a line end"):
        Csv(["a", "b"]).encode(make_tuple({"a": value, "b": "b"}))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"1", "the line has 1 values; a, b were expected"),
        (b"1,x", "the value of 'b' cannot be read: could not convert string to float: 'x'"),
        (b"\xff,1", "the line is not UTF-8"),
        (b'x,"1', "a quote in the line is not closed: a value with a line end is not read"),
    ],
)
def test_a_line_that_is_not_csv_is_named(line: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        Csv({"a": str, "b": float}).decode(line)


def test_whatever_a_converter_raises_the_value_is_named() -> None:
    with pytest.raises(FormatError, match="the value of 'b' cannot be read: InvalidOperation: "):
        Csv({"a": str, "b": Decimal}).decode(b"1,x")
    with pytest.raises(FormatError, match="the value of 'b' cannot be read: KeyError: 'x'"):
        Csv({"a": str, "b": {"y": 1}.__getitem__}).decode(b"1,x")


def test_csv_of_no_fields_is_refused() -> None:
    with pytest.raises(UsageError, match="Csv: fields is 'a'; a list of different names was expected"):
        Csv("a")
    with pytest.raises(UsageError, match="Csv: separator is ''; one character other than"):
        Csv(["a"], separator="")
