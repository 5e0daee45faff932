"""Followers of topics: members of a consumer group, and readers of a fixed share."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from tupletree.connectors.kafka.client import connection_error, connection_errors, text_of
from tupletree.connectors.kafka.follower import ANSWER_S, AWAY_S, KafkaFollower
from tupletree.connectors.kafka.positions import Place
from tupletree.connectors.log_source import Assigned, Revoked
from tupletree.connectors.messages import LogRecord
from tupletree.errors import FailedException, ReportedFailedException

LOOK_EVERY_S: Final = 2.0
"""How often a fixed share looks for new partitions."""
LOOK_AGAIN_S: Final = 0.1
"""The time until the next look if brokers have not answered."""
LEAVE_S: Final = 0.1
"""The time without a message or a request after which a member that has left its group is done."""


class BeginningFollower(KafkaFollower):
    """The common part: a partition without a position begins at ``begin(name)``.

    A partition whose beginning is not known, as a new one has no leader at first, waits, and is reported: the others
    are read meanwhile.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        records_of: Callable[[Sequence[Any]], list[LogRecord]],
        begin: Callable[[str], int],
        *,
        commits: bool,
    ) -> None:
        super().__init__(config, records_of, commits=commits)
        self._begin = begin
        self._waiting: set[str] = set()  # partitions whose beginning is not known
        self._begin_at_s = 0.0
        self._reported_s = time.monotonic()

    def _begun(self) -> tuple[dict[str, int], FailedException | None]:
        """Return where waiting partitions begin, of those that wait no more, and an error of one that still does."""
        begun, cause = {}, None
        for name in sorted(self._waiting):
            try:
                begun[name] = self._begin(name)
            except FailedException as error:
                cause = error
        self._waiting -= begun.keys()
        return begun, cause

    def _read(self, starts: Mapping[str, int]) -> None:
        """Read more partitions."""
        self._next.update(starts)
        self._events += [Assigned(name, start) for name, start in starts.items()]
        if self._is_incremental:
            assigned = [self._at(name, start) for name, start in starts.items()]
            self._consumer.incremental_assign(assigned)
        else:
            assigned = [self._at(name, start) for name, start in self._next.items()]
            self._consumer.assign(assigned)
        if self._is_paused:
            self._consumer.pause(assigned)

    def _look(self) -> None:
        super()._look()
        now_s = time.monotonic()
        if not self._waiting or now_s < self._begin_at_s:
            return
        begun, cause = self._begun()
        is_reported = isinstance(cause, ReportedFailedException)
        self._begin_at_s = now_s + (LOOK_EVERY_S if is_reported else LOOK_AGAIN_S)
        if begun:
            with connection_errors(self._config):
                self._read(begun)
        if cause is not None and now_s >= self._reported_s + (LOOK_EVERY_S if is_reported else AWAY_S):
            self._reported_s = now_s
            self._report(cause)

    def _report(self, error: FailedException) -> None:
        """Have a poll raise an error that comes again, unless another error waits for the next poll."""
        if not self._failures:
            self._failures.append(error)


class GroupMember(BeginningFollower):
    """A member of a consumer group. A partition goes on at its committed offset, otherwise at ``begin(name)``.

    What is processed of a partition is committed before another member gets it.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        records_of: Callable[[Sequence[Any]], list[LogRecord]],
        topics: Sequence[str],
        begin: Callable[[str], int],
    ) -> None:
        super().__init__(config, records_of, begin, commits=True)
        self._is_assigned = False  # the group has said what this member reads
        self._is_incremental = "cooperative" in str(config["partition.assignment.strategy"])
        self._is_static = "group.instance.id" in config
        self._consumer.subscribe(
            list(topics), on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )

    def processed(self, positions: Mapping[str, int]) -> None:
        super().processed(self._current(positions))

    def close(self) -> None:
        if not self._is_static:  # a static member stays one: it is back within the session timeout
            with contextlib.suppress(self._client.KafkaException, RuntimeError, ConnectionError):
                self._leave()
        super().close()

    def _leave(self) -> None:
        """Leave the group, and be done with what it still asks of its member.

        A request that is answered inside the client's ``close`` can come after the end of the group's own thread. The
        client then waits for good, and all threads of the process with it (librdkafka issues 4041 and 4884).
        """
        self._consumer.unsubscribe()
        until_s = time.monotonic() + ANSWER_S
        while self._consumer.poll(LEAVE_S) is not None or self._consumer.assignment():
            if time.monotonic() > until_s:
                return

    def _current(self, positions: Mapping[str, int]) -> dict[str, int]:
        """Return the positions of this assignment. Others, which the caller has until poll tells it, may be behind."""
        untold = {event.partition for event in self._events}
        return {name: at for name, at in positions.items() if name in self._next and name not in untold}

    def _on_assign(self, consumer: Any, partitions: Sequence[Any]) -> None:
        try:
            committed = consumer.committed(list(partitions), timeout=ANSWER_S) if partitions else []
        except self._client.KafkaException as error:
            what = f"the positions of the group are not known: {text_of(error)}"
            raise connection_error(self._config, what) from error
        self._is_assigned = True
        offsets = {Place(at.topic, at.partition).name: at.offset for at in committed}
        self._waiting.update(name for name, offset in offsets.items() if offset < 0)
        self._reported_s = time.monotonic()
        begun, _ = self._begun()
        self._read({name: offset for name, offset in offsets.items() if offset >= 0} | begun)

    def _on_revoke(self, consumer: Any, partitions: Sequence[Any]) -> None:
        names = [Place(at.topic, at.partition).name for at in partitions]
        self._uncommitted.update(self._current(self.processed_now()))
        with contextlib.suppress(FailedException):  # then another member processes some messages again
            self._commit(is_async=False, names=names)
        self._on_lost(consumer, partitions)

    def _on_lost(self, consumer: Any, partitions: Sequence[Any]) -> None:
        names = [Place(at.topic, at.partition).name for at in partitions]
        if self._waiting.intersection(names) and self._is_incremental:  # the client has not been given these to read
            consumer.incremental_unassign([self._at(name) for name in names if name in self._next])
        self._waiting.difference_update(names)
        for name in names:
            self._processed.pop(name, None)
            self._uncommitted.pop(name, None)
            self._back(name)
            if self._next.pop(name, None) is not None:
                self._events.append(Revoked(name))
        self._is_assigned = bool(self._next)  # if nothing is left, the group is about to say what comes instead

    def _share_now(self) -> Collection[str] | None:
        return self._next.keys() | self._waiting if self._is_assigned else None


class ShareReader(BeginningFollower):
    """Reads a fixed share of a log.

    ``share``: returns the partitions of the share that are known, and why others are not. ``begin(name)``: where one
    without position begins.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        records_of: Callable[[Sequence[Any]], list[LogRecord]],
        positions: Mapping[str, int],
        share: Callable[[], tuple[Sequence[str], FailedException | None]],
        begin: Callable[[str], int],
        *,
        commits: bool,
    ) -> None:
        super().__init__(config, records_of, begin, commits=commits)
        self._positions = positions
        self._share = share
        self._look_at_s = 0.0
        self._is_share_known = False

    def _share_now(self) -> Collection[str] | None:
        return self._next.keys() | self._waiting if self._is_share_known else None

    def _look(self) -> None:
        if time.monotonic() >= self._look_at_s:
            self._add_new()
        super()._look()

    def _add_new(self) -> None:
        """Read partitions that are new, or let them wait for their beginning."""
        names, fault = self._share()
        is_reported = isinstance(fault, ReportedFailedException)
        self._look_at_s = time.monotonic() + (LOOK_EVERY_S if fault is None or is_reported else LOOK_AGAIN_S)
        self._is_share_known = fault is None
        new = [name for name in names if name not in self._next and name not in self._waiting]
        if starts := {name: self._positions[name] for name in new if name in self._positions}:
            with connection_errors(self._config):
                self._read(starts)
        if waiting := set(new) - starts.keys():
            self._waiting |= waiting
            self._begin_at_s, self._reported_s = 0.0, time.monotonic()
        if fault is not None and is_reported:
            self._report(fault)
