"""A transactional spout over files: each line of each file takes effect exactly once, and files can still grow.

The coordinator assigns byte ranges of files to each batch. The metadata of a batch are these ranges, each of which ends
at a line end, and the assigned length of every file that was ever seen. Emitters read exactly these ranges. So a batch
is the same at every replay as long as files only grow, and emitters agree on it without communication. Files need no
partition numbers, and new files can appear at any time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tupletree.attempt import TransactionAttempt
from tupletree.component import TopologyContext
from tupletree.connectors.file_ranges import BLOCK, LineEnds, byte_size, check_encoding, path_of, sizes_of
from tupletree.errors import FailedException, ReportedFailedException, UsageError
from tupletree.transactional.attempt_field import ATTEMPT
from tupletree.transactional.bolts import BatchCollector
from tupletree.transactional.spouts import TransactionalSpout, TransactionCoordinator, TransactionEmitter


class FilePartitionSpout(TransactionalSpout):
    """Emits the lines of files, as ``[line]``, without their line ends.

    ``files``: a directory, of which all files are read except hidden files and files in subdirectories; a single file;
    or a pattern such as ``/data/**/*.log``. The files must exist at the same path on every machine where the topology
    can run.
    ``max_bytes_per_batch``: maximum bytes per file and batch, as a number or as "512KB", "4MB". A longer line is a
    range of its own.
    ``fields``: the name of the line's field.
    ``encoding``: the encoding of the lines, in which a line end must be one byte. ``errors``: the handling of invalid
    bytes, as for ``bytes.decode``; "strict" fails the batch until the topology is submitted with another setting.
    ``are_complete``: nothing will be appended, so a last line without a line end is emitted too. Otherwise this line
    waits for its line end.

    A file must only grow. It is an error if a file shrinks, or vanishes while a batch with its lines is uncommitted;
    the error ends when the file is back. Do not reuse file names: a new file under an old name is not read from its
    beginning. The names of all files are stored until the transactional id is deleted: the spout is intended for some
    thousands of files.

    Raises UsageError for invalid arguments.
    """

    is_built_in = True

    def __init__(
        self,
        files: str | Path,
        max_bytes_per_batch: int | str = "256KB",
        *,
        fields: Sequence[str] = ("line",),
        encoding: str = "utf-8",
        errors: str = "strict",
        are_complete: bool = False,
    ) -> None:
        if not isinstance(files, str | Path):
            raise UsageError(f"FilePartitionSpout: files is {files!r}; a file, a directory or a pattern was expected")
        if isinstance(fields, str) or len(fields) != 1 or fields[0] == ATTEMPT:
            raise UsageError(
                f"FilePartitionSpout: fields is {fields!r}; a list with one name other than 'attempt' was expected"
            )
        self.files = os.path.abspath(files)
        self.max_bytes_per_batch = byte_size("FilePartitionSpout", "max_bytes_per_batch", max_bytes_per_batch)
        self.fields = list(fields)
        self.encoding = encoding
        self.errors = errors
        self.are_complete = are_complete
        check_encoding("FilePartitionSpout", encoding, errors)

    def declare_output_fields(self, declarer: Any) -> None:
        declarer.declare([ATTEMPT, *self.fields])

    def coordinator(self, conf: Mapping[str, Any], context: TopologyContext) -> TransactionCoordinator:
        return FileCoordinator(self, context.component_id)

    def emitter(self, conf: Mapping[str, Any], context: TopologyContext) -> TransactionEmitter:
        tasks = len(context.component_tasks(context.component_id))
        return FileEmitter(self, context.component_id, context.task_index, tasks)

    def path(self, name: str) -> str:
        """Return the path of a file by its name."""
        return path_of(self.files, name)


class FileCoordinator(TransactionCoordinator):
    """Coordinator. Metadata: ``{"read": {name: bytes assigned so far}, "ranges": [[name, start, end], …]}``."""

    def __init__(self, spout: FilePartitionSpout, component_id: str) -> None:
        self._spout = spout
        self._component_id = component_id
        self._ends = LineEnds(spout.are_complete)

    def initialize_transaction(self, txid: int, previous: Any) -> dict[str, Any]:
        read = {} if previous is None else dict(previous["read"])
        ranges = []
        try:
            sizes = sizes_of(self._spout.files)
        except OSError as error:
            raise self._unreadable(error) from error
        for name, size in sizes:
            start = read.get(name, 0)
            if size < start:
                raise ReportedFailedException(
                    f"component {self._component_id!r}, file {self._spout.path(name)}: {start:,} bytes were already "
                    f"read, but the file has only {size:,}: a file may grow, but never shrink"
                )
            end = self._end(name, start, size)
            if end > start:
                ranges.append([name, start, end])
                read[name] = end
        if not ranges:
            raise FailedException("all lines of all files were read")
        return {"read": read, "ranges": ranges}

    def _end(self, name: str, start: int, size: int) -> int:
        try:
            return self._ends.end(name, self._spout.path(name), start, size, self._spout.max_bytes_per_batch)
        except OSError as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: OSError) -> ReportedFailedException:
        return ReportedFailedException(
            f"component {self._component_id!r}: {error.filename} cannot be read: {error.strerror}"
        )


class FileEmitter(TransactionEmitter):
    """Reads ranges of a batch, as number ``index`` of ``tasks`` emitters. Even with one file, emitters take turns."""

    def __init__(self, spout: FilePartitionSpout, component_id: str, index: int, tasks: int) -> None:
        self._spout = spout
        self._component_id = component_id
        self._index = index
        self._tasks = tasks

    def emit_batch(self, attempt: TransactionAttempt, metadata: Any, collector: BatchCollector) -> None:
        encoding, errors = self._spout.encoding, self._spout.errors
        first = (self._index - attempt.txid) % self._tasks
        for name, start, end in metadata["ranges"][first :: self._tasks]:
            position = start
            for line in self._lines(attempt.txid, name, start, end):
                try:
                    text = line.removesuffix(b"\n").removesuffix(b"\r").decode(encoding, errors)
                except UnicodeDecodeError as error:
                    raise self._fault(
                        name, f"the line at byte {position:,} is not {encoding}: {error.reason}"
                    ) from None
                position += len(line)
                collector.emit([attempt, text])

    def _lines(self, txid: int, name: str, start: int, end: int) -> Iterator[bytes]:
        """Read the lines of a range. The file must be unchanged up to the end of the range."""
        line, left = b"", end - start
        try:
            with open(self._spout.path(name), "rb", buffering=BLOCK) as file:
                file.seek(start)
                while left:
                    line = file.readline(left)
                    if not line:
                        what = f"transaction {txid} reads up to byte {end:,}, but none follows byte {end - left:,}"
                        raise self._fault(name, f"{what}: a file may grow, but never shrink")
                    left -= len(line)
                    yield line
        except OSError as error:
            raise self._fault(name, f"transaction {txid} cannot read it: {error.strerror}") from error
        if not line.endswith(b"\n") and not self._spout.are_complete:
            raise self._fault(name, f"no line ends before byte {end:,} any more: a file may grow, but never change")

    def _fault(self, name: str, what: str) -> ReportedFailedException:
        return ReportedFailedException(f"component {self._component_id!r}, file {self._spout.path(name)}: {what}")
