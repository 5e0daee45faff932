"""Files as a source: batches are byte ranges that end at line ends, and are the same at every replay."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest
from partition_sources import Kept, attempt, context

from tupletree._wire.codec import decode_value, encode_value
from tupletree.connectors.file_ranges import BLOCK, LOOK
from tupletree.errors import FailedException, ReportedFailedException, UsageError
from tupletree.outputs import FieldsDeclarer
from tupletree.transactional.files import FilePartitionSpout


class Reader:
    """A topology's spout without the topology."""

    def __init__(self, spout: FilePartitionSpout, tasks: int = 1) -> None:
        self.coordinator = spout.coordinator({}, context("lines"))
        self.emitters = [spout.emitter({}, context("lines", task, tasks)) for task in range(1, tasks + 1)]
        self.metadata: list[Any] = []

    def begin(self) -> int:
        """Have the next batch decided on; return its txid."""
        previous = self.metadata[-1] if self.metadata else None
        txid = len(self.metadata) + 1
        self.metadata.append(decode_value(encode_value(self.coordinator.initialize_transaction(txid, previous))))
        return txid

    def emit(self, txid: int) -> list[list[str]]:
        """What each emitter emits for a batch."""
        shares = [Kept() for _ in self.emitters]
        for emitter, kept in zip(self.emitters, shares, strict=True):
            emitter.emit_batch(attempt(txid), self.metadata[txid - 1], kept)
        return [kept.numbers for kept in shares]

    def next(self) -> list[str]:
        """The next batch."""
        return [line for share in self.emit(self.begin()) for line in share]

    def rest(self) -> list[list[str]]:
        """All batches until there is none."""
        batches: list[list[str]] = []
        try:
            while True:
                batches.append(self.next())
        except ReportedFailedException:
            raise
        except FailedException:
            return batches


def write(directory: Path, **files: str) -> None:
    for name, text in files.items():
        (directory / name).write_bytes(text.encode())


def test_batches_end_at_the_last_line_end_within_the_size(tmp_path: Path) -> None:
    write(tmp_path, a="one\ntwo\nthree\nfour\n")
    assert Reader(FilePartitionSpout(tmp_path, 9)).rest() == [["one", "two"], ["three"], ["four"]]


def test_a_batch_takes_of_every_file_and_files_that_are_added_join(tmp_path: Path) -> None:
    write(tmp_path, b="b1\nb2\n", a="a1\na2\n")
    reader = Reader(FilePartitionSpout(tmp_path, 3))
    assert reader.next() == ["a1", "b1"]
    write(tmp_path, aa="c1\n")
    assert reader.rest() == [["a2", "c1", "b2"]]


def test_a_line_longer_than_a_batch_is_a_batch(tmp_path: Path) -> None:
    long = "x" * (3 * BLOCK)
    write(tmp_path, a=f"one\n{long}\ntwo\n{long}\n")
    assert Reader(FilePartitionSpout(tmp_path, 5)).rest() == [["one"], [long], ["two"], [long]]


def test_a_line_waits_for_its_end(tmp_path: Path) -> None:
    write(tmp_path, a="one\ntw")
    reader = Reader(FilePartitionSpout(tmp_path))
    assert reader.rest() == [["one"]]
    write(tmp_path, a="one\ntwo")
    assert reader.rest() == []
    write(tmp_path, a="one\ntwo\nthree\nfo")
    assert reader.rest() == [["two", "three"]]


def test_a_last_line_without_an_end_is_a_line_if_the_files_are_complete(tmp_path: Path) -> None:
    write(tmp_path, a="one\ntwo", b="", c="three\n", d="no end")
    for size in (2, 3, 5, 1000):
        batches = Reader(FilePartitionSpout(tmp_path, size, are_complete=True)).rest()
        assert sorted(line for batch in batches for line in batch) == ["no end", "one", "three", "two"]


def test_lines_may_be_empty_or_end_with_two_characters(tmp_path: Path) -> None:
    write(tmp_path, a="\n\r\none\r\n\r two\n")
    assert Reader(FilePartitionSpout(tmp_path)).next() == ["", "", "one", "\r two"]


def test_the_end_of_a_huge_line_is_looked_for_a_bit_at_a_time_and_only_once(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write(tmp_path, a="one\n")
    os.truncate(path, 4 * LOOK)  # zeros without a line end
    reader = Reader(FilePartitionSpout(tmp_path, 100))
    assert reader.next() == ["one"]
    looked = []
    for _ in range(6):
        with pytest.raises(FailedException):
            reader.begin()
        looked.append(reader.coordinator._source._ends.looked["a"][1])  # type: ignore[attr-defined]
    assert looked == [*(104 + LOOK * part for part in range(1, 4)), *[4 * LOOK] * 3]
    with path.open("ab") as file:
        file.write(b"!\ntwo\n")
    assert reader.metadata[reader.begin() - 1]["ranges"] == [["a", 4, 4 * LOOK + 2]]
    assert reader.rest() == [["two"]]


def test_a_replay_is_the_same_batch_though_the_file_has_grown(tmp_path: Path) -> None:
    write(tmp_path, a="one\ntwo\n")
    reader = Reader(FilePartitionSpout(tmp_path))
    first = reader.emit(reader.begin())
    write(tmp_path, a="one\ntwo\nthree\n", aa="four\n")
    assert reader.emit(1) == first == [["one", "two"]]
    assert reader.next() == ["three", "four"]


def test_a_restart_goes_on_where_it_stopped(tmp_path: Path) -> None:
    write(tmp_path, a="one\ntwo\nthree\n")
    before, after = (Reader(FilePartitionSpout(tmp_path, 4)) for _ in range(2))
    assert before.next() == ["one"]
    after.metadata = before.metadata
    assert after.rest() == [["two"], ["three"]]


def test_emitters_share_the_files_and_take_turns_at_a_single_one(tmp_path: Path) -> None:
    write(tmp_path, a="1\n2\n3\n4\n")
    reader = Reader(FilePartitionSpout(tmp_path, 2), tasks=3)
    assert [reader.emit(reader.begin()) for _ in range(4)] == [
        [[], ["1"], []],
        [[], [], ["2"]],
        [["3"], [], []],
        [[], ["4"], []],
    ]
    write(tmp_path, **{f"b{number}": "x\n" for number in range(6)})
    assert reader.emit(reader.begin()) == [["x", "x"]] * 3


def test_hidden_files_and_folders_are_not_read(tmp_path: Path) -> None:
    write(tmp_path, a="one\n", **{".hidden": "no\n"})
    (tmp_path / "folder").mkdir()
    write(tmp_path / "folder", b="two\n")
    assert Reader(FilePartitionSpout(tmp_path)).rest() == [["one"]]
    assert Reader(FilePartitionSpout(tmp_path / "**" / "*")).rest() == [["one", "two"]]
    assert Reader(FilePartitionSpout(tmp_path / "*" / "b")).rest() == [["two"]]
    assert Reader(FilePartitionSpout(tmp_path / "none*")).rest() == []


def test_what_is_there_by_that_very_name_is_no_pattern(tmp_path: Path) -> None:
    (tmp_path / "run[1]").mkdir()
    write(tmp_path / "run[1]", **{"a?": "one\n", "ab": "two\n"})
    assert Reader(FilePartitionSpout(tmp_path / "run[1]")).rest() == [["one", "two"]]
    assert Reader(FilePartitionSpout(tmp_path / "run[1]" / "a?")).rest() == [["one"]]
    assert Reader(FilePartitionSpout(tmp_path / "run[1]" / "*b")).rest() == [["two"]]


def test_a_relative_path_means_the_same_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, a="one\n")
    monkeypatch.chdir(tmp_path)
    spout = FilePartitionSpout(".")
    monkeypatch.chdir("/")
    assert Reader(spout).next() == ["one"]


def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        ReportedFailedException, match=f"component 'lines': {tmp_path}/none cannot be read: No such file"
    ):
        Reader(FilePartitionSpout(tmp_path / "none")).begin()


def test_a_file_that_shrank_is_named_until_it_is_back(tmp_path: Path) -> None:
    write(tmp_path, a="one\ntwo\n")
    reader = Reader(FilePartitionSpout(tmp_path))
    reader.begin()
    write(tmp_path, a="one\n")
    with pytest.raises(ReportedFailedException) as caught:
        reader.begin()
    assert str(caught.value) == (
        f"component 'lines', file {tmp_path}/a: 8 bytes were already read, but the file has only 4: a file may grow, "
        f"but never shrink"
    )
    with pytest.raises(ReportedFailedException) as caught:
        reader.emit(1)
    assert str(caught.value) == (
        f"component 'lines', file {tmp_path}/a: transaction 1 reads up to byte 8, but none follows byte 4: "
        f"a file may grow, but never shrink"
    )
    write(tmp_path, a="one\ntwo\nthree\n")
    assert (reader.emit(1), reader.next()) == ([["one", "two"]], ["three"])


def test_a_file_that_vanished_is_an_error_for_a_replay_and_no_news_for_others(tmp_path: Path) -> None:
    write(tmp_path, a="one\n")
    reader = Reader(FilePartitionSpout(tmp_path))
    reader.begin()
    (tmp_path / "a").unlink()
    with pytest.raises(ReportedFailedException, match=f"{tmp_path}/a: transaction 1 cannot read it: No such file"):
        reader.emit(1)
    assert reader.rest() == []
    write(tmp_path, a="one\ntwo\n")
    assert reader.rest() == [["two"]]


def test_a_file_that_was_written_over_is_found_out_where_its_lines_end_elsewhere(tmp_path: Path) -> None:
    write(tmp_path, a="one\ntwo\n")
    reader = Reader(FilePartitionSpout(tmp_path))
    reader.begin()
    write(tmp_path, a="something else\n")
    with pytest.raises(
        ReportedFailedException, match="no line ends before byte 8 any more: a file may grow, but never"
    ):
        reader.emit(1)


def test_bytes_that_are_no_characters_are_named_with_their_place(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"one\nz\xfcrich\n")
    reader = Reader(FilePartitionSpout(tmp_path))
    reader.begin()
    with pytest.raises(ReportedFailedException, match=f"file {tmp_path}/a: the line at byte 4 is not utf-8: invalid"):
        reader.emit(1)
    assert Reader(FilePartitionSpout(tmp_path, encoding="latin-1")).next() == ["one", "zürich"]
    assert Reader(FilePartitionSpout(tmp_path, errors="replace")).next() == ["one", "z�rich"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_bytes_per_batch": 0}, "max_bytes_per_batch is 0; a number of bytes was expected"),
        ({"fields": "line"}, "fields is 'line'; a list with one name other than 'attempt' was expected"),
        ({"fields": ["a", "b"]}, r"fields is \['a', 'b'\]; a list"),
        ({"fields": ["attempt"]}, r"fields is \['attempt'\]; a list"),
        ({"encoding": "utf-16"}, "a line does not end with the byte 10 in the encoding 'utf-16'"),
        ({"encoding": "cp037"}, "a line does not end with the byte 10 in the encoding 'cp037'"),
        ({"encoding": "klingon"}, "unknown encoding: klingon"),
        ({"errors": "shrug"}, "unknown error handler name 'shrug'"),
    ],
)
def test_a_mistake_in_the_arguments_is_named(arguments: Any, message: str) -> None:
    with pytest.raises(UsageError, match=f"FilePartitionSpout: {message}"):
        FilePartitionSpout("/data", **arguments)


def test_what_is_no_path_is_named() -> None:
    with pytest.raises(
        UsageError, match="FilePartitionSpout: files is 7; a file, a directory or a pattern was expected"
    ):
        FilePartitionSpout(7)  # type: ignore[arg-type]


def test_the_first_field_is_the_attempt() -> None:
    declarer = FieldsDeclarer("lines")
    FilePartitionSpout("/data").declare_output_fields(declarer)
    assert declarer.streams["default"].fields == ("attempt", "line")


@pytest.mark.parametrize("seed", range(20))
def test_whatever_is_appended_when_every_line_is_emitted_once(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    reader = Reader(FilePartitionSpout(tmp_path, chance.randint(1, 40)), tasks=chance.randint(1, 3))
    lines: list[str] = []
    written = {f"f{number}": b"" for number in range(3)}
    for _ in range(80):
        name = chance.choice(list(written))
        written[name] += bytes(chance.choices(b"abc\n", weights=[9, 9, 9, 3], k=chance.randint(0, 50)))
        (tmp_path / name).write_bytes(written[name])
        if chance.random() < 0.5:
            lines += [line for batch in reader.rest() for line in batch]
        assert all(read <= len(written[name]) for name, read in (reader.metadata or [{"read": {}}])[-1]["read"].items())
    lines += [line for batch in reader.rest() for line in batch]
    complete = [line for text in written.values() for line in text.decode().split("\n")[:-1]]
    assert sorted(lines) == sorted(complete)


def test_a_name_that_cannot_be_written_down_is_told(tmp_path: Path) -> None:
    write(tmp_path, a="one\n")
    (tmp_path / os.fsdecode(b"b\xff")).write_bytes(b"two\n")
    with pytest.raises(
        ReportedFailedException, match=r"component 'lines': 'b\\udcff' cannot be read: its name is not U"
    ):
        Reader(FilePartitionSpout(tmp_path)).begin()
