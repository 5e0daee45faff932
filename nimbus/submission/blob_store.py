"""Bundles and files for workers on this nimbus's disk, named by their digest.

    <directory>/<sha256>                 complete, verified, synced
    <directory>/incoming/<sha256>.<n>    being written; removed when nimbus starts

A blob appears by rename, after its size and digest were verified and its bytes were synced to disk. A file named by a
digest is therefore always complete. An upload that ends in any other way leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from tupletree.errors import NotFoundError, UnavailableError, UsageError

_SHA256 = re.compile(r"[0-9a-f]{64}")
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class BlobStore:
    """Blobs of one nimbus. Methods block on the disk and can be called from any thread."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self._directory = Path(directory)
        self._incoming = self._directory / "incoming"

    def open(self) -> None:
        """Create the directories, and remove partial uploads of an earlier process. Raises UsageError."""
        try:
            self._incoming.mkdir(parents=True, exist_ok=True)
            for left in self._incoming.iterdir():
                left.unlink()
        except OSError as error:
            raise UsageError(f"cannot use {self._directory} as blob store: {error.strerror}") from error

    def digests(self) -> set[str]:
        """Return the digests of the blobs stored here."""
        return {entry.name for entry in self._directory.iterdir() if _SHA256.fullmatch(entry.name)}

    def has(self, sha256: str, size: int) -> bool:
        """True if the complete blob is stored here."""
        try:
            return self._path(sha256).stat().st_size == size
        except FileNotFoundError:
            return False

    def receive(self, sha256: str, size: int, what: str = "the bundle") -> Incoming:
        """Begin to store a blob of ``size`` bytes. Raises UnavailableError at once if the disk lacks space.

        ``what``: the blob's name in error messages.
        """
        disk = os.statvfs(self._incoming)
        free = disk.f_bavail * disk.f_frsize
        if size > free:
            lack = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            raise UnavailableError(
                f"nimbus's disk is full: {what} of {size} bytes needs more than the {free} bytes that are free"
            ) from lack
        return Incoming(self._incoming / f"{sha256}.{uuid.uuid4().hex[:8]}", self._path(sha256), sha256, size, what)

    def read(self, sha256: str, offset: int, chunk_bytes: int) -> Iterator[bytes]:
        """Read a blob from ``offset``, in chunks. Raises NotFoundError, and UsageError for an offset beyond its end."""
        path = self._path(sha256)
        try:
            file = open(path, "rb")  # noqa: SIM115 - the generator closes it
        except FileNotFoundError:
            raise NotFoundError(f"this nimbus has no bundle {sha256}") from None
        size = os.fstat(file.fileno()).st_size
        if offset > size:
            file.close()
            raise UsageError(f"bundle {sha256} has {size} bytes; offset {offset} is beyond its end")
        return _chunks(file, offset, chunk_bytes)

    def path(self, sha256: str) -> Path:
        """Return the path of a blob, stored or not."""
        return self._path(sha256)

    def remove(self, sha256: str) -> None:
        self._path(sha256).unlink(missing_ok=True)

    def _path(self, sha256: str) -> Path:
        if not _SHA256.fullmatch(sha256):
            raise UsageError(f"a bundle's digest is 64 hexadecimal digits, not {sha256!r}")
        return self._directory / sha256


class Incoming:
    """Blob being written. Use as a context manager: without ``publish``, leaving the block removes the partial file."""

    def __init__(self, partial: Path, target: Path, sha256: str, size: int, what: str) -> None:
        self._partial = partial
        self._target = target
        self._sha256 = sha256
        self._size = size
        self._what = what
        self._digest = hashlib.sha256()
        self._written = 0
        self._file: BinaryIO | None = None

    @property
    def written(self) -> int:
        return self._written

    def write(self, chunk: bytes) -> None:
        """Append a chunk. Raises UsageError beyond the announced size, UnavailableError if the disk is full."""
        if self._written + len(chunk) > self._size:
            raise UsageError(f"the upload is corrupt: more than the announced {self._size} bytes arrived")
        try:
            if self._file is None:
                self._file = open(self._partial, "xb")  # noqa: SIM115 - closed by __exit__
            self._file.write(chunk)
        except OSError as error:
            raise _disk_error(error, self._what) from error
        self._digest.update(chunk)
        self._written += len(chunk)

    def verify(self) -> Path:
        """Verify size and digest, and return the temporary path of the complete blob.

        Raises UsageError if the blob is not as announced, UnavailableError if the disk is full.
        """
        if self._written != self._size or self._file is None:
            raise UsageError(f"the upload is corrupt: {self._written} of {self._size} bytes arrived")
        found = self._digest.hexdigest()
        if found != self._sha256:
            raise UsageError(f"the upload is corrupt: its sha256 is {found}, but {self._sha256} was announced")
        try:
            self._file.flush()
        except OSError as error:
            raise _disk_error(error, self._what) from error
        return self._partial

    def publish(self) -> None:
        """Sync a verified blob and rename it to its digest. Raises UnavailableError if the disk is full."""
        assert self._file is not None, "verified before"
        try:
            os.fsync(self._file.fileno())
            self._file.close()
            os.replace(self._partial, self._target)
            _sync_directory(self._target.parent)
        except OSError as error:
            raise _disk_error(error, self._what) from error

    def __enter__(self) -> Incoming:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.discard()

    def discard(self) -> None:
        """Remove the partial file, unless it was published. Idempotent."""
        if self._file is not None:
            with contextlib.suppress(OSError):  # unflushed bytes are discarded with the file
                self._file.close()
        self._partial.unlink(missing_ok=True)


def _chunks(file: BinaryIO, offset: int, chunk_bytes: int) -> Iterator[bytes]:
    with file:
        file.seek(offset)
        while chunk := file.read(chunk_bytes):
            yield chunk


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _disk_error(error: OSError, what: str) -> UnavailableError:
    if error.errno in _NO_ROOM:
        return UnavailableError(f"nimbus's disk is full: {what} could not be stored")
    return UnavailableError(f"nimbus could not store {what}: {error.strerror}")
