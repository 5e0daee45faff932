"""Tar and zip archives of users, unpacked: nothing is ever written outside the directory, and no link is made."""

from __future__ import annotations

import os
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Final

from tupletree.errors import UsageError

MAX_ENTRIES: Final = 100_000

_TAIL_READS: Final = 64
_TAIL_BYTES: Final = 64 * 1024


@dataclass(frozen=True)
class _Member:
    """A file or a directory in an archive. ``content`` None: a directory."""

    name: str
    size: int
    content: IO[bytes] | None


def unpack_archive(path: Path, directory: Path, what: str, max_bytes: int) -> None:
    """Unpack a tar archive, compressed or not, or a zip archive, into a directory, which is created.

    Not atomic: for atomicity, unpack into a temporary directory and rename. ``what``: the archive's name in errors.

    Raises:
        UsageError: the file is no such archive, or damaged, or holds absolute names, ``..``, links, devices, a
            duplicate name, more than ``max_bytes``, or too many files.
        OSError: the files cannot be written.
    """
    directory.mkdir(parents=True)
    left = max_bytes
    try:
        for count, member in enumerate(_members(path, what), start=1):
            left -= member.size
            if left < 0 or count > MAX_ENTRIES:
                limits = f"{max_bytes} bytes or {MAX_ENTRIES} files"
                raise UsageError(f"{what} cannot be unpacked: it holds more than {limits}, the limits here")
            _extract(member, directory, what)
    except _faults() as error:
        raise UsageError(f"{what} cannot be unpacked: {error}") from None
    except OSError as error:
        if error.errno is not None:
            raise
        raise UsageError(f"{what} cannot be unpacked: {error}") from None  # of bzip2 or gzip, and not of the disk


def _faults() -> tuple[type[Exception], ...]:
    """Return the types of errors that damaged archives raise."""
    found = (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)
    try:
        from lzma import LZMAError
    except ImportError:  # a Python that was built without it opens no such archive
        return found
    return (*found, LZMAError)


def free_bytes(directory: Path) -> int:
    """Return the space that is free on the disk of an existing directory."""
    disk = os.statvfs(directory)
    return disk.f_bavail * disk.f_frsize


def _members(path: Path, what: str) -> Iterator[_Member]:
    """Yield the members of an archive; each is readable until the next is requested."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                if info.is_dir():
                    yield _Member(info.filename, 0, None)
                else:
                    with archive.open(info) as content:
                        yield _Member(info.filename, info.file_size, content)
        return
    if not tarfile.is_tarfile(path):
        raise UsageError(f"{what} cannot be unpacked: it is neither a tar nor a zip archive; remove uncompress")
    with tarfile.open(path) as tar:
        for one in tar:
            if not one.isreg() and not one.isdir():
                raise UsageError(f"{what} cannot be unpacked: {one.name!r} is neither a file nor a directory")
            yield _Member(one.name, one.size, tar.extractfile(one) if one.isreg() else None)
        _drain(tar)


def _drain(tar: tarfile.TarFile) -> None:
    """Read the padding of an archive: a compressed stream verifies its checksum at its end only."""
    assert tar.fileobj is not None, "it is open"
    for _ in range(_TAIL_READS):
        if not tar.fileobj.read(_TAIL_BYTES):
            return


def _extract(member: _Member, root: Path, what: str) -> None:
    name = PurePosixPath(member.name)
    if name.is_absolute() or ".." in name.parts or "\\" in member.name or "\0" in member.name:
        raise UsageError(f"{what} cannot be unpacked: the name {member.name!r} leads outside its directory")
    target = root.joinpath(*name.parts)
    try:
        if member.content is None:
            target.mkdir(parents=True, exist_ok=True)
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        with open(target, "xb") as file:
            shutil.copyfileobj(member.content, file)
    except (FileExistsError, IsADirectoryError, NotADirectoryError):
        raise UsageError(f"{what} cannot be unpacked: the name {member.name!r} occurs twice") from None
