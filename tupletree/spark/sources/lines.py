"""Lines of files, read in blocks: what TextFiles, JsonLines and CsvFiles have in common.

Where a range was cut into pieces, at any byte, a line belongs to the piece that it begins in: ``[start, end)`` stands
for the bytes from the first line that begins at ``start`` or later to the first that begins at ``end`` or later. Two
pieces that touch compute the same place for where they touch.
"""

from __future__ import annotations

import codecs
import contextlib
import functools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from tupletree.errors import ReportedFailedException, UsageError
from tupletree.spark.source import Source
from tupletree.spark.sources.files import FilesSpout, LineExtent, absolute, pieces
from tupletree.spark.sources.ranges import cut
from tupletree.transactional.file_ranges import check_encoding, first_line_end

BLOCK_BYTES = 1 << 22
"""How many bytes are read, and become a record batch, at a time."""

PIECE_BYTES = 1 << 20
"""It is not worth a task of its own to read less: a Python worker of Spark takes some tens of milliseconds for each."""

_UNITS = {"": 1, "B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}


class LineFiles(Source):
    """Files of lines; rows of one column ``value``. The arguments are explained at TextFiles."""

    schema: str | StructType = "value STRING"
    skips_first_line = False
    """Whether the first line of each file is no row."""

    def __init__(
        self,
        files: str | Path,
        max_bytes_per_batch: int | str,
        *,
        are_complete: bool,
        encoding: str,
        errors: str,
    ) -> None:
        owner = type(self).__name__
        self.files = absolute(owner, files)
        self.max_bytes_per_batch = byte_size(owner, "max_bytes_per_batch", max_bytes_per_batch)
        check_encoding(owner, encoding, errors)
        self.are_complete = are_complete
        self.encoding = encoding
        self.errors = errors

    def spout(self) -> FilesSpout:
        return FilesSpout(functools.partial(LineExtent, self.files, self.are_complete), self.max_bytes_per_batch)

    def divide(self, splits: Sequence[Any], tasks: int) -> Sequence[Any]:
        return cut(splits, tasks, PIECE_BYTES)

    def read(self, split: Any) -> Iterator[Any]:
        for piece in pieces(split):
            yield from self._read(*piece)

    def _read(self, path: str, start: int, end: int, first: int, last: int) -> Iterator[pa.RecordBatch]:
        skips = self.skips_first_line and start == 0
        for position, block in blocks(path, start, end, first, last, are_complete=self.are_complete):
            text = self._text(path, position, block)
            lines = pc.split_pattern(text, "\n").values
            yield pa.RecordBatch.from_arrays([lines[1:] if skips else lines], ["value"])
            skips = False

    def _text(self, path: str, position: int, block: bytes) -> pa.Array:
        """The lines of a block as one string with LF between them. Arrow itself finds out whether bytes are UTF-8."""
        data = block.removesuffix(b"\n").removesuffix(b"\r")
        if b"\r\n" in data:
            data = data.replace(b"\r\n", b"\n")
        if codecs.lookup(self.encoding).name == "utf-8":
            with contextlib.suppress(pa.ArrowInvalid):
                return pa.array([data], pa.binary()).cast(pa.string())
        try:
            text = data.decode(self.encoding, self.errors)
        except UnicodeDecodeError:
            raise self._blame(path, position, block) from None
        return pa.array([text.encode(errors="replace")], pa.binary()).cast(pa.string())

    def _blame(self, path: str, position: int, block: bytes) -> ValueError:
        """Which byte it is that cannot be decoded."""
        for line in block.split(b"\n"):
            try:
                line.decode(self.encoding)
            except UnicodeDecodeError as error:
                where = f"byte {position + error.start:,}, in the line that begins at byte {position:,},"
                return ValueError(f"file {path}: {where} is not {self.encoding}: {error.reason}")
            position += len(line) + 1
        return ValueError(f"file {path}: what begins at byte {position - len(block):,} is not {self.encoding}")


def blocks(
    path: str, start: int, end: int, first: int, last: int, *, are_complete: bool
) -> Iterator[tuple[int, bytes]]:
    """The lines of a piece, many at a time, and where they begin. ReportedFailedException if they are not there."""
    try:
        with open(path, "rb", buffering=0) as file:
            position = _line_start(file, start, first, last)
            stop = _line_start(file, end, first, last)
            file.seek(position)
            yield from _blocks(file, path, position, stop, are_complete and stop == last)
    except OSError as error:
        raise ReportedFailedException(f"file {path} cannot be read: {error.strerror}") from error


def _blocks(file: Any, path: str, position: int, stop: int, may_lack_end: bool) -> Iterator[tuple[int, bytes]]:
    rest: list[bytes] = []  # of a line that is not complete yet
    reached = position
    while reached < stop:
        data = file.read(min(BLOCK_BYTES, stop - reached))
        if not data:
            raise ReportedFailedException(
                f"file {path}: it is to be read up to byte {stop:,}, and it has {reached:,}: a file may grow, but "
                f"never shrink"
            )
        reached += len(data)
        lines = len(data) if reached == stop else data.rfind(b"\n") + 1
        if not lines:
            rest.append(data)
            continue
        block = b"".join([*rest, data[:lines]])
        if reached == stop and not may_lack_end and not block.endswith(b"\n"):
            raise ReportedFailedException(
                f"file {path}: no line ends before byte {stop:,} any more: a file may grow, but never change"
            )
        yield position, block
        position += len(block)
        rest = [data[lines:]]


def _line_start(file: Any, position: int, first: int, last: int) -> int:
    """Where the first line begins at ``position`` or later, in the range from ``first`` to ``last``."""
    if position <= first:
        return first
    return first_line_end(file, position - 1, last)[0] or last


def byte_size(owner: str, name: str, size: int | str) -> int:
    """A number of bytes, such as 4096, "512KB", "4MB" or "1GB". UsageError for anything else."""
    match = re.fullmatch(r"(\d+) ?([KMG]?B)?", size, re.IGNORECASE) if isinstance(size, str) else None
    if match is not None:
        size = int(match[1]) * _UNITS[(match[2] or "").upper()]
    if type(size) is not int or size < 1:
        raise UsageError(f"{owner}: {name} is {size!r}; a number of bytes was expected, such as 4096, '512KB' or '4MB'")
    return size
