"""Followers of topics: members of a consumer group, and readers of a fixed share."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from tupletree.connectors.kafka.client import connection_errors
from tupletree.connectors.kafka.follower import ANSWER_S, KafkaFollower
from tupletree.connectors.kafka.positions import Place
from tupletree.connectors.log_source import Assigned, LogRecord, Revoked
from tupletree.errors import FailedException, ReportedFailedException

LOOK_EVERY_S: Final = 2.0
"""How often a fixed share looks for new partitions."""
LOOK_AGAIN_S: Final = 0.1
"""The time until the next look if brokers have not answered."""


class GroupMember(KafkaFollower):
    """A member of a consumer group. A partition goes on at its committed offset, otherwise at ``begin(name)``.

    What is processed of a partition is committed before another member gets it.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        record_of: Callable[[Any], LogRecord],
        topics: Sequence[str],
        begin: Callable[[str], int],
    ) -> None:
        super().__init__(config, record_of, commits=True)
        self._begin = begin
        self._is_incremental = "cooperative" in str(config["partition.assignment.strategy"])
        self._consumer.subscribe(
            list(topics), on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )

    def _on_assign(self, consumer: Any, partitions: Sequence[Any]) -> None:
        try:
            committed = consumer.committed(list(partitions), timeout=ANSWER_S) if partitions else []
            names = [Place(at.topic, at.partition).name for at in committed]
            starts = [
                at.offset if at.offset >= 0 else self._begin(name) for name, at in zip(names, committed, strict=True)
            ]
        except (FailedException, self._client.KafkaException) as error:
            raise ConnectionError(f"the positions of the group are not known: {error}") from error
        assigned = [self._at(name, start) for name, start in zip(names, starts, strict=True)]
        self._next.update(zip(names, starts, strict=True))
        self._events += map(Assigned, names, starts)
        (consumer.incremental_assign if self._is_incremental else consumer.assign)(assigned)
        if self._is_paused:
            consumer.pause(assigned)

    def _on_revoke(self, consumer: Any, partitions: Sequence[Any]) -> None:
        with contextlib.suppress(FailedException):  # then another member processes some messages again
            self._commit(is_async=False, names=[Place(at.topic, at.partition).name for at in partitions])
        self._on_lost(consumer, partitions)

    def _on_lost(self, consumer: Any, partitions: Sequence[Any]) -> None:
        for at in partitions:
            name = Place(at.topic, at.partition).name
            self._processed.pop(name, None)
            self._uncommitted.pop(name, None)
            if self._next.pop(name, None) is not None:
                self._events.append(Revoked(name))


class ShareReader(KafkaFollower):
    """Reads partitions ``index``, ``index + tasks``, … of a log. ``begin(name)``: where one without position begins."""

    def __init__(
        self,
        config: Mapping[str, Any],
        record_of: Callable[[Any], LogRecord],
        positions: Mapping[str, int],
        share: Callable[[], Sequence[str]],
        begin: Callable[[str], int],
        *,
        commits: bool,
    ) -> None:
        super().__init__(config, record_of, commits=commits)
        self._positions = positions
        self._share = share
        self._begin = begin
        self._look_at_s = 0.0

    def _look(self) -> None:
        super()._look()
        now_s = time.monotonic()
        if now_s < self._look_at_s:
            return
        self._look_at_s = now_s + LOOK_EVERY_S
        new = []
        try:
            for name in self._share():
                if name and name not in self._next:
                    start = self._positions[name] if name in self._positions else self._begin(name)
                    new.append(Assigned(name, start))
        except ReportedFailedException:
            raise
        except FailedException:  # not known now
            self._look_at_s = now_s + LOOK_AGAIN_S
        if new:
            with connection_errors():
                self._consumer.incremental_assign([self._at(event.partition, event.start) for event in new])
            self._next.update({event.partition: event.start for event in new})
            self._events += new
