"""The making of a large copy, in a thread beside the task, which reads from the shared store meanwhile."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator
from typing import Final

from tupletree.errors import TupletreeError
from tupletree.state.rocksdb.local import LocalCopy
from tupletree.state.rocksdb.manifests import Manifest
from tupletree.state.rocksdb.segments import Entry
from tupletree.state.rocksdb.shared import SharedDirectory
from tupletree.state.rocksdb.stopping import StoppedError, Stopping

_log = logging.getLogger(__name__)

PIECE: Final = 5_000


class Copying:
    """The thread that fills an empty copy. Until it has ended, nobody else uses the copy."""

    def __init__(self, shared: SharedDirectory, copy: LocalCopy, manifest: Manifest) -> None:
        self._shared = shared
        self._copy = copy
        self._manifest = manifest
        self._stopping = Stopping()
        self._has_failed = False
        self._thread = threading.Thread(target=self._run, name="copy-of-a-state")
        self._thread.start()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    @property
    def has_failed(self) -> bool:
        """True if there is no copy, although the thread has ended."""
        return self._has_failed and not self.is_running

    def wait(self) -> None:
        """Wait until the thread has ended."""
        self._thread.join()

    def close(self) -> None:
        """Give the copy up, and wait until the thread has ended."""
        self._stopping.set()
        self.wait()

    def _run(self) -> None:
        segments = self._manifest.segments
        try:
            with self._shared.errors(), self._shared.segments(segments) as files:
                self._copy.apply(self._until_stopped(files.in_turn()), self._manifest.committed)
        except StoppedError:
            self._has_failed = True
        except TupletreeError as error:
            self._has_failed = True
            _log.warning("state.copy_failed state=%s error=%s", self._shared.namespace, error)
        else:
            size = sum(segment.size for segment in segments)
            _log.info("state.copied state=%s bytes=%d", self._shared.namespace, size)

    def _until_stopped(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        for number, entry in enumerate(entries):
            if number % PIECE == 0:
                self._stopping.check()
            yield entry
