"""Whether two emissions of a batch are the same: their number of tuples, and a checksum over them."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

from tupletree._wire.codec import encode_value
from tupletree.errors import UnregisteredTypeError
from tupletree.transactional.bolts import BatchCollector

CHUNK = 256


class CountingCollector(BatchCollector):
    """Passes tuples on, and counts them: ``rows``."""

    def __init__(self, collector: BatchCollector) -> None:
        self.rows = 0
        self._collector = collector

    def emit(self, values: Sequence[Any], stream: str = "default") -> tuple[int, ...]:
        tasks = self._collector.emit(values, stream)
        self._add(values, stream)
        return tasks

    def emit_direct(self, task: int, values: Sequence[Any], stream: str = "default") -> None:
        self._collector.emit_direct(task, values, stream)
        self._add(values, stream)

    def report_error(self, error: BaseException) -> None:
        self._collector.report_error(error)

    def _add(self, values: Sequence[Any], stream: str) -> None:
        self.rows += 1


class ChecksumCollector(CountingCollector):
    """Also sums the tuples up: streams and values without the attempt, in their order.

    Chunks are cut by number, however the tuples come: emitted one by one or many at a time, the sum is the same.
    """

    def __init__(self, collector: BatchCollector) -> None:
        super().__init__(collector)
        self._pending: list[list[Any]] = []
        self._sum: int | None = 0

    def checksum(self) -> int | None:
        """Of everything emitted so far; None if it holds a value that cannot be encoded. To be called once, at the end.

        Such a value may be emitted as long as it stays in its process; then the number alone tells batches apart.
        """
        self._add_chunk()
        return self._sum

    def _add(self, values: Sequence[Any], stream: str) -> None:
        super()._add(values, stream)
        self._pending.append([stream, *values[1:]])
        if len(self._pending) >= CHUNK:
            self._add_chunk()

    def _add_chunk(self) -> None:
        if self._sum is not None and self._pending:
            try:
                self._sum = zlib.crc32(encode_value(self._pending), self._sum)
            except UnregisteredTypeError:
                self._sum = None
        self._pending = []
