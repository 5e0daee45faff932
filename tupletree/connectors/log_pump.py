"""The thread that owns a log's follower: it reads ahead, and records what is processed.

The thread writes events for the spout into a queue, and reads the lanes' positions, which the spout moves on. So
acknowledging a message costs the spout no message to this thread.

A *session* reads from given positions until ``follow`` begins another, from other positions. A connection that is lost
goes on within the session: behind the last message read, if the spout knows the positions; if the log keeps them, the
partitions are shared out anew.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tupletree._replay import Lane
from tupletree.backoff import Backoff
from tupletree.connectors.log_positions import StoredPositions
from tupletree.connectors.log_ranges import RangeFollower
from tupletree.connectors.log_source import (
    Assigned,
    DeletedError,
    LogEvent,
    LogFollower,
    LogSource,
    Records,
    Revoked,
    Rewound,
)
from tupletree.connectors.messages import LogRecord
from tupletree.connectors.record_sizes import bytes_of
from tupletree.connectors.source_thread import Broken, Lost, SourceThread
from tupletree.errors import FailedException, UnavailableError, UsageError

WAIT_S: Final = 0.05
"""The longest wait for a message: a new session and the end wait at most so long."""
MAX_POLLED: Final = 1000
"""The maximum number of messages that are asked for at a time."""
RECORD_EVERY_S: Final = 0.5
"""The time between two records of what is processed."""
REPORT_EVERY_S: Final = 60.0
LOOK_EVERY_S: Final = 0.2
"""The time between two looks at the ends of partitions, if the spout wants to know them."""
MAX_LOOKS: Final = 100
"""The number of looks that the spout has not taken, as it stands still, from which on there are none."""
LOOK_PAUSES: Final = 50
"""The pause after two slow looks, as a multiple of the time that the faster one took: a first one has to connect."""
REFUSED_S: Final = 10.0  # after the last failure of one partition; others may be read between two failures
FIRST_GUESS_BYTES: Final = 256 * 1024
"""The assumed size of a message, until some were read: a first look at large messages must not take gigabytes."""


class PartitionLane(Lane):
    """The messages of a partition, from its assignment until it is revoked. ``start``: the position of the first."""

    __slots__ = ("is_revoked", "partition", "start")

    def __init__(self, partition: str, start: int) -> None:
        super().__init__(start)
        self.partition = partition
        self.start = start
        self.is_revoked = False  # set by the thread, at once; the spout is told in its turn


@dataclass(frozen=True, slots=True)
class Read:
    """Messages of a partition. ``next``: the position after them. ``bytes``: about how much memory they take."""

    lane: PartitionLane
    records: Sequence[LogRecord]
    next: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Ended:
    """A partition is revoked."""

    lane: PartitionLane


@dataclass(frozen=True, slots=True)
class Ends:
    """The ends of the task's partitions, after all was read that comes before: see ``LogFollower.ends``."""

    ends: Mapping[str, float] | None


@dataclass(frozen=True, slots=True)
class Trouble:
    """Reading, or recording what is processed, has failed, and is tried again. ``error``: why."""

    error: Exception


Event = Read | PartitionLane | Ended | Ends | Trouble | Lost | Broken
"""What the spout is told. A lane: a partition is assigned."""


class Session:
    """Reading from given positions. ``positions``: None if the log keeps them."""

    def __init__(self, positions: Mapping[str, int] | None) -> None:
        self.events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self.lanes: dict[str, PartitionLane] = {}  # the thread's; the spout has its own
        self.positions = None if positions is None else dict(positions)  # behind what was read last
        self.recorded: dict[str, int] = {}
        self.put = self.put_bytes = 0  # messages put into the queue
        self.taken = self.taken_bytes = 0  # and taken by the spout
        self.put_looks = self.taken_looks = 0
        self.is_all_read = False  # the last look at the log found nothing new

    def processed(self) -> dict[str, int]:
        """Return up to where partitions are processed, of those for which it was not recorded yet. The thread's."""
        at = {name: lane.position for name, lane in self.lanes.items()}
        return {name: position for name, position in at.items() if self.recorded.get(name) != position}


class LogPump(SourceThread):
    """Drives a log. The spout's thread calls ``poll``, ``follow``, ``pause`` and ``close``.

    ``stored``: where positions are kept, if neither the log nor a checkpoint keeps them. ``max_ahead``,
    ``max_ahead_bytes``: nothing is asked for while so many messages, or bytes of them, are read and not taken. What is
    asked for then may exceed the bytes by one message, or by more if messages become larger.

    Attributes:
        looks_at_ends: the spout is told where partitions end. Set before the first session.
    """

    looks_at_ends = False

    def __init__(
        self,
        source: LogSource,
        task_index: int,
        tasks: int,
        stored: StoredPositions | None,
        max_ahead: int,
        max_ahead_bytes: int,
        reconnect: Backoff,
    ) -> None:
        super().__init__(source, task_index, reconnect)
        self._source = source
        self._tasks = tasks
        self._stored = stored
        self._max_ahead = max_ahead
        self._max_ahead_bytes = max_ahead_bytes
        self._message_bytes: float = FIRST_GUESS_BYTES  # the size of late, at least
        self._session: Session | None = None
        self._has_room = threading.Event()  # set by the spout, when it has taken half of what is read ahead
        self._record_at_s = 0.0
        self._look_at_s = self._look_took_s = 0.0
        self._reported: set[str] = set()  # errors of late
        self._refused_until_s = 0.0  # ``refusal`` holds until then
        self._forget_at_s = 0.0

    # The spout's side

    def follow(self, positions: Mapping[str, int] | None) -> None:
        """Begin a session, and this thread with the first one. What the session before has read is not delivered."""
        self._session = Session(positions)
        if self.ident is None:
            self.start()

    def poll(self) -> Event | None:
        """Return what comes next, or None."""
        session = self._session
        if session is None:
            return None
        try:
            event = session.events.get_nowait()
        except queue.Empty:
            return None
        if isinstance(event, Read):
            session.taken += len(event.records)
            session.taken_bytes += event.bytes
            if not self._has_room.is_set() and self._is_half_taken(session):
                self._has_room.set()
        elif isinstance(event, Ends):
            session.taken_looks += 1
        return event

    @property
    def outstanding(self) -> int:
        """The number of messages read, from the oldest of each partition that is not processed. Any thread."""
        session = self._session
        if session is None:
            return 0
        return session.put - session.taken + sum(len(lane) for lane in list(session.lanes.values()))

    @property
    def has_read_all(self) -> bool:
        """True if the log does not grow, and all its messages are read and taken by ``poll``. Any thread."""
        session = self._session
        if session is None or not self._source.are_complete:
            return False
        return session.is_all_read and session.put == session.taken

    @property
    def is_at_end(self) -> bool:
        """True if ``has_read_all``, and all messages are processed. Any thread."""
        return self.has_read_all and not self.outstanding

    @property
    def ahead_bytes(self) -> int:
        """The number of bytes of messages that are read and not taken by ``poll``. Any thread."""
        session = self._session
        return 0 if session is None else session.put_bytes - session.taken_bytes

    def close(self) -> None:
        if self.ident is not None:
            self._is_closing.set()
            self._has_room.set()
            super().close()

    # The thread's side

    def _open(self) -> None:
        self._source.open()

    def _notify(self, event: Trouble | Lost | Broken) -> None:
        session = self._session
        assert session is not None
        session.events.put(event)

    def _serve(self) -> None:
        try:
            while not self._is_closing.is_set():
                session = self._session
                assert session is not None
                self._look_at_s = self._look_took_s = 0.0
                follower = self._follower(session)
                try:
                    self._read(session, follower)
                    if self._is_closing.is_set():
                        self._record(session, follower)
                finally:
                    if session.positions is None:
                        for partition in list(session.lanes):
                            self._revoke(session, partition)
                    follower.close()
        finally:
            if self._stored is not None:
                self._stored.close()

    def _follower(self, session: Session) -> LogFollower:
        """Return a follower that goes on where the session stands."""
        if self._stored is not None and not session.positions:
            session.positions = self._stored.load()
        follower = self._source.follow(session.positions, self._task_index, self._tasks)
        if follower is None:
            follower = RangeFollower(self._source, session.positions or {}, self._task_index, self._tasks)
        follower.processed_now = session.processed
        return follower

    def _read(self, session: Session, follower: LogFollower) -> None:
        """Read until the thread is closed or another session has begun."""
        while not self._is_closing.is_set() and self._session is session:
            if time.monotonic() >= self._record_at_s:
                self._record(session, follower)
            self._has_room.clear()
            room = self._room(session)
            try:
                self._measure_lag(follower.lag)
                if room <= 0:
                    if not self._has_room.wait(WAIT_S):
                        follower.idle(0.0)
                    continue
                if self.looks_at_ends:
                    self._look_at_ends(session, follower)
                events = follower.poll(min(room, MAX_POLLED), WAIT_S)
                self._failures = 0
                session.is_all_read = not events
                if self.refusal and time.monotonic() >= self._refused_until_s:
                    self.refusal = ""
            except FailedException as error:
                session.is_all_read = False
                self._report(error)
                self.refusal, self._refused_until_s = str(error), time.monotonic() + REFUSED_S
                follower.idle(WAIT_S)
                continue
            before, before_bytes = session.put, session.put_bytes
            for event in events:
                self._pass_on(session, event)
            if count := session.put - before:
                self._message_bytes = max((session.put_bytes - before_bytes) / count, self._message_bytes / 2)

    def _look_at_ends(self, session: Session, follower: LogFollower) -> None:
        """Tell the spout where partitions end, a few times per second."""
        began_s = time.monotonic()
        if began_s < self._look_at_s or session.put_looks - session.taken_looks >= MAX_LOOKS:
            return
        try:
            ends = follower.ends()
        except FailedException:
            ends = None
        ended_s = time.monotonic()
        took_s, self._look_took_s = self._look_took_s, ended_s - began_s
        self._look_at_s = ended_s + max(LOOK_EVERY_S, LOOK_PAUSES * min(took_s, self._look_took_s))
        session.put_looks += 1
        session.events.put(Ends(ends))

    def _room(self, session: Session) -> int:
        """Return how many messages may be asked for now."""
        bytes_left = self._max_ahead_bytes - (session.put_bytes - session.taken_bytes)
        if self._is_paused or bytes_left <= 0:
            return 0
        in_bytes = max(1, int(bytes_left / max(1, self._message_bytes)))
        return min(in_bytes, self._max_ahead - (session.put - session.taken))

    def _is_half_taken(self, session: Session) -> bool:
        """Return true if the thread may read again: not for each message that is taken, which wakes it too often."""
        ahead, ahead_bytes = session.put - session.taken, session.put_bytes - session.taken_bytes
        return ahead <= self._max_ahead // 2 and ahead_bytes <= self._max_ahead_bytes // 2

    def _pass_on(self, session: Session, event: LogEvent) -> None:
        match event:
            case Records(partition, records, next):
                lane = session.lanes[partition]
                if session.positions is not None:
                    session.positions[partition] = next
                size = bytes_of(records)
                session.put += len(records)
                session.put_bytes += size
                session.events.put(Read(lane, records, next, size))
            case Assigned(partition, start):
                if session.positions is not None:
                    session.positions[partition] = start
                    if partition in session.lanes:
                        return  # of an earlier connection: the spout goes on with the lane
                lane = session.lanes[partition] = PartitionLane(partition, start)
                session.events.put(lane)
                self._look_at_s = 0.0
            case Revoked(partition):
                self._revoke(session, partition)
            case Rewound(partition, start):
                self._revoke(session, partition)
                if self._stored is not None:
                    self._stored.rewind(partition, start)
                self._pass_on(session, Assigned(partition, start))

    @staticmethod
    def _revoke(session: Session, partition: str) -> None:
        lane = session.lanes.pop(partition, None)
        session.recorded.pop(partition, None)
        if lane is not None:
            lane.is_revoked = True
            session.events.put(Ended(lane))

    def _record(self, session: Session, follower: LogFollower) -> None:
        """Record what is processed, and was not recorded yet."""
        self._record_at_s = time.monotonic() + RECORD_EVERY_S
        changed = session.processed()
        if not changed:
            return
        try:
            if self._stored is not None:
                self._save(self._stored, changed)
            follower.processed(changed)
        except (UnavailableError, FailedException, UsageError) as error:
            self._report(error)
            return
        session.recorded.update(changed)

    def _save(self, stored: StoredPositions, positions: Mapping[str, int]) -> None:
        """Save positions. If they are too many, those of partitions that are gone are forgotten."""
        try:
            stored.save(positions)
        except UsageError:
            stored.save(positions, set(self._source.partitions()))

    def _report(self, error: Exception) -> None:
        """Tell the spout of an error, unless the same was told within ``REPORT_EVERY_S``."""
        now_s = time.monotonic()
        if now_s >= self._forget_at_s:
            self._reported.clear()
            self._forget_at_s = now_s + REPORT_EVERY_S
        if str(error) not in self._reported or isinstance(error, DeletedError):
            self._reported.add(str(error))
            self._notify(Trouble(error))
