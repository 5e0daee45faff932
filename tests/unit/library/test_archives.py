"""Archives of users: unpacked as they are, or refused in a sentence, and never written outside their directory."""

from __future__ import annotations

import io
import random
import shutil
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tupletree._archives import unpack_archive
from tupletree.errors import UsageError

MIB = 1024 * 1024


def tar_of(path: Path, *members: tuple[str, bytes], mode: str = "w:gz", kind: bytes = tarfile.REGTYPE) -> Path:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size, info.type = (len(data), kind) if kind == tarfile.REGTYPE else (0, kind)
            archive.addfile(info, io.BytesIO(data))
    return path


def zip_of(path: Path, *members: tuple[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return path


def plain_tar(path: Path, *members: tuple[str, bytes]) -> Path:
    return tar_of(path, *members, mode="w")


@pytest.mark.parametrize("pack", [tar_of, zip_of, plain_tar])
def test_an_archive_is_unpacked(pack: Callable[..., Path], tmp_path: Path) -> None:
    path = pack(tmp_path / "a", ("one.txt", b"1"), ("deep/er/two.bin", b"2" * 100_000))
    unpack_archive(path, tmp_path / "out", "blob 'a'", MIB)
    assert (tmp_path / "out" / "one.txt").read_bytes() == b"1"
    assert (tmp_path / "out" / "deep" / "er" / "two.bin").read_bytes() == b"2" * 100_000


@pytest.mark.parametrize("pack", [tar_of, zip_of])
@pytest.mark.parametrize(
    ("members", "fault"),
    [
        ([("../out.txt", b"")], r"the name '\.\./out\.txt' leads outside its directory"),
        ([("/etc/passwd", b"")], r"leads outside its directory"),
        ([("a/../../b", b"")], r"leads outside its directory"),
        ([("a", b"1"), ("a", b"2")], r"the name 'a' occurs twice"),
        ([("a", b"1"), ("a/b", b"2")], r"the name 'a/b' occurs twice"),
        ([("big", b"\0" * (MIB + 1))], r"it holds more than 1048576 bytes or 100000 files"),
    ],
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_bad_archive_is_refused(
    pack: Callable[..., Path], members: list[tuple[str, bytes]], fault: str, tmp_path: Path
) -> None:
    path = pack(tmp_path / "a", *members)
    with pytest.raises(UsageError, match=rf"^blob 'a' cannot be unpacked: .*{fault}"):
        unpack_archive(path, tmp_path / "x" / "out", "blob 'a'", MIB)
    assert {one.name for one in tmp_path.iterdir()} == {"a", "x"}
    assert [one.name for one in (tmp_path / "x").iterdir()] == ["out"]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_links_and_pipes_are_refused(kind: bytes, tmp_path: Path) -> None:
    path = tar_of(tmp_path / "a", ("link", b""), kind=kind)
    with pytest.raises(UsageError, match=r"'link' is neither a file nor a directory"):
        unpack_archive(path, tmp_path / "out", "blob 'a'", MIB)


@pytest.mark.parametrize("pack", [tar_of, zip_of])
def test_an_archive_that_is_cut_off_is_refused_in_one_sentence(pack: Callable[..., Path], tmp_path: Path) -> None:
    path = pack(tmp_path / "a", ("one.txt", bytes(range(256)) * 10))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(UsageError, match=r"^blob 'a' cannot be unpacked: "):
        unpack_archive(path, tmp_path / "out", "blob 'a'", MIB)


@pytest.mark.parametrize("mode", ["w:gz", "w:bz2", "w:xz", "zip-deflated", "zip-bz2", "zip-lzma"])
def test_an_archive_that_is_damaged_anywhere_is_refused_in_one_sentence(mode: str, tmp_path: Path) -> None:
    data = random.Random(1).randbytes(600_000).hex().encode()  # more than one block of bzip2
    kinds = {"zip-deflated": zipfile.ZIP_DEFLATED, "zip-bz2": zipfile.ZIP_BZIP2, "zip-lzma": zipfile.ZIP_LZMA}
    if mode in kinds:
        with zipfile.ZipFile(tmp_path / "a", "w", kinds[mode]) as archive:
            archive.writestr("model", data)
    else:
        tar_of(tmp_path / "a", ("model", data), mode=mode)
    good = (tmp_path / "a").read_bytes()
    for at in (200, len(good) // 3, len(good) // 2, len(good) - 300):
        (tmp_path / "a").write_bytes(good[:at] + bytes(one ^ 0x5A for one in good[at : at + 50]) + good[at + 50 :])
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        with pytest.raises(UsageError, match=r"^blob 'a' cannot be unpacked: [^\n]*[^\n ]$"):
            unpack_archive(tmp_path / "a", tmp_path / "out", "blob 'a'", 2 * MIB)


def test_an_error_of_the_disk_is_not_one_of_the_archive(tmp_path: Path) -> None:
    path = tar_of(tmp_path / "a", ("n" * 300, b"1"))
    with pytest.raises(OSError, match="File name too long"):
        unpack_archive(path, tmp_path / "out", "blob 'a'", MIB)
