"""Shared stores: where the machines of a cluster have the segments and manifests of states.

A store has a folder for each state, with files that are written once. Everything else about them (numbers, owners,
checkpoints) is decided in shared.py, the same for all stores.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

from tupletree.state.object_options import is_address
from tupletree.state.rocksdb.segment_files import OpenedFile
from tupletree.state.rocksdb.segments import Entry

NO_OPTIONS: Final[Mapping[str, Any]] = {}


class Folder(Protocol):
    """The files of one state.

    Methods raise OSError or UnavailableError, unless they say otherwise. A write that failed possibly happened, and can
    happen later.
    """

    @property
    def path(self) -> str:
        """The folder as messages name it."""

    def check_store(self) -> None:
        """Raise UnavailableError if the whole store is missing on this machine."""

    def make(self) -> None:
        """Make the folder. Idempotent."""

    def names(self) -> list[str]:
        """Return the names of all files; [] if there is no folder."""

    def read(self, name: str) -> bytes:
        """Return the content of a small file. Raises FileNotFoundError."""

    def create(
        self, name: str, data: bytes, temporary: str, before: tuple[str, bytes] | None = None
    ) -> list[str] | None:
        """Create a file with all of its content, and return the names of all files then.

        None: the name was taken, possibly by an earlier attempt of this call. Or the folder does not have the file
        ``before``, a name and its content: the state was removed, and made again. A store in which numbers go on after
        a removal need not look. ``temporary``: a name that may be used on the way.
        """

    def write(self, name: str, entries: Iterable[Entry]) -> int:
        """Write a segment under a name that nobody else uses, and return its size. If it fails, there is none."""

    def open(self, name: str, size: int) -> OpenedFile:
        """Open a segment. Raises UsageError if it has another size, and FileNotFoundError."""

    def delete(self, names: Iterable[str]) -> None:
        """Delete files as far as possible. Never raises."""

    def remove(self) -> None:
        """Remove the state, so that who has it open can write nothing any more. Idempotent."""


class SharedStore(Protocol):
    """All states of a directory or of an address."""

    @property
    def address(self) -> str:
        """The directory or address."""

    def folder(self, namespace: str) -> Folder:
        """Return the folder of one state, which need not exist."""

    def gone(self, folders: Iterable[str]) -> list[str]:
        """Return those of the named folders whose states do not exist. Raises OSError and UnavailableError."""


def store_of(shared: str, options: Mapping[str, Any] = NO_OPTIONS) -> SharedStore:
    """Return the store of a directory or of an address. ``options``: of the provider, for addresses.

    Raises UsageError if a package is missing that the address needs, or the address or an option is invalid.
    """
    if is_address(shared):
        from tupletree.state.rocksdb.object_store import object_store

        return object_store(shared, options)
    from tupletree.state.rocksdb.directory_store import DirectoryStore

    return DirectoryStore(shared)
