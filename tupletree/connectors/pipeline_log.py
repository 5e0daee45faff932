"""Results of a pipeline as a log: the rows of its committed batches, in the order of transactions.

There is one partition. The position of a row is ``txid * 2**32 + row``, where rows are counted over the files of the
batch in the order of their names. So positions have a gap after each batch, and a range that ends with a batch ends at
the beginning of the next.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final

from tupletree._sinks.batch_folders import batch_folder, committed_batches
from tupletree.connectors.arguments import check_flag, checked_names
from tupletree.connectors.file_ranges import absolute
from tupletree.connectors.log_ranges import RangeFollower
from tupletree.connectors.log_source import Bounds, DeletedError, LogFollower, LogSource
from tupletree.connectors.log_spout import LogSpout
from tupletree.connectors.messages import LogRecord
from tupletree.connectors.parquet import ParquetLog, Values, data_files
from tupletree.errors import FailedException

ROWS: Final = 1 << 32
"""More rows than a batch has."""
PARTITION: Final = "batches"


class PipelineLog(LogSource):
    """The directory of a pipeline's ParquetDirectory.

    ``path``: the directory. It need not exist yet. ``fields``: the columns to read.

    ``is_opaque``: a committed batch may be replaced by another attempt, until the next one is committed: so the newest
    batch waits for the next.

    Batches that are deleted before they were read are reported, and left out.
    """

    title: ClassVar[str] = "pipeline"
    metadata_fields: ClassVar[Sequence[str]] = ("txid",)
    is_numbered: ClassVar[bool] = True
    unit: ClassVar[str] = "rows"
    _last = 0  # of the class: logs submitted by earlier versions have none

    def __init__(self, path: str | Path, fields: Sequence[str], *, is_opaque: bool = False) -> None:
        self.path = absolute("PipelineLog", path, "path")
        self.fields = checked_names("PipelineLog", "fields", fields)
        check_flag("PipelineLog", "is_opaque", is_opaque)
        self.is_opaque = is_opaque
        self._batch: tuple[int, ParquetLog, list[tuple[str, int]]] | None = None  # the one that is being read

    def open(self) -> None:
        os.listdir(self.path)

    def partitions(self) -> Sequence[str]:
        return [PARTITION]

    def bounds(self, partition: str) -> Bounds:
        txids = self._readable()
        end = (self._last + 1) * ROWS
        return Bounds(txids[0] * ROWS if txids else end, end)

    def limited(self, partition: str, start: int, end: int, limit: int) -> int:
        """Return the end of the batch: it is read once, from ``start`` on, and in lists."""
        if start > end:
            raise FailedException(
                f"{self.place(partition, start)} is to be read next, but the directory ends with transaction "
                f"{end // ROWS - 1:,}: if the pipeline's progress was forgotten, use a new directory"
            )
        return min(end, (start // ROWS + 1) * ROWS)

    def read(self, partition: str, start: int, end: int) -> Iterator[Sequence[LogRecord]]:
        while start < end:
            txid = start // ROWS
            base, after = txid * ROWS, (txid + 1) * ROWS
            for records in self._records(txid, start - base, min(end, after) - base):
                yield [LogRecord(one.data, base + at, base + at + 1, (txid,)) for at, one in records]
            start = after

    def place(self, partition: str, position: int) -> str:
        return f"{self.path}: row {position % ROWS:,} of transaction {position // ROWS:,}"

    def follow(self, positions: Mapping[str, int] | None, task_index: int, tasks: int) -> LogFollower:
        return _Follower(self, positions or {}, task_index, tasks)

    def close(self) -> None:
        self._batch = None

    def _readable(self) -> list[int]:
        """Return the txids of batches that stay as they are, in order. ``_last`` is the newest that there was.

        A listing that is made while two batches are committed can have the later one alone: so the newest of a first
        listing counts. While an opaque batch is replaced, it is gone, and the one before it stays as it is.
        """
        try:
            newest = max(committed_batches(self.path), default=0)
            known = committed_batches(self.path) if newest else []
        except OSError as error:
            raise FailedException(f"{self.path} cannot be read: {error}") from error
        self._last = min(newest, max(self._last, newest - self.is_opaque))
        return sorted(txid for txid in known if txid <= self._last)

    def _files(self, txid: int) -> tuple[ParquetLog, list[tuple[str, int]]]:
        """Return the log of a batch's files, and their names and numbers of rows. DeletedError if they are gone."""
        if self._batch is None or self._batch[0] != txid:
            folder = batch_folder(self.path, txid)
            log = ParquetLog(folder, self.fields)
            try:
                self._batch = txid, log, [(name, log.bounds(name).end) for name in data_files(folder)]
            except (OSError, FailedException) as error:
                raise self._fault(txid, error) from error
        return self._batch[1:]

    def _fault(self, txid: int, error: Exception) -> FailedException:
        """Return the error to raise for a batch whose files cannot be read: DeletedError if it is gone."""
        later = [other for other in self._readable() if other > txid]
        if os.path.isdir(batch_folder(self.path, txid)) or not later:
            return FailedException(f"transaction {txid} of {self.path} cannot be read: {error}")
        self._batch = None  # only now: positions count the rows of all files, also of those deleted first
        return DeletedError(f"{self.path}: transaction {txid} was deleted unread", later[0] * ROWS)

    def _records(self, txid: int, start: int, end: int) -> Iterator[list[tuple[int, LogRecord]]]:
        """Yield the rows of a batch from ``start`` to before ``end``, with their numbers in the batch."""
        log, files = self._files(txid)
        first = 0
        for name, rows in files:
            begin, stop = max(0, start - first), min(rows, end - first)
            if begin < stop:
                try:
                    for records in log.read(name, begin, stop):
                        yield [(first + one.position, one) for one in records]
                except FailedException as error:
                    if os.path.exists(log.path(name)):
                        raise
                    raise self._fault(txid, error) from error  # the batch was deleted while it was read
            first += rows


class _Follower(RangeFollower):
    """Reads batches. How many rows there are to come is not known: positions have gaps."""

    def lag(self) -> None:
        return None


class PipelineSpout(LogSpout):
    """Emits the rows that a pipeline has committed to its ParquetDirectory, in the order of transactions.

    At least once, or exactly once with aligned checkpoints: see PipelineLog and LogSpout. ``fields``: the columns to
    emit. ``metadata``: "txid". One task reads; others of the spout have nothing to do.
    """

    def __init__(
        self,
        path: str | Path,
        fields: Sequence[str],
        *,
        is_opaque: bool = False,
        metadata: Sequence[str] = (),
        log_id: str | None = None,
        max_ahead: int = 1_000_000,
    ) -> None:
        source = PipelineLog(path, fields, is_opaque=is_opaque)
        super().__init__(source, Values(source.fields), metadata=metadata, log_id=log_id, max_ahead=max_ahead)
