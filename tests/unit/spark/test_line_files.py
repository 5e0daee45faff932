"""Lines read from byte ranges, which may be cut anywhere."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from file_topology import context, rows
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tupletree.connectors import file_blocks
from tupletree.errors import ReportedFailedException, UsageError
from tupletree.spark.sources.csv_lines import CsvFiles
from tupletree.spark.sources.json_lines import JsonLines
from tupletree.spark.sources.pieces import cut
from tupletree.spark.sources.text import TextFiles

CHARACTERS = st.sampled_from(["a", "b", "ü", "\r", "\n", "\r\n", "\0", "€"])


def read(directory: Path, data: bytes, **arguments: Any) -> list[str]:
    """All of a file with these bytes, as one split."""
    path = directory / "file"
    path.write_bytes(data)
    return rows(TextFiles(path, **arguments), [[str(path), 0, len(data)]])


def expected(data: bytes) -> list[str]:
    text = data.decode().removesuffix("\n")
    return [line.removesuffix("\r") for line in text.split("\n")] if data else []


def test_line_ends_are_of_one_or_two_characters(tmp_path: Path) -> None:
    data = b"\n\r\none\r\n\r two\r\r\n\0\nthree\n\n"
    assert read(tmp_path, data) == ["", "", "one", "\r two\r", "\0", "three", ""]


def test_a_last_line_may_lack_its_end_only_if_the_file_is_complete(tmp_path: Path) -> None:
    assert read(tmp_path, b"one\ntwo", are_complete=True) == ["one", "two"]
    assert read(tmp_path, b"one\ntwo\r", are_complete=True) == ["one", "two"]
    with pytest.raises(ReportedFailedException, match=f"file {tmp_path}/file: no line ends before byte 7 any more"):
        read(tmp_path, b"one\ntwo")


@given(
    texts=st.lists(st.lists(CHARACTERS, max_size=30).map("".join), min_size=1, max_size=4),
    is_complete=st.booleans(),
    tasks=st.integers(1, 9),
    least=st.integers(1, 9),
    block=st.integers(1, 9),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_wherever_ranges_are_cut_every_line_is_read_once(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    texts: list[str],
    is_complete: bool,
    tasks: int,
    least: int,
    block: int,
) -> None:
    monkeypatch.setattr(file_blocks, "BLOCK_BYTES", block)
    ranges, truth = [], []
    for number, text in enumerate(texts):
        data = text.encode() if is_complete else text.encode() + b"\n"
        path = tmp_path / str(number)
        path.write_bytes(b"head\n" + data)
        ranges.append([str(path), 5, 5 + len(data)])
        truth += expected(data)
    divided = cut(ranges, tasks, least)
    assert len(divided) <= tasks
    assert rows(TextFiles(tmp_path, are_complete=is_complete), divided) == truth


def test_a_batch_is_divided_into_equal_shares_and_none_is_too_small_for_a_task() -> None:
    source = TextFiles("/data")
    assert source.divide([["/a", 0, 4_000_000], ["/b", 500, 2_000_500]], 3) == [
        [["/a", 0, 2_000_000, 0, 4_000_000]],
        [["/a", 2_000_000, 4_000_000, 0, 4_000_000]],
        [["/b", 500, 2_000_500, 500, 2_000_500]],
    ]
    assert source.divide([["/a", 0, 500_000], ["/b", 0, 10]], 8) == [
        [["/a", 0, 500_000, 0, 500_000], ["/b", 0, 10, 0, 10]]
    ]
    assert source.divide([], 8) == []


def test_large_ranges_come_in_record_batches_of_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_blocks, "BLOCK_BYTES", 10)
    path = tmp_path / "file"
    path.write_bytes(b"one\ntwo\nthree\na line of more than ten bytes\nfour\n")
    batches = list(TextFiles(path).read([str(path), 0, path.stat().st_size]))
    assert [batch.column("value").to_pylist() for batch in batches] == [
        ["one", "two"],
        ["three"],
        ["a line of more than ten bytes", "four"],
    ]


@pytest.mark.parametrize("tasks", [1, 2, 7])
def test_the_header_of_each_file_is_no_row(tmp_path: Path, tasks: int) -> None:
    splits = []
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(b"number,word\n1,x\n2,y\n")
        splits += [[str(tmp_path / name), 0, 16], [str(tmp_path / name), 16, 20]]
    source = CsvFiles(tmp_path, "number INT, word STRING", header=True)
    assert rows(source, cut(splits, tasks, 1)) == ["1,x", "2,y", "1,x", "2,y"]
    assert rows(CsvFiles(tmp_path, "number INT"), splits[:1]) == ["number,word", "1,x"]


def test_bytes_that_are_no_characters_are_named_with_their_place(tmp_path: Path) -> None:
    data = b"one\r\nz\xfcrich\n"
    with pytest.raises(
        ValueError, match=f"file {tmp_path}/file: byte 6, in the line that begins at byte 5, is not utf"
    ):
        read(tmp_path, data)
    with pytest.raises(ValueError, match="byte 6, in the line that begins at byte 5, is not ascii"):
        read(tmp_path, data, encoding="ascii")
    assert read(tmp_path, data, errors="replace") == ["one", "z\ufffdrich"]
    assert read(tmp_path, data, errors="surrogateescape") == ["one", "z?rich"]
    assert read(tmp_path, data, encoding="latin-1") == ["one", "zürich"]


def test_a_file_that_shrank_or_vanished_is_named(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"one\ntwo\n")
    source = TextFiles(path)
    with pytest.raises(
        ReportedFailedException, match=f"file {path}: a reader reads up to byte 12, but none follows byte 8"
    ):
        rows(source, [[str(path), 4, 12]])
    with pytest.raises(
        ReportedFailedException, match=f"file {path}: a reader reads up to byte 12, but none follows byte 8"
    ):
        rows(source, cut([[str(path), 4, 12]], 3, 1))
    path.unlink()
    with pytest.raises(ReportedFailedException, match=f"file {path}: a reader cannot read it: No such file"):
        rows(source, [[str(path), 4, 8]])


def test_a_relative_path_is_one_of_where_the_source_was_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    source = TextFiles("logs/*.txt")
    monkeypatch.chdir("/")
    assert pickle.loads(pickle.dumps(source)).files == f"{tmp_path}/logs/*.txt"
    assert (
        pickle.loads(pickle.dumps(source.spout())).emitter({}, context()).log.source.path("a") == f"{tmp_path}/logs/a"
    )


@pytest.mark.parametrize(
    ("size", "number"), [(1, 1), ("77", 77), ("5B", 5), ("512KB", 512 << 10), ("4MB", 4 << 20), ("1 gb", 1 << 30)]
)
def test_sizes_have_units(size: int | str, number: int) -> None:
    assert TextFiles("/data", size).max_bytes_per_batch == number


@pytest.mark.parametrize("size", [0, -1, "0MB", "4TB", "MB", "4.5MB", 4.5, True, None, ""])
def test_what_is_no_size_is_named(size: Any) -> None:
    message = "TextFiles: max_bytes_per_batch is .*; a number of bytes was expected, such as 4096, '512KB' or '4MB'"
    with pytest.raises(UsageError, match=message):
        TextFiles("/data", size)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"files": 7}, "files is 7; a file, a directory or a pattern was expected"),
        ({"files": ""}, "files is ''; a file"),
        ({"schema": ""}, "schema is ''; columns in Spark's DDL were expected, such as 'value STRING'"),
        ({"schema": ["a"]}, r"schema is \['a'\]; columns"),
        ({"mode": "permissive"}, "mode is 'permissive'; one of PERMISSIVE, FAILFAST, DROPMALFORMED was expected"),
        ({"encoding": "utf-16"}, "a line does not end with the byte 10 in the encoding 'utf-16'"),
        ({"errors": "shrug"}, "unknown error handler name 'shrug'"),
        ({"options": "x"}, "options is 'x'; a dict of Spark's options was expected"),
        ({"options": {"Mode": "x"}}, "'Mode' cannot be in options: use the argument 'mode'"),
        ({"options": {"multiLine": True}}, "'multiLine' cannot be in options: a row is one line"),
    ],
)
def test_a_mistake_in_the_arguments_is_named(arguments: dict[str, Any], message: str) -> None:
    valid = {"files": "/data", "schema": "a INT"}
    for kind in (JsonLines, CsvFiles):
        with pytest.raises(UsageError, match=f"{kind.__name__}: {message}"):
            kind(**(valid | arguments))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"header": "yes"}, "header is 'yes'; True or False was expected"),
        ({"separator": ""}, "separator is ''; one or more characters were expected"),
        ({"options": {"sep": ";"}}, "'sep' cannot be in options: use the argument 'separator'"),
    ],
)
def test_a_mistake_in_the_arguments_of_csv_files_is_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=f"CsvFiles: {message}"):
        CsvFiles("/data", "a INT", **arguments)
