"""A transactional spout over files: each line of each file takes effect exactly once, and files can still grow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tupletree.attempt import TransactionAttempt
from tupletree.component import TopologyContext
from tupletree.connectors.file_ranges import absolute, byte_size, check_encoding
from tupletree.connectors.files import TextFileLog
from tupletree.connectors.formats import Text
from tupletree.connectors.log_plans import Plan, plan_each
from tupletree.connectors.log_source import LogSource
from tupletree.errors import ReportedFailedException, UsageError
from tupletree.transactional.attempt_field import ATTEMPT
from tupletree.transactional.bolts import BatchCollector
from tupletree.transactional.planned_log import PlannedLogSpout, RangesEmitter


class FilePartitionSpout(PlannedLogSpout):
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

    plan: Plan = staticmethod(plan_each)

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
        owner = "FilePartitionSpout"
        files = absolute(owner, files)
        if isinstance(fields, str) or len(fields) != 1 or fields[0] == ATTEMPT:
            raise UsageError(f"{owner}: fields is {fields!r}; a list with one name other than 'attempt' was expected")
        limit = byte_size(owner, "max_bytes_per_batch", max_bytes_per_batch)
        check_encoding(owner, encoding, errors)
        super().__init__(TextFileLog(files, are_complete=are_complete), Text(fields[0]), limit=limit)
        self.encoding = encoding
        self.errors = errors

    def emitter(self, conf: Mapping[str, Any], context: TopologyContext) -> RangesEmitter:
        return LinesEmitter(self, context)


class LinesEmitter(RangesEmitter):
    """Emits lines in the spout's encoding. A line that is not in this encoding fails the batch."""

    def __init__(self, spout: FilePartitionSpout, context: TopologyContext) -> None:
        super().__init__(spout, context)
        self._encoding = spout.encoding
        self._errors = spout.errors

    def emit_range(
        self, source: LogSource, attempt: TransactionAttempt, range: Sequence[Any], collector: BatchCollector
    ) -> None:
        name, start, end = range
        encoding, errors = self._encoding, self._errors
        assert isinstance(source, TextFileLog)
        source.reader = f"transaction {attempt.txid}"
        for position, lines in source.lines(name, start, end):
            for index, line in enumerate(lines):
                try:
                    text = line.removesuffix(b"\r").decode(encoding, errors)
                except UnicodeDecodeError as error:
                    place = source.place(name, position + sum(len(before) + 1 for before in lines[:index]))
                    raise ReportedFailedException(f"{place} is not {encoding}: {error.reason}") from None
                collector.emit([attempt, text])
