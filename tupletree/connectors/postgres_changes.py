"""Changes of PostgreSQL 12 or newer as a log: logical replication with pgoutput, after a snapshot of the rows.

The log has one partition. A position is the LSN of a transaction's commit, times 2^32, and the index of the change in
the transaction, so that a transaction of any size can be resumed within. Rows of the snapshot are below 2^32.

    position    0  1  2 …           lsn << 32, + 1, + 2 …                      end of the commit << 32
                rows of snapshot    changes of a transaction, in its order     the next transaction is behind

Transactions come in the order of their commits. The database keeps what is not processed, in two slots one after the
other (see postgres_slots.py). Until the snapshot is processed, the slot stays where the first change is. A task that
starts again takes a newer snapshot, and then reads all changes since the first: among them the deletions of rows that
only the older snapshot had.
"""

from __future__ import annotations

import re
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from tupletree._stores.postgres import PostgresAddress
from tupletree.connectors.arguments import check_flag, check_text
from tupletree.connectors.formats import Format, FormatError
from tupletree.connectors.log_source import Assigned, Bounds, DeletedError, LogEvent, LogFollower, LogSource, Records
from tupletree.connectors.log_spout import LogSpout
from tupletree.connectors.messages import LogRecord
from tupletree.connectors.pgoutput import Begin, Change, Commit, Decoder
from tupletree.connectors.postgres_slots import Slots, lsn_text
from tupletree.errors import UnavailableError, UsageError
from tupletree.tuples import Tuple

FETCHED: Final = 1000
"""Changes that are fetched at a time."""
_BITS: Final = 32
_PAUSE_S: Final = 0.05
_NEVER: Final = 1 << 64
_UNKNOWN: Final = -1


class ChangeRow(Format):
    """A change as a row: the fields of ``Change``."""

    fields = Change._fields

    def decode(self, data: Any) -> Sequence[Any]:
        return list(data)

    def encode(self, tup: Tuple) -> bytes:
        raise FormatError("changes of PostgreSQL are read, and not written")


class PostgresChangesSpout(LogSpout):
    """Emits the rows of a publication's tables, and then each change of them, in the order of commits.

    Outputs: ``operation`` ("snapshot", "insert", "update", "delete", "truncate"), ``table`` ("schema.table"), ``key``,
    ``new`` and ``old`` (dicts or None, see ``Change``), and then the chosen ``metadata``: ``sequence``, a number that
    grows with each change, of up to 96 bits; ``lsn`` of the commit; ``transaction``; ``committed_at``. Rows of the
    snapshot have the sequence and the LSN of the slot when it was created, and None for the others.

    **Guarantee.** At least once, and no committed change is left out; with aligned checkpoints each change has its
    effect on states once. A snapshot that is interrupted is repeated, also with aligned checkpoints: a row of it can be
    emitted twice, or be followed by an older change and then by newer ones. Changes that fail are emitted again, behind
    later ones: compare ``sequence`` where the order of changes of a row matters.

    **The slot.** PostgreSQL keeps its write-ahead log until a change is processed. *A slot that nobody reads fills the
    disk*: drop it with ``pg_drop_replication_slot`` when the topology is gone. A slot that is missing is created, and
    begins with a snapshot (``snapshot=False``: with the changes from now on).

    One task reads; further tasks have nothing to do. The user needs REPLICATION, and SELECT on the tables.
    Raises UsageError for a wrong argument, and if the package psycopg is missing. The worker ends with an error that
    says so if the server refuses: wal_level, rights, a missing publication, a slot that was dropped while it was read.
    """

    def __init__(
        self,
        url: str,
        publication: str,
        slot: str,
        *,
        snapshot: bool = True,
        metadata: Sequence[str] = (),
        max_ahead: int = 1_000_000,
    ) -> None:
        source = PostgresChanges(url, publication, slot, snapshot=snapshot, user="PostgresChangesSpout")
        super().__init__(source, ChangeRow(), metadata=metadata, max_ahead=max_ahead)


class PostgresChanges(LogSource):
    """The changes of a publication's tables. Ranges have changes only; a follower begins with a snapshot."""

    title: ClassVar[str] = "PostgreSQL"
    lag_unit: ClassVar[str] = "bytes"
    lost_on: ClassVar[tuple[type[Exception], ...]] = (UnavailableError,)
    metadata_fields: ClassVar[Sequence[str]] = ("sequence", "lsn", "transaction", "committed_at")
    is_numbered: ClassVar[bool] = True
    keeps_positions: ClassVar[bool] = True

    def __init__(
        self, url: str, publication: str, slot: str, *, snapshot: bool = True, user: str = "PostgresChanges"
    ) -> None:
        for name, text in (("url", url), ("publication", publication), ("slot", slot)):
            check_text(user, name, text, is_secret=name == "url")
        check_flag(user, "snapshot", snapshot)
        if not re.fullmatch(r"[a-z0-9_]{1,50}", slot):
            text = "at most 50 lower-case letters, digits and underscores were expected"
            raise UsageError(f"{user}: slot is {slot!r}; {text}")
        self.address = PostgresAddress(user, url, timeout_s=10)
        self.user, self.publication, self.slot, self.snapshot = user, publication, slot, snapshot
        self._slots: Slots | None = None

    def open(self) -> None:
        self._slots = Slots(self.user, self.address, self.slot, self.publication)
        self.read_to = _UNKNOWN  # the LSN where the temporary slot is

    @property
    def slots(self) -> Slots:
        """The connection. Raises UnavailableError if it is closed."""
        if self._slots is None:
            raise UnavailableError(f"{self.title}: the source is not open")
        return self._slots

    def partitions(self) -> Sequence[str]:
        return [self.slot]

    def bounds(self, partition: str) -> Bounds:
        return Bounds(self._position(self.slot) << _BITS, self.slots.written() << _BITS)

    def limited(self, partition: str, start: int, end: int, limit: int) -> int:
        return min(end, start + (limit << _BITS))

    def read(self, partition: str, start: int, end: int) -> Iterator[Sequence[LogRecord]]:
        self.seek(self.slot, start)
        before = _UNKNOWN
        while before < self.read_to < _behind(end):
            before = self.read_to
            for records, _ in self.changes(start, end):
                yield records

    def follow(self, positions: Mapping[str, int] | None, task_index: int, tasks: int) -> LogFollower:
        position = None if positions is None else positions.get(self.slot, 0)
        return ChangesFollower(self, self.slots, position) if task_index == 0 else _NothingToRead()

    def close(self) -> None:
        slots, self._slots = self._slots, None
        if slots is not None:
            slots.close()

    def seek(self, slot: str, start: int) -> None:
        """Have the temporary slot stand before a position. Raises DeletedError if ``slot`` has moved on from there."""
        slots = self.slots
        slots.end_transaction()
        lsn = start >> _BITS
        if self.read_to == lsn:
            return
        self.read_to = _UNKNOWN
        first = self._position(slot)
        if lsn < first:
            raise self.gone(slot, first)
        slots.drop(slots.reader)
        slots.copy(slot, slots.reader, is_temporary=True)
        if lsn > first:
            slots.advance(slots.reader, lsn)
        self.read_to = lsn

    def changes(self, start: int, end: int | None, limit: int = FETCHED) -> Iterator[tuple[list[LogRecord], int]]:
        """Yield changes between two positions, from where ``seek`` has put the temporary slot, and the position behind.

        Ends after about MAX_DECODED changes, or where the log ends.
        """
        slots = self.slots
        self.read_to, decoder = _UNKNOWN, Decoder()  # unknown until all is read
        next = start
        metadata: tuple[Any, ...] = ()  # until the first message
        for messages in slots.messages(None if end is None else _behind(end), limit):
            records: list[LogRecord] = []
            for message in messages:
                match decoder.decode(message):
                    case Begin() as transaction:
                        next = transaction.lsn << _BITS
                        metadata = (transaction.lsn, transaction.transaction, transaction.time)
                    case Commit(behind):
                        if records and records[-1].next == next:
                            records[-1].next = behind << _BITS
                        next = behind << _BITS
                    case changes:
                        for change in changes:
                            next += 1
                            if next > start and (end is None or next <= end):
                                records.append(LogRecord(change, next - 1, next, (next - 1, *metadata)))
            yield records, max(start, next)
        self.read_to = self._position(slots.reader)

    def gone(self, slot: str, first: int) -> DeletedError:
        """Return the error that says which changes are gone. ``first``: the LSN of the slot."""
        return DeletedError(f"slot {slot!r} has moved on: changes before {lsn_text(first)} are gone", first << _BITS)

    def _position(self, slot: str) -> int:
        lsn = self.slots.position(slot)
        if lsn is None:
            raise UsageError(f"{self.user}: {self.address.where} has no replication slot {slot!r}")
        return lsn


class ChangesFollower(LogFollower):
    """Reads a snapshot where it is due, and then changes. ``position``: None to resume where the slot is."""

    def __init__(self, source: PostgresChanges, slots: Slots, position: int | None) -> None:
        self._source, self._slots = source, slots
        self._slot = source.slot
        self._before = f"{self._slot}_snapshot"  # the slot until the snapshot is processed
        self._has_before = False
        self._limit = FETCHED
        self._next = 0
        self._processed_to = _NEVER  # the LSN of the slot
        self._look_at_s = 0.0
        self._gone: DeletedError | None = None
        self._events = self._begin(position)

    def poll(self, limit: int, wait_s: float) -> Sequence[LogEvent]:
        self._limit = min(limit, FETCHED)
        deadline_s = time.monotonic() + wait_s
        while True:
            now_s = time.monotonic()
            if now_s >= self._look_at_s and (event := next(self._events)) is not None:
                return [event]
            if self._gone is not None:
                error, self._gone = self._gone, None
                raise error
            if now_s >= deadline_s:
                return ()
            time.sleep(max(0.0, min(self._look_at_s, deadline_s) - now_s))

    def processed(self, positions: Mapping[str, int]) -> None:
        lsn = positions[self._slot] >> _BITS
        if self._has_before and lsn >= self._processed_to:
            self._slots.copy(self._before, self._slot)
            self._slots.drop(self._before)
            self._has_before = False
        if lsn > self._processed_to:
            self._slots.advance(self._slot, lsn)
            self._processed_to = lsn

    def lag(self) -> int | None:
        """Return the bytes of the write-ahead log that were not read; None until the snapshot is read."""
        return max(0, self._slots.written() - (self._next >> _BITS)) if self._next >> _BITS else None

    def close(self) -> None:
        self._events.close()

    def _begin(self, position: int | None) -> Generator[LogEvent | None]:
        """Find or create the slots, and return what follows."""
        slots, source = self._slots, self._source
        slots.end_transaction()
        lsn, before = slots.position(self._slot), slots.position(self._before)
        if lsn is not None and before is not None:  # a task died between a copy and the drop of its original
            slots.drop(self._before)
            before = None
        is_behind_snapshot = position is not None and position >> _BITS > 0
        if lsn is None and before is None:
            if is_behind_snapshot:
                text = f"slot {self._slot!r} was dropped, and with it the changes since the last checkpoint"
                raise UsageError(f"{source.user}: {source.address.where}: {text}")
            if not source.snapshot:
                slots.create(self._slot)
                lsn = slots.position(self._slot)
        elif lsn is not None and position is not None and not is_behind_snapshot and source.snapshot:
            slots.copy(self._slot, self._before)  # the states are empty, and need all rows
            slots.drop(self._slot)
            lsn, before = None, lsn
        self._has_before = lsn is None
        self._processed_to = lsn or before or _NEVER
        if lsn is None and not is_behind_snapshot:
            return self._all(before)
        return self._changes_from(position, self._processed_to)

    def _all(self, first: int | None) -> Generator[LogEvent | None]:
        """Yield the rows that exist, and then the changes. ``first``: None if the slot is to be created."""
        slots = self._slots
        yield Assigned(self._slot, 0)
        self._source.read_to = _UNKNOWN
        slots.begin_snapshot()
        if first is None:
            slots.copy(slots.reader, self._before)
            first = slots.position(self._before)
        assert first is not None
        self._processed_to = first
        for changes in slots.snapshot(self._limit):
            start = self._next
            self._next += len(changes)
            metadata = (first << _BITS, first, None, None)
            records = [LogRecord(one, start + i, start + i + 1, metadata) for i, one in enumerate(changes)]
            yield Records(self._slot, records, self._next)
        slots.run("COMMIT")
        slots.drop(slots.reader)
        self._next = first << _BITS
        yield Records(self._slot, (), self._next)
        yield from self._changes()

    def _changes_from(self, position: int | None, first: int) -> Generator[LogEvent | None]:
        """Yield the changes from a position, or the first that is left. ``first``: the LSN of the slot."""
        self._next = max(position or 0, first << _BITS)
        if position is not None and 0 < position < self._next:
            self._gone = self._source.gone(self._slot, first)
        yield Assigned(self._slot, self._next)
        yield from self._changes()

    def _changes(self) -> Generator[LogEvent | None]:
        source = self._source
        while True:
            began_s, decoding_s, count = time.monotonic(), 0.0, 0
            if self._slots.written() > self._next >> _BITS:
                source.seek(self._before if self._has_before else self._slot, self._next)
                for records, behind in source.changes(self._next, None, self._limit):
                    decoding_s = decoding_s or time.monotonic() - began_s
                    count += len(records)
                    self._next = behind
                    yield Records(self._slot, records, behind)
                end = source.read_to << _BITS
                if end > self._next:
                    self._next = end
                    yield Records(self._slot, (), end)
            if count < FETCHED:
                # Each look has the server decode again what it wrote in the last seconds: for half of the time at most.
                self._look_at_s = time.monotonic() + max(_PAUSE_S, decoding_s)
                yield None


class _NothingToRead(LogFollower):
    """The share of a task that has no partition."""

    def poll(self, limit: int, wait_s: float) -> Sequence[LogEvent]:
        self.idle(wait_s)
        return ()

    def ends(self) -> Mapping[str, float] | None:
        return {}

    def close(self) -> None:
        """Nothing is open."""


def _behind(end: int) -> int:
    """Return the LSN up to which the log must be read for the changes before a position."""
    return -(-end >> _BITS)
