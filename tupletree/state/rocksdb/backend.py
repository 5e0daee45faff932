"""The backend of a state in a shared store, with a copy in RocksDB on the disk of the machine.

    prepare(t)   the changes are written to the shared store, as a segment; a manifest says that they are prepared
    commit(t)    a manifest says that they are committed; then they go to the copy
    get          from the copy

So the copy is never ahead of the committed state. It may lag: after a crash between the two parts of a commit, where it
is of an earlier checkpoint, or where there is none. Before it is read, it is brought up to date from the segments that
it lacks, or made anew from all. A large one is made in a thread, and values are read from the shared store until
it is there. One that cannot be used, as the disk is full or fails, is *set aside*: values are read from the shared
store, and the next commit tries the copy again. So the state needs nothing but the shared store.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from tupletree.errors import UnavailableError
from tupletree.state.buffered import Changes, not_prepared
from tupletree.state.rocksdb.copy_folders import remove_abandoned
from tupletree.state.rocksdb.copying import Copying
from tupletree.state.rocksdb.local import CorruptCopyError, LocalCopy, Position
from tupletree.state.rocksdb.manifests import Segment
from tupletree.state.rocksdb.merging import Merger
from tupletree.state.rocksdb.segment_files import SegmentFiles
from tupletree.state.rocksdb.segments import DELETED, Entry, in_pages
from tupletree.state.rocksdb.shared import SharedWriter
from tupletree.state.rocksdb.stores import NO_OPTIONS, store_of

_log = logging.getLogger(__name__)

COPIED_AT_ONCE_BYTES: Final = 4 << 20
"""A state that is larger is copied in a thread."""


class RocksDBBackend:
    """The shared files and the copy of one namespace. ``options``: of the provider, for an address as ``shared``."""

    def __init__(self, namespace: str, directory: str, shared: str, options: Mapping[str, Any] = NO_OPTIONS) -> None:
        store = store_of(shared, options)
        self._shared = SharedWriter(namespace, store)
        self._copy = LocalCopy(namespace, directory, store.address, self._shared.manifest.lineage)
        self._merger = Merger(self._shared)
        self._copying: Copying | None = None
        self._files: SegmentFiles | None = None  # open while there is no copy
        self._opened: tuple[Segment, ...] = ()
        self._changes: tuple[int, Changes] | None = None  # prepared here
        self._is_aside = False
        self._is_said = False  # it was logged that the copy is set aside, and the copy has not been of use since
        remove_abandoned(directory, store)
        try:
            self._copy.open()
            if self.committed is None:
                self._update()
        except UnavailableError as error:
            self._set_aside(error)
        except BaseException:
            self._copy.close()
            raise

    @property
    def committed(self) -> int | None:
        return self._shared.manifest.committed

    @property
    def prepared(self) -> int | None:
        prepared = self._shared.manifest.prepared
        return None if prepared is None else prepared.txid

    def get(self, key: bytes) -> bytes | None:
        try:
            if not self._is_copying() and self._update():
                return self._copy.get(key)
        except UnavailableError as error:
            self._set_aside(error)
        return self._get_shared(key)

    def scan(self) -> Iterator[Iterable[Entry]]:
        """Yield pages from the copy, or from the shared store where there is no copy: it may be needed only once.

        Both are sorted, so that the one can continue where the other breaks off.
        """
        last = b""
        try:
            if not self._is_copying() and not self._lacks_all():
                self._update()
                for page in self._copy.scan():
                    yield page
                    last = page[-1][0] if page else last
                return
        except UnavailableError as error:
            self._set_aside(error)
        yield from self._scan_shared(last)

    def prepare(self, txid: int, changes: Changes) -> None:
        manifest = self._shared.refresh()
        segment = Segment("", txid, 0)
        if changes:
            entries = ((key, changes[key] or DELETED) for key in sorted(changes))
            segment = self._shared.write(txid, entries)
        self._shared.advance(manifest.preparing(segment))
        self._changes = txid, changes
        self._shared.clean(self._merger.written)

    def commit(self, txid: int) -> None:
        manifest = self._shared.refresh()
        if manifest.committed != txid:
            if manifest.prepared is None or manifest.prepared.txid != txid:
                raise not_prepared(self._shared.namespace, txid)
            self._shared.advance(manifest.committing(self._merger.ended()))
        if self._copying is not None and self._copying.has_failed:
            self._copying = None  # the next read tries again
        self._is_aside = False
        if not self._is_copying():
            try:
                self._add_to_copy(manifest.committed, txid)
            except UnavailableError as error:
                self._set_aside(error)
            self._merger.start()  # not while the first segment is copied, which it might replace
        self._changes = None
        self._shared.clean(self._merger.written)

    def rollback(self) -> None:
        manifest = self._shared.refresh()
        self._changes = None
        if manifest.prepared is not None or self._shared.may_change_late:
            self._shared.advance(manifest.rolled_back())
            self._shared.clean(self._merger.written)

    def close(self) -> None:
        self._merger.close()
        if self._copying is not None:
            self._copying.close()
        self._close_files()
        self._copy.close()

    def _add_to_copy(self, before: int | None, txid: int) -> None:
        """Bring a copy up to date after a commit, if that costs no more than what it lacks."""
        if self._changes is not None and self._changes[0] == txid and self._copy.position == self._at(before):
            self._copy.apply(self._changes[1].items(), txid)
        elif not self._lacks_all():
            self._update()

    def _is_copying(self) -> bool:
        """True if a thread has the copy, or has failed to make it, or the copy is set aside."""
        copying = self._copying
        if copying is not None and not copying.is_running and not copying.has_failed:
            self._copying = None
            self._close_files()
        return self._copying is not None or self._is_aside

    def _update(self) -> bool:
        """Bring the copy up to date; return False if a thread does that now.

        Raises CorruptCopyError, UnavailableError and UsageError.
        """
        manifest = self._shared.manifest
        position = self._copy.position
        if position == self._at(manifest.committed):
            self._is_said = False
            self._close_files()
            return True
        missing = None if position is None or self._lacks_all() else manifest.missing_after(position.txid)
        if missing is None:
            missing = manifest.segments
            self._copy.clear()
            if sum(segment.size for segment in missing) > COPIED_AT_ONCE_BYTES:
                self._copying = Copying(self._shared, self._copy, manifest)
                return False
        with self._shared.errors(), self._shared.segments(missing) as files:
            self._copy.apply(files.in_turn(), manifest.committed)
        self._is_said = False
        self._close_files()
        return True

    def _lacks_all(self) -> bool:
        """True if the copy cannot be brought up to date, and must be made anew."""
        position, manifest = self._copy.position, self._shared.manifest
        if position == self._at(manifest.committed):
            return False
        if position is None or position.lineage != manifest.lineage or manifest.committed is None:
            return True
        return (position.txid or 0) > manifest.committed or manifest.missing_after(position.txid) is None

    def _at(self, txid: int | None) -> Position:
        return Position(self._shared.manifest.lineage, txid)

    def _set_aside(self, error: UnavailableError) -> None:
        """Go on without the copy until the next commit. A damaged copy is emptied, and made anew by the next read.

        Raises the error if the state is closed.
        """
        if self._copy.is_closed:
            raise error
        if isinstance(error, CorruptCopyError):
            _log.warning("state.copy_discarded state=%s error=%s", self._shared.namespace, error)
            try:
                self._copy.clear()
                return
            except UnavailableError as another:
                error = another
        if not self._is_said:
            _log.warning("state.copy_set_aside state=%s error=%s", self._shared.namespace, error)
        self._is_aside = self._is_said = True

    def _get_shared(self, key: bytes) -> bytes | None:
        segments = self._shared.manifest.segments
        with self._shared.errors():
            if self._files is None or self._opened != segments:
                before, self._files = self._files, None
                self._files, self._opened = self._shared.segments(segments, before), segments
            return self._files.get(key)

    def _close_files(self) -> None:
        if self._files is not None:
            self._files.close()
            self._files = None

    def _scan_shared(self, after: bytes) -> Iterator[list[Entry]]:
        with self._shared.errors(), self._shared.segments(self._shared.manifest.segments) as files:
            yield from in_pages(files.entries(after))
