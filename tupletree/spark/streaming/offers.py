"""Which rows of an exported stream a query may read, decided on the names of the files that are there.

A file holds what one task has to tell Spark:

    t.<txid>.<attempt>.<index>.<tasks>.arrow    of an attempt at a transaction, task ``index`` of ``tasks``
    s.<index>.<number>.arrow                    segment ``number`` of task ``index``, where there are no transactions

**Transactions.** Each task publishes its file in the commit phase, before it says that it is done, with no rows if it
has none. So the files of a committed transaction are all there; and those of n + 1 appear only when n is committed.

*Invariant: a transaction is read from the files of one attempt, all of them or none.* Two attempts may have dealt the
same rows out to other tasks, so files of two must never be mixed. *All* are there when the attempt has as many as its
names say. Of several whole attempts the newest is taken, which is the one that commits, if any does.

A whole attempt may still be replayed, until it is known to be committed. Under the transactional rule the replay has
the same rows, so it does not matter which of them is read, nor if a query that starts again reads the other one: a
transaction is offered as soon as it is whole. Under the opaque rule the rows may differ: a transaction is offered when
a later one has a file, since then it is committed and the attempt is the newest for good.

**Segments** are numbered without gaps by each task, and offered when they are there.

**Listings.** A directory changes while it is listed: of two files that come meanwhile, the later one may be seen and
the earlier one not. What came before a file that one listing shows is in every listing begun after that. So decisions
take two: ``seen``, which bounds how far they go, and ``listing``, made afterwards, which they are made on.

An offset says up to where, this included, a query has read: ``{"txid": 12}``, or ``{"0": 7, "1": 9}``, the segment of
each task.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from tupletree.attempt import TransactionAttempt
from tupletree.errors import UsageError

Offset = dict[str, int]
Listing = Mapping[str, int]
"""Names of files, each with its size in bytes."""

TXID = "txid"
_TRANSACTION = re.compile(r"t\.(\d+)\.(\d+)\.(\d+)\.(\d+)\.arrow")
_SEGMENT = re.compile(r"s\.(\d+)\.(\d+)\.arrow")


class Chunk(NamedTuple):
    """A file that a query is to read. ``txid`` is None for a segment."""

    name: str
    txid: int | None
    size: int


def transaction_file(attempt: TransactionAttempt, index: int, tasks: int) -> str:
    """The name of a task's file of an attempt."""
    return f"t.{attempt.txid}.{attempt.attempt}.{index}.{tasks}.arrow"


def segment_file(index: int, number: int) -> str:
    """The name of a task's segment."""
    return f"s.{index}.{number}.arrow"


def txids(names: Iterable[str]) -> set[int]:
    """The transactions that have a file."""
    return {int(match[1]) for match in map(_TRANSACTION.fullmatch, names) if match}


def segments(names: Iterable[str]) -> dict[str, list[int]]:
    """The numbers of the segments of each task, ascending."""
    found: dict[str, list[int]] = {}
    for match in filter(None, map(_SEGMENT.fullmatch, names)):
        found.setdefault(match[1], []).append(int(match[2]))
    return {index: sorted(numbers) for index, numbers in found.items()}


def position(name: str) -> tuple[str, int] | None:
    """The part of an offset that a file lies at; None if it is no file of an export."""
    if match := _TRANSACTION.fullmatch(name):
        return TXID, int(match[1])
    if match := _SEGMENT.fullmatch(name):
        return match[1], int(match[2])
    return None


class Transactions:
    """What a transactional export offers. ``removed``: up to which transaction files were removed."""

    def __init__(self, seen: Collection[str], listing: Listing, removed: Offset, *, is_opaque: bool) -> None:
        self._removed = removed.get(TXID, 0)
        self._newest = max(txids(seen), default=0)
        # A query that died while it removed files has left some, which count as removed all the same.
        self._present = sorted(txid for txid in txids(listing) if self._removed < txid <= self._newest)
        self._whole = _whole(listing)
        self._is_opaque = is_opaque

    def initial(self) -> Offset:
        """Where a new query begins: before all that is there."""
        return {TXID: self._present[0] - 1 if self._present else self._removed}

    def latest(self, start: Offset, max_bytes: int | None) -> Offset:
        """Up to where a query that has read up to ``start`` may read now: at least a transaction, if there is one."""
        self._check(start)
        end, total = start[TXID], 0
        for txid in self._present:
            if txid <= end:
                continue
            if txid not in self._whole or (self._is_opaque and txid == self._newest):
                break
            total += sum(chunk.size for chunk in self._whole[txid])
            if max_bytes is not None and total > max_bytes and end > start[TXID]:
                break
            end = txid
        return {TXID: end}

    def chunks(self, start: Offset, end: Offset) -> list[Chunk]:
        """The files of the transactions after ``start`` up to ``end``, which was offered once."""
        self._check(start)
        wanted = [txid for txid in self._present if start[TXID] < txid <= end[TXID]]
        first = wanted[0] if wanted and start[TXID] == 0 else start[TXID] + 1  # an empty directory begins anywhere
        for txid in range(first, end[TXID] + 1):
            if txid not in self._whole:
                raise UsageError(f"transaction {txid} is to be read, and files of it are gone")
        return [chunk for txid in wanted for chunk in self._whole[txid]]

    def _check(self, start: Offset) -> None:
        if set(start) != {TXID}:
            raise UsageError(f"the checkpoint says {start}, and the stream is transactional: a checkpoint is of one")
        if start[TXID] < self._removed:
            raise UsageError(
                f"transactions up to {self._removed} were removed by another query, and this one has read up to "
                f"{start[TXID]}; 'prune' is for a stream that has one query"
            )
        if self._present and self._newest < start[TXID]:
            raise UsageError(
                f"the checkpoint says that transactions up to {start[TXID]} were read, and the newest is "
                f"{self._newest}: the stream began anew and needs a new checkpoint"
            )


class Segments:
    """What an export without transactions offers: every row at least once."""

    def __init__(self, seen: Collection[str], listing: Listing, removed: Offset) -> None:
        newest = {index: numbers[-1] for index, numbers in segments(seen).items()}
        self._present = {
            index: [number for number in numbers if removed.get(index, 0) < number <= newest.get(index, 0)]
            for index, numbers in segments(listing).items()
        }
        self._listing = listing
        self._removed = removed

    def initial(self) -> Offset:
        """Where a new query begins: before all that is there."""
        return {**self._removed, **{index: numbers[0] - 1 for index, numbers in self._present.items() if numbers}}

    def latest(self, start: Offset, max_bytes: int | None) -> Offset:
        """As for transactions; the segments of all tasks advance evenly."""
        self._check(start)
        end, total = dict(start), 0
        for number, index in sorted((number, index) for index, numbers in self._present.items() for number in numbers):
            if number <= start.get(index, 0):
                continue
            total += self._listing[segment_file(int(index), number)]
            if max_bytes is not None and total > max_bytes and end != start:
                break
            end[index] = number
        return end

    def chunks(self, start: Offset, end: Offset) -> list[Chunk]:
        """The segments after ``start`` up to ``end``, which was offered once."""
        self._check(start)
        found = []
        for index, last in end.items():
            for number in range(start.get(index, 0) + 1, last + 1):
                name = segment_file(int(index), number)
                if name not in self._listing:
                    raise UsageError(f"segment {number} of task {index} is to be read, and it is gone")
                found.append(Chunk(name, None, self._listing[name]))
        return found

    def _check(self, start: Offset) -> None:
        if TXID in start:
            raise UsageError(f"the checkpoint says {start}, and the stream has no transactions")
        for index, last in self._removed.items():
            if start.get(index, 0) < last:
                raise UsageError(
                    f"segments of task {index} up to {last} were removed by another query, and this one has read up to "
                    f"{start.get(index, 0)}; 'prune' is for a stream that has one query"
                )
        for index, numbers in self._present.items():
            if numbers and numbers[-1] < start.get(index, 0):
                raise UsageError(
                    f"the checkpoint says that task {index} was read up to segment {start[index]}, and its newest is "
                    f"{numbers[-1]}: the stream began anew and needs a new checkpoint"
                )


def packed(chunks: Iterable[Chunk], bytes_each: int) -> list[list[Chunk]]:
    """Chunks in groups of about so many bytes, one for each Spark task."""
    groups: list[list[Chunk]] = []
    room = 0
    for chunk in chunks:
        if room < chunk.size or not groups:
            groups.append([])
            room = bytes_each
        groups[-1].append(chunk)
        room -= chunk.size
    return groups


def _whole(listing: Listing) -> dict[int, list[Chunk]]:
    """The files of each transaction that has a whole attempt, those of the newest such attempt."""
    attempts: dict[tuple[int, int, int], dict[int, Chunk]] = {}
    for name, size in listing.items():
        if match := _TRANSACTION.fullmatch(name):
            txid, attempt, index, tasks = map(int, match.groups())
            attempts.setdefault((txid, attempt, tasks), {})[index] = Chunk(name, txid, size)
    whole: dict[int, list[Chunk]] = {}
    for (txid, _, tasks), files in sorted(attempts.items()):
        if len(files) == tasks:
            whole[txid] = [files[index] for index in sorted(files)]
    return whole
