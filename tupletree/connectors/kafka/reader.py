"""Reader of ranges of offsets: for transactional spouts, and for Spark's Python workers.

A range is read when the reader has passed its end, not when a number of messages has arrived: compaction, aborted
transactions and transaction markers leave offsets without messages. The reader has passed the end at the first message
beyond it, or when the broker reports that the log ends there or later.

Any error reported by the client fails the range, except temporary errors. For example, the client reports a block that
it cannot decode and then skips the block, whose messages must not be lost silently.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tupletree.connectors.kafka.client import kafka
from tupletree.connectors.kafka.positions import Place
from tupletree.connectors.log_batches import lost
from tupletree.connectors.log_source import DeletedError
from tupletree.errors import FailedException

MAX_MESSAGES: Final = 10_000
"""The maximum number of messages in a list."""
MAX_BYTES: Final = 64 << 20
"""The approximate maximum size of the keys and values in a list. A column of Arrow cannot hold more than 2 GB."""

POLL_S: Final = 0.1


class RangeReader:
    """Reads range after range with one consumer. A range that begins where the last one ended is fetched ahead.

    ``timeout_s``: the maximum time to wait for a broker that sends nothing.
    """

    def __init__(self, config: Mapping[str, Any], timeout_s: float) -> None:
        self._client = kafka()
        self._config = config
        self._timeout_s = timeout_s
        self._consumer: Any = None
        self._place: Place | None = None  # what the consumer is assigned
        self._start = self._end = self._position = 0
        self._is_done = True  # all of the range was yielded
        self._ahead: list[Any] = []  # what came after the end of the range
        self._problem = ""
        codes = self._client.KafkaError
        # Errors after which the client tries again.
        self._passing = {
            codes._ALL_BROKERS_DOWN,
            codes._TRANSPORT,
            codes._RESOLVE,
            codes._TIMED_OUT,
            codes._UNKNOWN_PARTITION,
            codes._UNKNOWN_TOPIC,
            codes.LEADER_NOT_AVAILABLE,
            codes.NOT_LEADER_FOR_PARTITION,
            codes.UNKNOWN_TOPIC_OR_PART,
            codes.GROUP_AUTHORIZATION_FAILED,  # no group is used
        }

    def read(self, place: Place, start: int, end: int) -> Iterator[list[Any]]:
        """Yield the client's messages of a range, in lists. ``_position``: all before it were read, or do not exist.

        Raises FailedException after the timeout, and DeletedError if messages were deleted.
        """
        if start >= end:
            return
        self._seek(place, start, end)
        messages: list[Any] = []
        size = 0
        deadline_s = time.monotonic() + self._timeout_s
        while self._position < end:
            before = self._position
            for message in self._messages():
                if self._position >= end:
                    self._ahead.append(message)
                elif self._advance(message):
                    messages.append(message)
                    size += len(message.key() or b"") + len(message.value() or b"")
                if len(messages) >= MAX_MESSAGES or size >= MAX_BYTES:
                    yield messages
                    messages, size = [], 0
            if self._position > before:
                deadline_s = time.monotonic() + self._timeout_s
            elif time.monotonic() > deadline_s:
                raise self._unavailable(f"no data arrived for {self._timeout_s:g} s: {self._problem}")
        if messages:
            yield messages
        self._position = end
        self._is_done = True

    def close(self) -> None:
        """Disconnect."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()

    def _seek(self, place: Place, start: int, end: int) -> None:
        if self._consumer is None:
            # Prefetch no more than a range, as far as the client can be configured.
            prefetch = max(1, min(100_000, end - start))
            self._consumer = self._client.Consumer({**self._config, "queued.min.messages": prefetch})
        if place != self._place or start != self._position or not self._is_done:
            self._consumer.assign([self._client.TopicPartition(place.topic, place.partition, start)])
            self._ahead = []
        self._place, self._start, self._end, self._position = place, start, end, start
        self._is_done = False
        self._problem = "no broker has answered"

    def _messages(self) -> Sequence[Any]:
        """Return the buffered messages, or wait for a single one. A wait for many would last until all are there."""
        ahead, self._ahead = self._ahead, []
        limit = max(1, min(MAX_MESSAGES, self._end - self._position))
        found: Sequence[Any] = (
            ahead or self._consumer.consume(limit, timeout=0) or self._consumer.consume(1, timeout=POLL_S)
        )
        return found

    def _advance(self, message: Any) -> bool:
        """Move the position behind a message. Return true if the message is one of the range."""
        error = message.error()
        if error is None:
            offset = message.offset()
            if offset < self._end:
                self._position = offset + 1
                return True
            self._position = self._end
            self._ahead.append(message)
        elif error.code() == self._client.KafkaError._PARTITION_EOF:
            self._position = max(self._position, message.offset())
            if self._position > self._end:
                self._ahead.append(message)
            self._problem = f"the log ends at offset {message.offset():,}"
        elif error.code() in self._passing:
            self._problem = error.str()
        elif error.code() in {
            self._client.KafkaError._AUTO_OFFSET_RESET,
            self._client.KafkaError.OFFSET_OUT_OF_RANGE,
        }:
            raise self._out_of_range(error)
        else:
            raise self._unavailable(error.str())
        return False

    def _out_of_range(self, error: Any) -> FailedException:
        assert self._place is not None
        at = self._client.TopicPartition(self._place.topic, self._place.partition)
        try:
            first, end = self._consumer.get_watermark_offsets(at, timeout=self._timeout_s)
        except self._client.KafkaException:
            return self._unavailable(error.str())
        if first <= self._position:
            return self._unavailable(f"{error.str()}; the log now ends at offset {end:,}")
        return DeletedError(self._sentence(lost(self._position, min(first, self._end))), first)

    def _unavailable(self, what: str) -> FailedException:
        return FailedException(self._sentence(f"at offset {self._position:,}: {what}"))

    def _sentence(self, what: str) -> str:
        where = self._config["bootstrap.servers"]
        wanted = f"while reading offsets {self._start:,} to {self._end - 1:,}"
        return f"{self._place} of the brokers {where}, {wanted}: {what}"
