"""Reader of a state in its shared store, beside the task that writes it. It needs neither RocksDB nor a copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from tupletree.errors import UnavailableError
from tupletree.state.reader import Entries, StateReader, bounded, counted
from tupletree.state.rocksdb.manifests import Manifest
from tupletree.state.rocksdb.segment_files import SegmentFiles
from tupletree.state.rocksdb.shared import SharedDirectory
from tupletree.state.rocksdb.stores import SharedStore
from tupletree.state.sizes import Counted, Known

R = TypeVar("R")

_TRIES: Final = 10


class SharedReader(StateReader):
    """The committed values of one namespace. Its segments stay open while they make up the state."""

    is_kept = True  # the indexes of gigabytes take a tenth of a second

    def __init__(self, namespace: str, shared: SharedStore) -> None:
        self._shared = SharedDirectory(namespace, shared)
        self._manifest: Manifest | None = None
        self._files: SegmentFiles | None = None

    @property
    def committed(self) -> int | None:
        found = self._shared.latest()
        return None if found is None else found.committed

    def get(self, key: bytes) -> bytes | None:
        return self._use(lambda files: files.get(key), None)

    def scan(self, after: bytes, limit: int, max_bytes: int) -> Entries:
        return self._use(lambda files: bounded(files.entries(after), limit, max_bytes), [])

    def count(self) -> Counted:
        """Count in one pass: each page of its own would ask the store anew for what there is."""
        return self._use(lambda files: counted(files.entries()), Counted(0, 0, is_all=True))

    def known(self) -> Known:
        """Return the bytes of the segments, of which later ones can have keys of earlier ones again."""
        with self._shared.errors():
            found = self._shared.latest()
        return Known() if found is None else Known(bytes=sum(segment.size for segment in found.segments))

    def close(self) -> None:
        self._manifest = None
        if self._files is not None:
            self._files.close()
            self._files = None

    def _use(self, read: Callable[[SegmentFiles], R], nothing: R) -> R:
        with self._shared.errors():
            for _ in range(_TRIES):
                files = self._opened()
                if files is None:
                    return nothing
                try:
                    return read(files)
                except FileNotFoundError:  # of a store whose files are not kept by being open
                    if self._manifest == self._shared.latest():
                        raise
        raise self._changes_too_fast()

    def _opened(self) -> SegmentFiles | None:
        for _ in range(_TRIES):
            found = self._shared.latest()
            if found is None:
                self.close()
                return None
            before = self._manifest
            if before is not None and before.lineage != found.lineage:
                self.close()  # its files may have the names of others
                before = None
            if before is None or before.segments != found.segments:
                files, self._files, self._manifest = self._files, None, None
                try:
                    self._files = self._shared.segments(found.segments, files)
                except FileNotFoundError:
                    if found == self._shared.latest():
                        raise
                    continue
            self._manifest = found
            return self._files
        raise self._changes_too_fast()

    def _changes_too_fast(self) -> UnavailableError:
        return UnavailableError(f"{self._shared.path} changes too fast to be read; repeat the request")
