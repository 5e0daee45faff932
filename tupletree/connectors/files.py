"""Files as a log: each line of each file is a message. Files may grow, and new ones may appear."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tupletree.connectors.arguments import check_flag
from tupletree.connectors.file_blocks import blocks
from tupletree.connectors.file_ranges import LineEnds, absolute, path_of, root_of, sizes_of
from tupletree.connectors.formats import Format, Text
from tupletree.connectors.log_source import Bounds, LogSource
from tupletree.connectors.log_spout import LogSpout
from tupletree.connectors.messages import LogRecord
from tupletree.errors import FailedException, ReportedFailedException

LINES_AT_A_TIME: Final = 4000


class FileLog(LogSource):
    """Files as partitions, named by their paths below the root of ``files`` (file_ranges.py)."""

    title = "files"
    partition_title = "files"
    metadata_fields = ("file", "position")

    def __init__(self, files: str | Path) -> None:
        self.files = absolute(type(self).__name__, files)

    def open(self) -> None:
        pass

    def partitions(self) -> Sequence[str]:
        return [name for name, _ in self.extents()]

    def absence(self) -> str:
        root = root_of(self.files)
        if self.files == root or sizes_of(self.files):
            return ""
        why = f"; it was searched in {root}" if os.path.isdir(root) else f", as there is no directory {root}"
        return f"no file matches the pattern {self.files}{why}; the spout goes on looking"

    def limited(self, partition: str, start: int, end: int, limit: int) -> int:
        if end < start:
            raise ReportedFailedException(
                f"file {self.path(partition)}: {start:,} {self.unit} were already read, but the file has only {end:,}: "
                f"a file may grow, but never shrink"
            )
        return super().limited(partition, start, end, limit)

    def path(self, partition: str) -> str:
        """Return the path of a file by its name."""
        return path_of(self.files, partition)

    def name(self, partition: str) -> str:
        """Return the value of the metadata field ``file``."""
        return os.path.basename(self.files) if partition == "." else partition

    def close(self) -> None:
        pass


class TextFileLog(FileLog):
    r"""The lines of files, without their line ends (``\n`` or ``\r\n``). Partitions are files; positions are bytes.

    ``files``: a directory, of which all files are read except hidden files and files in subdirectories; a single file;
    or a pattern such as ``/data/**/*.log``. The files must exist at the same path on every machine where the topology
    can run.

    ``are_complete``: nothing will be appended, so a last line without a line end is a message too, and a spout that has
    read all files is at its end. Otherwise this line waits for its line end.

    ``header``: True to skip the first line of each file, which begins behind a byte order mark of UTF-8.

    A file must only grow. A file that is shorter than what was read of it is reported until it is as long again. Do not
    reuse file names: a new file under an old name is not read from its beginning.

    Raises UsageError if ``files`` is not a path.
    """

    units_per_message = 200
    unit = lag_unit = "bytes"

    def __init__(self, files: str | Path, *, are_complete: bool = False, header: bool = False) -> None:
        super().__init__(files)
        check_flag(type(self).__name__, "are_complete", are_complete)
        check_flag(type(self).__name__, "header", header)
        self.are_complete = are_complete
        self.header = header
        self.reader = "a spout"  # named in errors
        self._ends = LineEnds(are_complete)

    def bounds(self, partition: str) -> Bounds:
        """Return 0 and the size of a file, which may be in the middle of a line."""
        try:
            return Bounds(0, os.stat(self.path(partition)).st_size)
        except OSError as error:
            raise FailedException(f"file {self.path(partition)} cannot be read: {error.strerror}") from error

    def extents(self) -> Sequence[tuple[str, Bounds]]:
        return [(name, Bounds(0, size)) for name, size in sizes_of(self.files)]

    def limited(self, partition: str, start: int, end: int, limit: int) -> int:
        super().limited(partition, start, end, limit)
        try:
            return self._ends.end(partition, self.path(partition), start, end, limit)
        except OSError as error:
            raise ReportedFailedException(f"{error.filename} cannot be read: {error.strerror}") from error

    def read(self, partition: str, start: int, end: int) -> Iterator[Sequence[LogRecord]]:
        for position, lines in self.lines(partition, start, end):
            records = _records(self.name(partition), lines, position, end)
            for at in range(0, len(records), LINES_AT_A_TIME):
                yield records[at : at + LINES_AT_A_TIME]

    def lines(self, partition: str, start: int, end: int) -> Iterator[tuple[int, list[bytes]]]:
        r"""Yield the lines of a range, without ``\n`` but with ``\r``, in lists with the position of the first.

        For readers that need no more: a record for each line takes five times as long.
        """
        path = self.path(partition)
        is_first = start == 0
        for position, block in blocks(path, start, end, start, end, are_complete=self.are_complete, reader=self.reader):
            lines = block.split(b"\n")
            if not lines[-1]:
                lines.pop()
            skipped = len(lines.pop(0)) + 1 if self.header and is_first else 0
            is_first = False
            yield position + skipped, lines

    def place(self, partition: str, position: int) -> str:
        return f"file {self.path(partition)}: the line at byte {position:,}"


def _records(name: str, lines: Sequence[bytes], position: int, end: int) -> list[LogRecord]:
    """Return lines that begin at ``position`` as records. Only the line before ``end`` can lack its line end."""
    records: list[LogRecord] = []
    for line in lines:
        after = min(position + len(line) + 1, end)
        records.append(LogRecord(line.removesuffix(b"\r"), position, after, (name, position)))
        position = after
    return records


class FileSpout(LogSpout):
    """Emits the lines of files at least once, by default as text in a field ``line``: see TextFileLog and LogSpout.

    ``format``: decodes a line: ``Json(["user", "amount"])`` for JSON lines, ``Csv(["user", "amount"])`` with
    ``header=True`` for CSV. ``metadata``: "file", the path below the directory or the fixed part of
    the pattern, or the name of a single file; "position".
    """

    def __init__(
        self,
        files: str | Path,
        format: Format | None = None,
        *,
        are_complete: bool = False,
        header: bool = False,
        metadata: Sequence[str] = (),
        log_id: str | None = None,
        max_ahead: int = 1_000_000,
    ) -> None:
        source = TextFileLog(files, are_complete=are_complete, header=header)
        super().__init__(source, format or Text("line"), metadata=metadata, log_id=log_id, max_ahead=max_ahead)
