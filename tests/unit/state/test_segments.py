"""A segment gives back what was written, finds what is asked for, and admits that it is damaged."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tupletree.errors import UsageError
from tupletree.state.rocksdb.segment_files import SegmentFile, SegmentFiles, write_segment
from tupletree.state.rocksdb.segments import DELETED, HEAD, Entry, encode_segment, merged, without_deletions

KEYS = st.binary(min_size=1, max_size=3)
VALUES = st.one_of(st.just(DELETED), st.binary(max_size=9))
CONTENTS = st.dictionaries(KEYS, VALUES, max_size=40)


def written(path: Path, content: Mapping[bytes, bytes], block_bytes: int = 16) -> tuple[str, int]:
    """A segment with small blocks, and its size."""
    data = b"".join(encode_segment(sorted(content.items()), block_bytes))
    path.write_bytes(data)
    return str(path), len(data)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("segments")


@given(content=CONTENTS, block_bytes=st.integers(1, 64), after=st.binary(max_size=3), others=st.lists(KEYS, max_size=9))
def test_a_segment_has_the_entries_that_were_written(
    folder: Path, content: dict[bytes, bytes], block_bytes: int, after: bytes, others: list[bytes]
) -> None:
    file = SegmentFile(*written(folder / "one", content, block_bytes))
    assert list(file.entries()) == sorted(content.items())
    assert list(file.entries(after)) == [entry for entry in sorted(content.items()) if entry[0] > after]
    assert [file.get(key) for key in [*content, *others]] == [content.get(key) for key in [*content, *others]]
    file.close()


@given(contents=st.lists(CONTENTS, max_size=5), after=st.binary(max_size=3))
def test_segments_are_read_as_dictionaries_that_are_updated_in_turn(
    folder: Path, contents: list[dict[bytes, bytes]], after: bytes
) -> None:
    expected: dict[bytes, bytes] = {}
    for content in contents:
        expected.update(content)
    paths = [written(folder / str(number), content) for number, content in enumerate(contents)]
    with SegmentFiles(paths) as files:
        assert list(files.entries(deletions=True)) == sorted(expected.items())
        there = {key: value for key, value in expected.items() if value != DELETED}
        assert list(files.entries(after)) == [entry for entry in sorted(there.items()) if entry[0] > after]
        assert [files.get(key) for key in expected] == [there.get(key) for key in expected]
        assert files.get(b"long key") is None
        assert dict(files.in_turn()) == expected


def test_a_merge_of_a_part_keeps_its_deletions() -> None:
    old: list[Entry] = [(b"a", b"1"), (b"b", b"1")]
    new: list[Entry] = [(b"b", DELETED), (b"c", b"2")]
    assert list(merged([old, new])) == [(b"a", b"1"), (b"b", DELETED), (b"c", b"2")]
    assert list(without_deletions(merged([old, new]))) == [(b"a", b"1"), (b"c", b"2")]
    assert list(merged([])) == []


@pytest.mark.parametrize("change", [1, 128, 255])
def test_no_byte_of_a_segment_can_change_unnoticed(tmp_path: Path, change: int) -> None:
    path, size = written(tmp_path / "damaged", {b"key %d" % number: b"value" * number for number in range(20)})
    whole = Path(path).read_bytes()
    for at in range(size):
        Path(path).write_bytes(whole[:at] + bytes([whole[at] ^ change]) + whole[at + 1 :])
        with pytest.raises(UsageError, match=r"damaged is damaged, since .* the checksum|damaged has format \d+, and"):
            list(SegmentFile(path, size).entries())


def test_a_segment_that_was_cut_or_has_another_format_is_refused(tmp_path: Path) -> None:
    path, size = written(tmp_path / "segment", {b"a": b"1"})
    whole = Path(path).read_bytes()
    Path(path).write_bytes(whole[:-1])
    with pytest.raises(UsageError, match=r"segment is damaged, since .*: restore the directory of the state from a b"):
        SegmentFile(path, size)
    Path(path).write_bytes(b"")
    with pytest.raises(UsageError, match=r"is damaged"):
        SegmentFile(path, 0)
    Path(path).write_bytes(HEAD[:-1] + b"\2" + whole[len(HEAD) :])
    with pytest.raises(UsageError, match=r"segment has format 2, and .* formats up to 1: a newer version has written"):
        SegmentFile(path, size)


def test_a_segment_is_written_once(tmp_path: Path) -> None:
    size = write_segment(str(tmp_path / "segment"), [(b"a", b"1")])
    file = SegmentFile(str(tmp_path / "segment"), size)
    assert list(file.entries()) == [(b"a", b"1")]
    file.close()
    with pytest.raises(FileExistsError):
        write_segment(str(tmp_path / "segment"), [(b"a", b"2")])
