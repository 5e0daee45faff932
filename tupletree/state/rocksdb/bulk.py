"""A state in its shared store, read and written in bulk, without a copy on this machine.

A state is filled with *pieces*: segments that no manifest names until all are there. Then one manifest has them all, so
that a crash leaves an empty state, and files for its next writer to delete. Many pieces are merged, so that few files
are open when they are read. This bounds the files, as the pieces bound the memory, whatever the size of the state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tupletree.errors import ConflictError
from tupletree.state.buffered import not_prepared
from tupletree.state.rocksdb.manifests import MAX_SEGMENTS, Segment
from tupletree.state.rocksdb.segments import Entry, in_pages
from tupletree.state.rocksdb.shared import SharedWriter
from tupletree.state.rocksdb.stores import SharedStore


class SharedBulkState:
    """The state of one namespace, open for its only writer. See BulkState."""

    def __init__(self, namespace: str, shared: SharedStore) -> None:
        self._shared = SharedWriter(namespace, shared)
        self._merged: list[Segment] = []  # the older ones
        self._pieces: list[Segment] = []

    @property
    def committed(self) -> int | None:
        return self._shared.manifest.committed

    @property
    def prepared(self) -> int | None:
        prepared = self._shared.manifest.prepared
        return None if prepared is None else prepared.txid

    def commit(self, txid: int) -> None:
        manifest = self._shared.refresh()
        if manifest.committed != txid:
            if manifest.prepared is None or manifest.prepared.txid != txid:
                raise not_prepared(self._shared.namespace, txid)
            self._shared.advance(manifest.committing())

    def rollback(self) -> None:
        manifest = self._shared.refresh()
        if manifest.prepared is not None or self._shared.may_change_late:
            self._shared.advance(manifest.rolled_back())

    def scan_encoded(self) -> Iterator[list[Entry]]:
        with self._shared.errors(), self._shared.segments(self._shared.manifest.segments) as files:
            yield from in_pages(files.entries())

    def add(self, entries: Iterable[Entry]) -> None:
        if len(self._pieces) >= MAX_SEGMENTS:
            with self._shared.errors(), self._shared.segments(self._pieces) as files:
                self._merged.append(self._shared.write(0, files.entries()))
            self._shared.discard(self._pieces)
            self._pieces = []
        self._pieces.append(self._shared.write(0, entries))

    def fill(self, txid: int) -> None:
        manifest = self._shared.refresh()
        if manifest.committed is not None:
            raise ConflictError(
                f"state {self._shared.namespace!r}: checkpoint {txid} cannot be its first, as {manifest.committed} is "
                f"committed"
            )
        content = (*self._merged, *self._pieces)
        self._merged, self._pieces = [], []  # from here on a manifest possibly names them, even if this fails
        self._shared.advance(manifest.filled(txid, content))

    def close(self) -> None:
        self._shared.discard((*self._merged, *self._pieces))
        self._merged, self._pieces = [], []
