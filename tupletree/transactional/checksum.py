"""Collectors that detect differences between two emissions of a batch, by number of tuples and by checksum."""

from __future__ import annotations  # pure

import zlib
from collections.abc import Sequence
from typing import Any

from tupletree._wire.codec import encode_value
from tupletree.errors import UnregisteredTypeError
from tupletree.transactional.attempt_field import plain_row, without_attempt
from tupletree.transactional.bolts import BatchCollector

CHUNK = 256


class CountingCollector(BatchCollector):
    """Passes tuples on and counts them in ``rows``."""

    def __init__(self, collector: BatchCollector) -> None:
        self.rows = 0
        self._collector = collector

    def emit(self, values: Sequence[Any], stream: str = "default") -> tuple[int, ...]:
        values = plain_row(values)
        tasks = self._collector.emit(values, stream)
        self._add(values, stream)
        return tasks

    def emit_direct(self, task: int, values: Sequence[Any], stream: str = "default") -> None:
        values = plain_row(values)
        self._collector.emit_direct(task, values, stream)
        self._add(values, stream)

    def report_error(self, error: BaseException) -> None:
        self._collector.report_error(error)

    def _add(self, values: Sequence[Any], stream: str) -> None:
        self.rows += 1


class ChecksumCollector(CountingCollector):
    """Also computes a checksum over the tuples in order: their streams, and their values without the attempt.

    Chunks have a fixed number of tuples, so the checksum is the same for single and bulk emits.
    """

    def __init__(self, collector: BatchCollector) -> None:
        super().__init__(collector)
        self._pending: list[list[Any]] = []
        self._sum: int | None = 0

    def checksum(self) -> int | None:
        """Return the checksum of all emitted tuples, or None if a value cannot be encoded. Call this once, at the end.

        A value that cannot be encoded can be emitted only within its process. Batches are then compared only by number
        of tuples.
        """
        self._add_chunk()
        return self._sum

    def _add(self, values: Sequence[Any], stream: str) -> None:
        super()._add(values, stream)
        self._pending.append([stream, *without_attempt(values)])
        if len(self._pending) >= CHUNK:
            self._add_chunk()

    def _add_chunk(self) -> None:
        if self._sum is not None and self._pending:
            try:
                self._sum = zlib.crc32(encode_value(self._pending), self._sum)
            except UnregisteredTypeError:
                self._sum = None
        self._pending = []
