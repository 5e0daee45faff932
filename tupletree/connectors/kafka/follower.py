"""The common part of the followers of topics (shares.py): messages, errors, lag, back-pressure and commits.

A member's partitions come and go inside calls of the client, which poll and idle make: callbacks gather the events that
the next poll returns. A commit says up to where messages are processed, so that Kafka's own tools see the group's lag.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from tupletree.connectors.kafka.client import connection_error, connection_errors, kafka, text_of
from tupletree.connectors.kafka.positions import Place, place_named
from tupletree.connectors.log_source import Assigned, DeletedError, LogEvent, LogFollower, Records, Revoked, Rewound
from tupletree.connectors.messages import LogRecord
from tupletree.errors import FailedException

ENDS_S: Final = 1.0
"""The maximum time that a look at the ends of partitions takes; after a failure, the next look comes later."""
ENDS_AGAIN_S: Final = 10.0
UNKNOWN_S: Final = 30.0
"""The time after which it is reported that ends are not known, and again after as long."""
GONE_S: Final = 10.0
"""The time between two answers that a partition is not there, after which it counts as deleted."""
ANSWER_S: Final = 10.0
"""The maximum time that a question to the brokers takes."""
AWAY_S: Final = 10.0
"""The time after which a connection counts as lost, if no broker answers."""
PAUSE_AFTER_S: Final = 1.0
"""The time without polls after which partitions are paused. A pause drops what was fetched ahead."""
RETRY_EVERY_S: Final = 1.0
"""The time between two attempts to commit."""


class KafkaFollower(LogFollower):
    """The common part: messages, lag and commits. A subclass fills ``_next`` and ``_events``.

    ``records_of``: makes records of the client's messages. ``commits``: false if no group is named.
    """

    def __init__(
        self, config: Mapping[str, Any], records_of: Callable[[Sequence[Any]], list[LogRecord]], *, commits: bool
    ) -> None:
        self._client = kafka()
        self._config = config
        with connection_errors(self._config):
            self._consumer = self._client.Consumer({**config, "on_commit": self._on_commit, "error_cb": self._on_error})
        self._records_of = records_of
        self._commits = commits
        self._is_incremental = True  # assignments change partition by partition
        self._next: dict[str, int] = {}  # partition -> the position after what was polled
        self._names: dict[tuple[str, int], str] = {}
        self._events: list[LogEvent] = []
        self._held: Sequence[Any] = ()  # messages that arrived while partitions were about to be paused
        self._failures: list[FailedException] = []
        self._processed: dict[str, int] = {}
        self._uncommitted: dict[str, int] = {}
        self._retry_at_s = 0.0
        self._polled_s = time.monotonic()
        self._is_paused = False
        self._away_at_s = 0.0  # when to look if a broker answers; 0 if one has
        self._ends_at_s = 0.0  # when brokers may be asked for the ends of partitions
        self._unknown_s = math.inf  # since when ends are not known
        self._missed: dict[str, float] = {}  # partitions said not to be there, and when to ask again
        self._gone: set[str] = set()  # and said so again; nothing has come of them since

    def poll(self, limit: int, wait_s: float) -> Sequence[LogEvent]:
        self._polled_s = time.monotonic()
        if self._is_paused:
            self._is_paused = False
            self._consumer.resume(self._assignment())
        if self._failures:
            raise self._failures.pop(0)
        self._look()
        with connection_errors(self._config):
            messages, self._held = self._held, ()
            messages = messages or self._consumer.consume(limit, 0) or self._consumer.consume(1, wait_s)
        events, self._events = self._events, []
        events += self._records(self._of_this_assignment(messages, events))
        if self._failures and not events:
            raise self._failures.pop(0)
        return events

    def processed(self, positions: Mapping[str, int]) -> None:
        if self._commits:
            self._processed.update(positions)
            self._uncommitted.update(positions)
            self._commit(is_async=True)

    def lag(self) -> int | None:
        total = 0
        for name, position in self._next.items():
            _, end = self._consumer.get_watermark_offsets(self._at(name), cached=True)
            if end < 0:
                return None
            total += max(0, end - position)
        return total

    def ends(self) -> Mapping[str, float] | None:
        share, now_s = self._share_now(), time.monotonic()
        if not share or now_s < self._ends_at_s:
            return None if share is None or share else {}
        ends: dict[str, float] = {name: math.inf for name in share if name not in self._gone}
        names = [name for name in self._next if name in ends]
        together = [name for name in names if name not in self._missed]  # all fail if one is not there
        alone = [name for name in names if now_s >= self._missed.get(name, math.inf)]
        try:
            if not self._find_ends(together, ends):
                alone += together
            for name in alone:
                if not self._find_ends([name], ends):
                    self._miss(name, ends)
        except self._client.KafkaException as error:
            self._ends_at_s = now_s + ENDS_AGAIN_S
            self._report_unknown(sorted(ends), text_of(error))
            return None
        self._report_unknown(sorted(name for name, end in ends.items() if end == math.inf))
        return ends

    def _report_unknown(self, names: Sequence[str], cause: str = "no broker says so") -> None:
        """Report that ends of partitions are not known, if that is so for long. The next poll raises it."""
        now_s = time.monotonic()
        if not names:
            self._unknown_s = math.inf
        elif now_s < self._unknown_s + UNKNOWN_S:
            self._unknown_s = min(self._unknown_s, now_s)
        else:
            self._unknown_s = now_s
            where = f"{place_named(names[0])}{f' and {len(names) - 1} more end' if names[1:] else ' ends'}"
            what = f"it is not known where {where}, so event time may stand still, unless there is an idle_timeout"
            self._failures.append(FailedException(f"Kafka: {what}: {cause}"))

    def _find_ends(self, names: Sequence[str], ends: dict[str, float]) -> bool:
        """Ask the brokers where partitions end. Return false if one is not there, and there is no answer for others."""
        asked = [self._at(name, self._client.OFFSET_END) for name in names]
        try:
            answers = self._consumer.offsets_for_times(asked, timeout=ENDS_S) if asked else []
        except self._client.KafkaException as error:
            if self._is_gone(error.args[0]):
                return False
            raise
        for at in answers:
            name = Place(at.topic, at.partition).name
            if at.error is None and at.offset >= 0:
                ends[name] = at.offset
                self._missed.pop(name, None)
            elif self._is_gone(at.error):
                self._miss(name, ends)
        return True

    def _miss(self, name: str, ends: dict[str, float]) -> None:
        """Leave out a partition that is said not to be there, if that was said before."""
        now_s = time.monotonic()
        if now_s >= self._missed.setdefault(name, now_s + GONE_S):
            self._back(name)
            self._gone.add(name)
            del ends[name]

    def _back(self, name: str) -> None:
        """Take note that a partition is there, as far as is known."""
        self._missed.pop(name, None)
        self._gone.discard(name)

    def _is_gone(self, error: Any) -> bool:
        codes = self._client.KafkaError
        return error is not None and error.code() in {codes._UNKNOWN_PARTITION, codes.UNKNOWN_TOPIC_OR_PART}

    def _share_now(self) -> Collection[str] | None:
        """Return the partitions of the share, also those that cannot be read yet; None if that is not known."""
        raise NotImplementedError

    def idle(self, wait_s: float) -> None:
        """Wait. After a second, partitions are paused, and the client is called, so that a group keeps its member."""
        if time.monotonic() - self._polled_s < PAUSE_AFTER_S:
            time.sleep(wait_s)
            return
        with connection_errors(self._config):
            if not self._is_paused:
                self._is_paused = True
                self._consumer.pause(self._assignment())
            self._held = [*self._held, *self._consumer.consume(1, wait_s)]
        self._look()

    def close(self) -> None:
        with contextlib.suppress(self._client.KafkaException, RuntimeError):
            self._commit(is_async=False)
        with contextlib.suppress(self._client.KafkaException, RuntimeError):
            self._consumer.close()

    # Messages

    def _of_this_assignment(self, messages: Sequence[Any], events: Sequence[LogEvent]) -> Sequence[Any]:
        """Drop what was fetched before a partition was revoked and assigned again within one call of the client."""
        revoked = {event.partition for event in events if isinstance(event, Revoked)}
        again = [event for event in events if isinstance(event, Assigned) and event.partition in revoked]
        if not again or not messages:
            return messages
        for event in again:
            self._consumer.seek(self._at(event.partition, event.start))
        names = {event.partition for event in again}
        return [one for one in messages if f"{one.topic()}/{one.partition()}" not in names]

    def _records(self, messages: Sequence[Any]) -> list[Records]:
        """Return messages by partition. Messages of a partition that is not assigned are dropped."""
        found: dict[str, list[LogRecord]] = {}
        kind = self._client.Message
        for partition, run in groupby(messages, kind.partition):  # messages of a partition come together
            for topic, of_topic in groupby(run, kind.topic):
                at, part = (topic, partition), list(of_topic)
                name = self._names.get(at) or self._names.setdefault(at, f"{topic}/{partition}")
                self._add(name, part, found)
        events = []
        for name, records in found.items():
            self._next[name] = max(self._next[name], records[-1].next if records else 0)
            self._back(name)
            events.append(Records(name, records, self._next[name]))
            self._away_at_s = 0.0
        return events

    def _add(self, name: str, messages: Sequence[Any], found: dict[str, list[LogRecord]]) -> None:
        """Add messages of a partition to what is found, and take note of errors in their order."""
        if not [one for one in messages if one.error() is not None]:
            if name in self._next:
                found.setdefault(name, []).extend(self._records_of(messages))
            return
        for message in messages:
            if message.error() is not None:
                self._failed(name, message, found)
            elif name in self._next:
                found.setdefault(name, []).extend(self._records_of([message]))

    def _failed(self, name: str, message: Any, found: dict[str, list[LogRecord]]) -> None:
        """Take note of an error. Most are temporary: the client tries again."""
        error, codes = message.error(), self._client.KafkaError
        if error.code() == codes._PARTITION_EOF:
            if name in self._next and message.offset() >= self._next[name]:
                self._next[name] = message.offset()
                found.setdefault(name, [])
        elif error.code() in {codes._AUTO_OFFSET_RESET, codes.OFFSET_OUT_OF_RANGE} and name in self._next:
            self._failures.append(self._reset(name, found))
        elif error.fatal():
            raise connection_error(self._config, error.str())
        elif not error.retriable() and error.code() not in {codes._TRANSPORT, codes._RESOLVE, codes._TIMED_OUT}:
            self._failures.append(FailedException(f"Kafka: {error.str()}"))

    def _on_error(self, error: Any) -> None:
        """Called by the client for errors that are not of one partition."""
        if error.code() == self._client.KafkaError._ALL_BROKERS_DOWN:
            self._away_at_s = self._away_at_s or time.monotonic() + AWAY_S
            self._failures.append(FailedException(f"Kafka: {error.str()}"))

    def _reset(self, name: str, found: dict[str, list[LogRecord]]) -> FailedException:
        """Go on with the first message that is left of a partition."""
        place, position = place_named(name), self._next[name]
        self._back(name)
        with connection_errors(self._config):
            first, end = self._consumer.get_watermark_offsets(self._at(name), timeout=ANSWER_S)
            self._next[name] = first
            if self._is_incremental:  # the client cannot seek after such an error
                self._consumer.incremental_unassign([self._at(name)])
                self._consumer.incremental_assign([self._at(name, first)])
            else:
                self._consumer.assign([self._at(one, at) for one, at in self._next.items()])
        if position < first:
            what = f"offsets {position:,} to {first - 1:,} were deleted before they were read"
            return DeletedError(f"{place}: {what}", first)
        found.pop(name, None)  # of the earlier topic
        self._events.append(Rewound(name, first))
        return FailedException(
            f"{place}: the log ends at offset {end:,}, before offset {position:,}, up to which it was read: it is read "
            f"from its beginning, as the log of a topic that was created again"
        )

    def _look(self) -> None:
        """Commit again what was not committed. Raise ConnectionError if no broker has answered for ``AWAY_S``."""
        now_s = time.monotonic()
        if self._uncommitted and now_s >= self._retry_at_s:
            self._retry_at_s = now_s + RETRY_EVERY_S
            self._commit(is_async=True)
        if self._away_at_s and now_s >= self._away_at_s:
            with connection_errors(self._config):
                self._consumer.list_topics(timeout=1)
            self._away_at_s = 0.0

    # Commits

    def _commit(self, *, is_async: bool, names: Sequence[str] | None = None) -> None:
        offsets = [self._at(name, at) for name, at in self._uncommitted.items() if names is None or name in names]
        if not offsets or not self._commits:
            return
        for at in offsets:
            del self._uncommitted[Place(at.topic, at.partition).name]
        try:
            self._consumer.commit(offsets=offsets, asynchronous=is_async)
        except self._client.KafkaException as error:
            raise FailedException(f"Kafka: what is processed is not committed: {text_of(error)}") from error

    def _on_commit(self, error: Any, offsets: Sequence[Any]) -> None:
        """Have the newest offsets committed again, if a commit failed: it may not have been the last one."""
        for at in offsets:
            name = Place(at.topic, at.partition).name
            if (error is not None or at.error is not None) and name in self._processed:
                self._uncommitted[name] = self._processed[name]

    def _assignment(self) -> list[Any]:
        return [self._at(name) for name in self._next]

    def _at(self, name: str, offset: int | None = None) -> Any:
        place = place_named(name)
        at = self._client.TopicPartition
        return at(place.topic, place.partition) if offset is None else at(place.topic, place.partition, offset)
