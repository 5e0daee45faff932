"""Lines of files, read in blocks: the common base of TextFiles, JsonLines and CsvFiles.

If a range is cut into pieces, at any byte, a line belongs to the piece in which the line begins. ``[start, end)`` means
the bytes from the first line that begins at ``start`` or later to the first line that begins at ``end`` or later. Two
adjacent pieces compute the same position for their boundary.
"""

from __future__ import annotations

import codecs
import contextlib
import functools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from tupletree.errors import ReportedFailedException
from tupletree.spark.source import Source
from tupletree.spark.sources.files import FilesSpout, LineExtent, absolute, pieces
from tupletree.spark.sources.ranges import cut
from tupletree.transactional.file_ranges import byte_size, check_encoding, first_line_end

BLOCK_BYTES = 1 << 22
"""Number of bytes that are read, and become a record batch, at a time."""

PIECE_BYTES = 1 << 20
"""Minimum number of bytes per task: each task costs a Python worker of Spark some tens of milliseconds."""


class LineFiles(Source):
    """Files of lines, as rows of one column ``value``. The arguments are explained at TextFiles."""

    schema: str | StructType = "value STRING"
    skips_first_line = False
    """True to skip the first line of each file."""

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
        """Return the lines of a block as one string, separated by LF. Arrow itself checks for valid UTF-8."""
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
        """Return an error that names the byte that cannot be decoded."""
        for line in block.split(b"\n"):
            try:
                line.decode(self.encoding)
            except UnicodeDecodeError as error:
                where = f"byte {position + error.start:,}, in the line that begins at byte {position:,},"
                return ValueError(f"file {path}: {where} is not {self.encoding}: {error.reason}")
            position += len(line) + 1
        return ValueError(f"file {path}: the text that begins at byte {position - len(block):,} is not {self.encoding}")


def blocks(
    path: str, start: int, end: int, first: int, last: int, *, are_complete: bool
) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a piece in blocks, each with its position. ReportedFailedException if lines are missing."""
    try:
        with open(path, "rb", buffering=0) as file:
            position = _line_start(file, start, first, last)
            stop = _line_start(file, end, first, last)
            file.seek(position)
            yield from _blocks(file, path, position, stop, are_complete and stop == last)
    except OSError as error:
        raise ReportedFailedException(f"file {path} cannot be read: {error.strerror}") from error


def _blocks(file: Any, path: str, position: int, stop: int, may_lack_end: bool) -> Iterator[tuple[int, bytes]]:
    rest: list[bytes] = []  # parts of an incomplete line
    reached = position
    while reached < stop:
        data = file.read(min(BLOCK_BYTES, stop - reached))
        if not data:
            raise ReportedFailedException(
                f"file {path}: bytes up to {stop:,} were expected, but there are none after byte {reached:,}: a file "
                f"may grow, but never shrink"
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
    """Return the start of the first line at ``position`` or later, in the range from ``first`` to ``last``."""
    if position <= first:
        return first
    return first_line_end(file, position - 1, last)[0] or last
