"""The shared store in a directory that all machines have mounted.

Creating the name of a file is atomic by a hard link, which fails if the name is taken, and shows the whole file or
nothing. A state that is removed and made again counts from 1, in another directory of the same name. So a writer makes
the next manifest only in a directory that has its last one.
"""

from __future__ import annotations

import errno
import os
import shutil
import uuid
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from tupletree._sinks.durable_files import make_directory, sync
from tupletree.errors import UnavailableError
from tupletree.state.names import readable_name
from tupletree.state.rocksdb.segment_files import LocalFile, write_segment
from tupletree.state.rocksdb.segments import Entry

_NO_LINKS: Final = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)


class DirectoryStore:
    """The directories of states below ``address``."""

    def __init__(self, address: str) -> None:
        self.address = address

    def folder(self, namespace: str) -> DirectoryFolder:
        return DirectoryFolder(self.address, namespace)

    def gone(self, folders: Iterable[str]) -> list[str]:
        if not os.path.isdir(self.address):
            return []
        return [name for name in folders if not os.path.exists(os.path.join(self.address, name))]


class DirectoryFolder:
    """The directory of one state."""

    def __init__(self, shared: str, namespace: str) -> None:
        self._shared = shared
        self.path = os.path.join(shared, readable_name(namespace))

    def check_store(self) -> None:
        if not os.path.isdir(self._shared):
            raise UnavailableError(
                f"the directory {self._shared} of 'shared' does not exist on this machine: mount it, or create it"
            )

    def make(self) -> None:
        self.check_store()
        make_directory(self.path)

    def names(self) -> list[str]:
        try:
            return os.listdir(self.path)
        except FileNotFoundError:
            self.check_store()
            return []

    def read(self, name: str) -> bytes:
        with open(os.path.join(self.path, name), "rb") as file:
            return file.read()

    def create(
        self, name: str, data: bytes, temporary: str, before: tuple[str, bytes] | None = None
    ) -> list[str] | None:
        directory = os.open(self.path, os.O_RDONLY)  # stays the same one if the path is removed and made again
        try:
            if before is not None and not _has(directory, *before):
                return None  # a writer that paused has the directory of a later state before it
            with suppress(FileNotFoundError):  # one that could not be removed may be the file, by a second name
                os.remove(temporary, dir_fd=directory)
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666, dir_fd=directory)
            with open(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.fsync(directory)  # the files that it names are there before it is
            try:
                os.link(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
            except FileExistsError:
                return None
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                raise UnavailableError(
                    f"{self.path}: its file system has no hard links, with which manifests are written: choose another "
                    f"directory as 'shared'"
                ) from error
            finally:
                os.remove(temporary, dir_fd=directory)
            os.fsync(directory)
            return os.listdir(directory)
        finally:
            os.close(directory)

    def write(self, name: str, entries: Iterable[Entry]) -> int:
        path = os.path.join(self.path, name)
        try:
            return write_segment(path, entries)
        except BaseException:
            with suppress(OSError):
                os.remove(path)
            raise

    def open(self, name: str, size: int) -> LocalFile:
        return LocalFile(os.path.join(self.path, name), size)

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            with suppress(OSError):
                os.remove(os.path.join(self.path, name))

    def remove(self) -> None:
        self.check_store()
        gone = os.path.join(self._shared, f".removed-{uuid.uuid4().hex}")
        with suppress(FileNotFoundError):
            os.rename(self.path, gone)
            sync(self._shared)
        for name in os.listdir(self._shared):
            if name.startswith(".removed-"):  # also what an earlier removal, which was interrupted, has left
                shutil.rmtree(os.path.join(self._shared, name), ignore_errors=True)


def _has(directory: int, name: str, content: bytes) -> bool:
    """True if an open directory has a file of that content."""
    try:
        descriptor = os.open(name, os.O_RDONLY, dir_fd=directory)
    except FileNotFoundError:
        return False
    with open(descriptor, "rb") as file:
        return file.read() == content
