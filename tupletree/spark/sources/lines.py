"""Lines of files, read in blocks: the common base of TextFiles, JsonLines and CsvFiles."""

from __future__ import annotations

import codecs
import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from tupletree.connectors.file_blocks import blocks
from tupletree.connectors.file_ranges import absolute, byte_size, check_encoding
from tupletree.connectors.files import TextFileLog
from tupletree.spark.source import Source
from tupletree.spark.sources.files import FilesSpout
from tupletree.spark.sources.pieces import cut, pieces

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
        return FilesSpout(TextFileLog(self.files, are_complete=self.are_complete), self.max_bytes_per_batch)

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
