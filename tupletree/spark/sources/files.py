"""The spout of all sources of files: its coordinator decides on ranges, its emitter says where they lie.

    coordinator  --  {"read": …, "turn": …, "ranges": [[name, start, end], …]}  -->  emitter  --  [attempt, split]  -->

A split is ``[path, start, end]``. Nobody reads the rows here: that is for Spark's executors.
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
from tupletree.errors import FailedException, ReportedFailedException, UsageError
from tupletree.spark.sources.ranges import Sizes, check_sizes, plan_batch
from tupletree.transactional.bolts import BatchCollector
from tupletree.transactional.file_ranges import LineEnds, path_of, sizes_of
from tupletree.transactional.spouts import TransactionalSpout, TransactionCoordinator, TransactionEmitter

LOOK_S = 0.01
"""How often it is looked what files there are, unless that takes long: a tenth of the time is spent on it at most."""

DOUBT_S = 5.0
"""After so long without a batch it is asked whether the last one was written down: see FilesCoordinator."""


class Extent:
    """Files of one kind, and how long they are in units that can be given out."""

    unit: str
    """What the units are."""

    def __init__(self, files: str) -> None:
        self._files = files

    def sizes(self) -> Sizes:
        """Name and units of every file, by name. OSError."""
        raise NotImplementedError

    def end(self, name: str, start: int, size: int, take: int, may_exceed: bool) -> int | None:
        """As ``ranges.End``. OSError."""
        raise NotImplementedError

    def path(self, name: str) -> str:
        """Where the file of a name is."""
        return path_of(self._files, name)


class LineExtent(Extent):
    """Files of lines, in bytes; ranges end at line ends."""

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
    """Plans a batch ahead, so that ``is_ready`` can tell quickly, after a look at the files every ``LOOK_S``.

    The plan starts from the batch that was decided on last, which need not be the last one that counts: the store may
    have been away when it was to be written down, or another coordinator may have gone on. So after ``DOUBT_S`` without
    a batch this one says that it is ready though it sees nothing new, and learns from ``initialize_transaction`` which
    transaction was the last.
    """

    def __init__(self, extent: Extent, take: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._extent = extent
        self._take = take
        self._clock = clock
        self._sizes: Sizes = ()
        self._look_at_s = -math.inf
        self._newest: Mapping[str, Any] | None = None  # metadata of the transaction that is believed to be the last
        self._doubt_at_s = math.inf
        self._next: dict[str, Any] | None = None
        self._is_planned = False  # whether ``_next`` is what follows ``_newest`` with the sizes that are known

    def is_ready(self) -> bool:
        now_s = self._clock()
        if now_s >= self._look_at_s:
            self._look()
        if not self._is_planned:
            self._next = self._plan(self._newest)
            self._is_planned = True
        return self._next is not None or now_s >= self._doubt_at_s

    def initialize_transaction(self, txid: int, previous: Any) -> dict[str, Any]:
        if self._is_planned and previous == self._newest:
            made = self._next
        else:
            self._look()
            made = self._plan(previous)
        self._is_planned = False
        if made is None:
            self._newest, self._doubt_at_s = previous, math.inf
            raise FailedException(f"no file has anything new for transaction {txid}")
        self._newest, self._doubt_at_s = made, self._clock() + DOUBT_S
        return made

    def lag(self) -> dict[str, int]:
        """What was not given out when it was last looked: how many bytes or row groups, of how many files."""
        newest = self._newest
        read = {} if newest is None else newest["read"]
        rests = [size - read.get(name, 0) for name, size in self._sizes if size > read.get(name, 0)]
        return {self._extent.unit.replace(" ", "_"): sum(rests), "files": len(rests)}

    def _look(self) -> None:
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
    """Emits the splits of a batch: number ``index`` of ``tasks`` emitters."""

    def __init__(self, extent: Extent, index: int, tasks: int) -> None:
        self._extent = extent
        self._index = index
        self._tasks = tasks

    def emit_batch(self, attempt: TransactionAttempt, metadata: Any, collector: BatchCollector) -> None:
        for name, start, end in metadata["ranges"][self._index :: self._tasks]:
            collector.emit([attempt, [self._extent.path(name), start, end]])


def absolute(owner: str, files: str | Path) -> str:
    """The files that a user asked for, wherever this is looked at later. UsageError, in the name of ``owner``."""
    if not isinstance(files, str | Path) or not str(files):
        raise UsageError(f"{owner}: files is {files!r}; a file, a directory or a pattern was expected")
    return os.path.abspath(files)


def pieces(split: Sequence[Any]) -> list[Sequence[Any]]:
    """A split as pieces (ranges.py): one is that already if it was divided."""
    if isinstance(split[0], str):
        path, start, end = split
        return [[path, start, end, start, end]]
    return list(split)


def _unreadable(error: OSError) -> ReportedFailedException:
    return ReportedFailedException(f"{error.filename} cannot be read: {error.strerror}")
