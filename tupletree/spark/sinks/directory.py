"""Results as files, one directory per batch. The commit of a batch is in directory_batches.py."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tupletree.attempt import TransactionAttempt
from tupletree.errors import UnavailableError, UsageError
from tupletree.spark.sink import Sink, SinkScope
from tupletree.spark.sinks.directory_batches import BatchDirectories

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_FULL = re.compile(r"No space left on device|Disk quota exceeded")


class _Directory(Sink):
    """Common base of both directory sinks."""

    kind = ""
    compressions: tuple[str, ...] = ()

    def __init__(self, path: str | Path, *, compression: str | None = None) -> None:
        name = type(self).__name__
        if compression is not None and compression not in self.compressions:
            raise UsageError(
                f"{name}: compression is {compression!r}; one of {', '.join(self.compressions)} was expected"
            )
        self.path = _local_path(name, path)
        self._compression = compression
        self._batches = BatchDirectories(self.path, self.kind)
        self._is_opaque = False
        self._positions: dict[TransactionAttempt, Mapping[str, int]] = {}  # of batches that are not sealed

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path!r}>"

    @property
    def target(self) -> str:
        return f"directory {self.path}"

    def open(self, scope: SinkScope) -> None:
        self._is_opaque = scope.is_opaque
        self._batches.open(scope.transactional_id)

    def stage_positions(self, attempt: TransactionAttempt, positions: Mapping[str, int]) -> None:
        self._positions[attempt] = positions

    def stage(self, attempt: TransactionAttempt, result: DataFrame) -> None:
        positions = self._positions.pop(attempt, {})
        self._check_columns(result.columns)
        writer = result.write.format(self.kind)
        if self._compression is not None:
            writer = writer.option("compression", self._compression)
        staged = self._batches.begin(attempt)
        try:
            writer.save(f"file://{staged}")
            self._batches.seal(attempt, positions)
        except Exception as error:
            self._batches.discard(attempt)
            if full := _FULL.search(f"{error} {getattr(error, '_stackTrace', '')}"):
                raise UnavailableError(f"{self.path}: {full[0]}") from error
            raise

    def commit(self, attempt: TransactionAttempt, staged: Any) -> None:
        self._batches.commit(attempt, self._is_opaque)

    def discard(self, attempt: TransactionAttempt, staged: Any) -> None:
        self._batches.discard(attempt)

    def _check_columns(self, columns: list[str]) -> None:
        lower = [column.lower() for column in columns]
        for column in columns:
            if column.lower() == "txid":
                raise UsageError(
                    f"{self!r}: the result has a column {column!r}, a name reserved for the batch directories"
                )
            if lower.count(column.lower()) > 1:
                raise UsageError(f"{self!r}: the result has column {column!r} twice; upper and lower case are the same")


class ParquetDirectory(_Directory):
    """Each batch becomes a directory of Parquet files, ``<path>/txid=<20 digits>``.

    ``spark.read.parquet(path)`` reads all committed batches and shows the txid as an additional column. A reader never
    sees a part of a batch. If a newer attempt replaces a batch while it is being read (only sources with the opaque
    rule, after a crash), the reader can find its files gone and must start again.

    Args:
        path: a local directory, or a directory on a shared file system that the executors see at the same path. A
            relative path is relative to the directory in which this object is made. The directory belongs to one
            pipeline. Other file systems (s3://, hdfs://) have no suitable rename: write to them in a ForeachBatch.
        compression: none, snappy, gzip, lz4 or zstd; None: Spark's configured default.

    Directories of old batches may be moved or deleted at any time, except the newest: its name is the note of the last
    commit. If the pipeline reads topics (KafkaTopics), each batch has a note of the offsets after it, with which a
    ParquetHistory of ``tupletree.streams`` goes on.
    """

    kind = "parquet"
    compressions = ("none", "snappy", "gzip", "lz4", "zstd")


class JsonDirectory(_Directory):
    """Each batch becomes a directory of files of JSON lines. Otherwise same as ParquetDirectory.

    ``spark.read.json(path)`` reads all committed batches. Spark omits NULLs from the lines.

    Args:
        path: as for ParquetDirectory.
        compression: none, gzip, bzip2 or deflate; None: none.
    """

    kind = "json"
    compressions = ("none", "gzip", "bzip2", "deflate")


def _local_path(name: str, path: str | Path) -> str:
    if not isinstance(path, str | Path) or not str(path):
        raise UsageError(f"{name}: path is {path!r}; the path of a directory was expected")
    text = os.fspath(path)
    if match := re.match(r"([A-Za-z][A-Za-z0-9+.-]*):/(.*)", text, re.DOTALL):
        scheme, rest = match[1].lower(), "/" + match[2]
        if scheme != "file" or (rest.startswith("//") and not rest.startswith("///")):
            raise UsageError(
                f"{name}: path is {text!r}; a directory on this machine or a shared file system was expected; use"
                " ForeachBatch for other file systems"
            )
        text = "/" + rest.lstrip("/")
    return os.path.abspath(text)
