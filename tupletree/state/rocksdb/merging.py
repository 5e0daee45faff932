"""The merge of segments, in a thread beside the task."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from tupletree.errors import TupletreeError
from tupletree.state.rocksdb.manifests import MERGED_SEGMENTS, Merge, Segment, planned_merge
from tupletree.state.rocksdb.segments import Entry
from tupletree.state.rocksdb.shared import SharedWriter
from tupletree.state.rocksdb.stopping import StoppedError, Stopping

_log = logging.getLogger(__name__)

_one_at_a_time = threading.Lock()
"""Held by the thread that merges: the tasks of a process share its time."""

PIECE: Final = 5_000


class Merger:
    """Merges the segments of one state, at most once at a time. All methods are called by the task."""

    def __init__(self, shared: SharedWriter) -> None:
        self._shared = shared
        self._thread: threading.Thread | None = None
        self._stopping = Stopping()
        self._name: str | None = None
        self._done: Merge | None = None
        self._put_off_until = 0  # there are so many segments

    @property
    def written(self) -> str | None:
        """The segment that is being written, or waits to be taken."""
        return self._name

    def ended(self) -> Merge | None:
        """Return a merge that has ended, for the next manifest. It is returned until a manifest has it."""
        if self._thread is not None and self._thread.is_alive():
            return None
        if self._done is not None and self._done.result in self._shared.manifest.segments:
            self._forget()
        return self._done

    def _forget(self) -> None:
        self._thread = self._done = self._name = None

    def start(self) -> None:
        """Begin with the merge that is due, unless there is none or one is running. One that failed is put off."""
        segments = self._shared.manifest.segments
        if self.ended() is None and self._thread is not None and not self._thread.is_alive():
            self._put_off_until = len(segments) + MERGED_SEGMENTS
            self._forget()
        sources = planned_merge(segments)
        if self._thread is not None or not sources or len(segments) < self._put_off_until:
            return
        self._put_off_until = 0
        is_first = sources[0] == self._shared.manifest.segments[0]
        self._name = self._shared.new_name()
        self._thread = threading.Thread(target=self._run, args=(sources, self._name, is_first), name="merge-of-states")
        self._thread.start()

    def wait(self) -> None:
        """Wait until the merge that is running has ended."""
        if self._thread is not None:
            self._thread.join()

    def close(self) -> None:
        """Give the merge up, and wait until its thread has ended."""
        self._stopping.set()
        self.wait()

    def _run(self, sources: tuple[Segment, ...], name: str, is_first: bool) -> None:
        try:
            with self._turn(), self._shared.segments(sources) as files:
                size = self._shared.write_file(name, self._paced(files.entries(deletions=not is_first)))
            self._done = Merge(sources, Segment(name, sources[-1].txid, size))
        except StoppedError:
            pass
        except (OSError, TupletreeError) as error:
            _log.warning("state.merge_failed state=%s error=%s", self._shared.namespace, error)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Wait until no other state of the process is merged."""
        while not _one_at_a_time.acquire(timeout=0.1):
            self._stopping.check()
        try:
            yield
        finally:
            _one_at_a_time.release()

    def _paced(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        """Pause as long as the last piece took, so that the task has half of the time at least."""
        began_s = time.perf_counter()
        for number, entry in enumerate(entries):
            if number % PIECE == 0:
                self._stopping.check(time.perf_counter() - began_s)
                began_s = time.perf_counter()
            yield entry
