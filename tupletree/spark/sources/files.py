"""The spout of all file sources: its coordinator decides on ranges, its emitter emits their locations.

    coordinator  --  {"read": …, "turn": …, "ranges": [[name, start, end], …]}  -->  emitter  --  [attempt, split]  -->

A split is ``[path, start, end]``. No rows are read here; Spark's executors read them.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tupletree.attempt import TransactionAttempt
from tupletree.component import TopologyContext
from tupletree.connectors.file_ranges import LineEnds, path_of, sizes_of
from tupletree.errors import FailedException, ReportedFailedException, UsageError
from tupletree.spark.sources.ranges import Sizes, check_sizes, plan_batch
from tupletree.transactional.bolts import BatchCollector
from tupletree.transactional.spouts import TransactionalSpout, TransactionCoordinator, TransactionEmitter

LOOK_S = 0.01
"""Minimum pause between two listings of the files. Slow listings take at most a tenth of the time."""

DOUBT_S = 5.0
"""Time without a batch after which the last known batch is verified: see FilesCoordinator."""


class Extent:
    """Files of one kind, with sizes in bytes or row groups, the units in which ranges are handed out."""

    unit: str
    """The name of the units."""

    def __init__(self, files: str) -> None:
        self._files = files

    def sizes(self) -> Sizes:
        """Return the name and size in units of every file, sorted by name. Raises OSError."""
        raise NotImplementedError

    def end(self, name: str, start: int, size: int, take: int, may_exceed: bool) -> int | None:
        """Return the end of a range, as described at ``ranges.End``. Raises OSError."""
        raise NotImplementedError

    def path(self, name: str) -> str:
        """Return the path of a file."""
        return path_of(self._files, name)


class LineExtent(Extent):
    """Files of lines, in bytes. Ranges end at line ends."""

    unit = "bytes"

    def __init__(self, files: str, are_complete: bool) -> None:
        super().__init__(files)
        self._ends = LineEnds(are_complete)

    def sizes(self) -> Sizes:
        return sizes_of(self._files)

    def end(self, name: str, start: int, size: int, take: int, may_exceed: bool) -> int | None:
        end = self._ends.end(name, self.path(name), start, size, take, may_exceed=may_exceed)
        if end == start and not may_exceed and not self._ends.is_waiting(name, start, size):
            return None
        return end


class FilesSpout(TransactionalSpout):
    """Emits ``[attempt, split]`` for each range of a batch of up to ``take`` units, over all files."""

    outputs = ["attempt", "split"]

    def __init__(self, extent: Callable[[], Extent], take: int) -> None:
        self._extent = extent
        self._take = take

    def coordinator(self, conf: Mapping[str, Any], context: TopologyContext) -> FilesCoordinator:
        return FilesCoordinator(self._extent(), self._take)

    def emitter(self, conf: Mapping[str, Any], context: TopologyContext) -> TransactionEmitter:
        return FilesEmitter(self._extent(), context.task_index, len(context.component_tasks(context.component_id)))


class FilesCoordinator(TransactionCoordinator):
    """Plans the next batch ahead, so that ``is_ready`` answers quickly. The files are listed every ``LOOK_S``.

    The plan follows the last batch planned here, which may differ from the last batch recorded: the store can have been
    unavailable when the batch was to be recorded, or another coordinator can have taken over. So after ``DOUBT_S``
    without a batch the coordinator reports ready even without new data, and learns the last transaction from
    ``initialize_transaction``.
    """

    def __init__(self, extent: Extent, take: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._extent = extent
        self._take = take
        self._clock = clock
        self._sizes: Sizes = ()
        self._look_at_s = -math.inf
        self._newest: Mapping[str, Any] | None = None  # metadata of the transaction believed to be the last
        self._doubt_at_s = math.inf
        self._next: dict[str, Any] | None = None
        self._is_planned = False  # True if ``_next`` follows ``_newest``, given the known sizes

    def is_ready(self) -> bool:
        now_s = self._clock()
        if now_s >= self._look_at_s:
            self._list_files()
        if not self._is_planned:
            self._next = self._plan(self._newest)
            self._is_planned = True
        return self._next is not None or now_s >= self._doubt_at_s

    def initialize_transaction(self, txid: int, previous: Any) -> dict[str, Any]:
        if self._is_planned and previous == self._newest:
            made = self._next
        else:
            self._list_files()
            made = self._plan(previous)
        self._is_planned = False
        if made is None:
            self._newest, self._doubt_at_s = previous, math.inf
            raise FailedException(f"no file has new data for transaction {txid}")
        self._newest, self._doubt_at_s = made, self._clock() + DOUBT_S
        return made

    def lag(self) -> dict[str, int]:
        """Return the backlog at the last listing: the number of bytes or row groups, and of files."""
        newest = self._newest
        read = {} if newest is None else newest["read"]
        rests = [size - read.get(name, 0) for name, size in self._sizes if size > read.get(name, 0)]
        return {self._extent.unit.replace(" ", "_"): sum(rests), "files": len(rests)}

    def _list_files(self) -> None:
        began_s = self._clock()
        try:
            self._sizes = self._extent.sizes()
        except OSError as error:
            raise _unreadable(error) from error
        ended_s = self._clock()
        self._look_at_s = ended_s + max(LOOK_S, 10 * (ended_s - began_s))
        self._is_planned = False

    def _plan(self, previous: Mapping[str, Any] | None) -> dict[str, Any] | None:
        check_sizes(self._sizes, previous, self._extent.path, self._extent.unit)
        try:
            return plan_batch(self._sizes, previous, self._take, self._extent.end)
        except OSError as error:
            raise _unreadable(error) from error


class FilesEmitter(TransactionEmitter):
    """Emits the splits of a batch: emitter ``index`` of ``tasks``."""

    def __init__(self, extent: Extent, index: int, tasks: int) -> None:
        self._extent = extent
        self._index = index
        self._tasks = tasks

    def emit_batch(self, attempt: TransactionAttempt, metadata: Any, collector: BatchCollector) -> None:
        for name, start, end in metadata["ranges"][self._index :: self._tasks]:
            collector.emit([attempt, [self._extent.path(name), start, end]])


def absolute(owner: str, files: str | Path) -> str:
    """Return the user's files as an absolute path. UsageError, naming ``owner``, if they are invalid."""
    if not isinstance(files, str | Path) or not str(files):
        raise UsageError(f"{owner}: files is {files!r}; a file, a directory or a pattern was expected")
    return os.path.abspath(files)


def pieces(split: Sequence[Any]) -> list[Sequence[Any]]:
    """Return a split as pieces (ranges.py). A divided split already consists of pieces."""
    if isinstance(split[0], str):
        path, start, end = split
        return [[path, start, end, start, end]]
    return list(split)


def _unreadable(error: OSError) -> ReportedFailedException:
    return ReportedFailedException(f"{error.filename} cannot be read: {error.strerror}")
