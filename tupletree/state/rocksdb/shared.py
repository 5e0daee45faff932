"""The segments and manifests of a state, which all machines share, in the folder of a store (stores.py).

Creating the name of the next manifest is the one atomic step. A writer that was replaced finds that its successor has
taken the number, or a higher one.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from tupletree._sinks.durable_files import unavailable
from tupletree.errors import UnavailableError, UsageError
from tupletree.state.buffered import superseded
from tupletree.state.rocksdb.manifests import (
    Manifest,
    Segment,
    decode_manifest,
    encode_manifest,
    left_over,
    manifest_name,
    manifest_number,
    opened,
    segment_name,
    temporary_name,
)
from tupletree.state.rocksdb.segment_files import SegmentFiles
from tupletree.state.rocksdb.segments import Entry
from tupletree.state.rocksdb.stores import SharedStore

_TRIES: Final = 10


class SharedDirectory:
    """The folder of one namespace in a shared store, for readers. All methods raise UnavailableError."""

    def __init__(self, namespace: str, shared: SharedStore) -> None:
        self.namespace = namespace
        self._folder = shared.folder(namespace)
        self.path = self._folder.path

    def latest(self) -> Manifest | None:
        """Return the valid manifest; None if the state does not exist. Raises UsageError if the manifest is damaged."""
        with self.errors():
            for _ in range(_TRIES):
                number = max(map(manifest_number, self._folder.names()), default=0)
                if not number:
                    return None
                with suppress(FileNotFoundError):
                    return self._read(number)
        raise UnavailableError(f"{self.path} changes too fast to be read; repeat the request")

    def segments(self, segments: Iterable[Segment], before: SegmentFiles | None = None) -> SegmentFiles:
        """Open segments, in the place of those that were open before.

        Raises OSError: FileNotFoundError if the writer has replaced one meanwhile.
        """
        return SegmentFiles(((one.name, one.size) for one in segments), before, self._folder.open)

    def _read(self, number: int) -> Manifest:
        name = manifest_name(number)
        path = f"{self.path}/{name}"
        found = decode_manifest(path, self._folder.read(name))
        if found.namespace != self.namespace:
            raise UsageError(f"{path} belongs to the state {found.namespace!r}, not {self.namespace!r}")
        return found

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Turn an OSError of what is inside into UnavailableError."""
        try:
            yield
        except OSError as error:
            self._folder.check_store()
            raise unavailable(self.path, error) from error

    def remove(self) -> None:
        """Remove the state. Who has it open can write nothing any more. Idempotent."""
        with self.errors():
            self._folder.remove()


class SharedWriter(SharedDirectory):
    """The folder of one namespace, for its only writer. Every method raises UnavailableError.

    A write that failed possibly happened: ``refresh`` finds out. ``may_change_late``: it can still happen, until the
    next manifest has its number.
    """

    def __init__(self, namespace: str, shared: SharedStore) -> None:
        """Take the state over. Raises UsageError if what is there cannot be read."""
        super().__init__(namespace, shared)
        self._writer = uuid.uuid4().hex
        self._count = 0
        self.may_change_late = False
        with self.errors():
            self._folder.make()
            while True:
                found = self.latest()
                self.manifest = opened(found, namespace, self._writer, uuid.uuid4().hex)
                if self._create(self.manifest, None):
                    break
            self._known = set(self.manifest.files)
            self._folder.delete(left_over(self._folder.names(), self.manifest))

    def refresh(self) -> Manifest:
        """Return the valid manifest. Raises AuthorityError if the state was opened again since."""
        found = self.latest()
        known = self.manifest
        if found is None or found.lineage != known.lineage or found.number < known.number:
            raise UnavailableError(f"{self.path} was removed or replaced while the state was in use")
        if found.writer != known.writer:
            raise superseded(self.namespace)
        self.manifest = found
        return found

    def advance(self, manifest: Manifest) -> None:
        """Make the next manifest the valid one. Raises AuthorityError if the state was opened again since."""
        with self.errors():
            self.may_change_late = True
            is_valid = self._create(manifest, self.manifest)
            self.may_change_late = False
            if not is_valid:
                self.refresh()
                raise UnavailableError(f"{self.path}: a write that had failed has happened after all; repeat the step")
            before, self.manifest = self.manifest, manifest
            self._folder.delete([before.file_name])

    def write(self, txid: int, entries: Iterable[Entry]) -> Segment:
        """Write a segment, which no manifest names yet."""
        name = self.new_name()
        with self.errors():
            size = self.write_file(name, entries)
        return Segment(name, txid, size)

    def new_name(self) -> str:
        """Return a name for a segment."""
        self._count += 1
        name = segment_name(self.manifest.owner, self._count, self._writer)
        self._known.add(name)
        return name

    def write_file(self, name: str, entries: Iterable[Entry]) -> int:
        """Write the file of a segment and return its size. If it fails, there is none. Raises OSError. Any thread."""
        return self._folder.write(name, entries)

    def clean(self, kept: str | None = None) -> None:
        """Delete the segments that the valid manifest does not need. ``kept``: one that is being written."""
        names = self._known - self.manifest.files - {kept}
        self._folder.delete(names)
        self._known -= names

    def discard(self, segments: Iterable[Segment]) -> None:
        """Delete segments that no manifest has named."""
        names = {segment.name for segment in segments}
        if names:
            self._folder.delete(names)
            self._known -= names

    def _create(self, manifest: Manifest, before: Manifest | None) -> bool:
        """Write a manifest, and say whether it is the valid one; False if another writer was faster.

        ``before``: the manifest of this writer that it follows, without which the state is another one.
        """
        temporary = temporary_name(manifest.owner, self._writer)
        own = None if before is None else (before.file_name, encode_manifest(before))
        names = self._folder.create(manifest.file_name, encode_manifest(manifest), temporary, own)
        if names is None:
            return self.latest() == manifest  # a store may report its own success as this
        return max(map(manifest_number, names)) == manifest.number
