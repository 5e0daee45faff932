"""The rows of an exported stream that a query may read, decided from the names of the files.

A file holds the rows that one task exports to Spark:

    t.<txid>.<attempt>.<index>.<tasks>.arrow    of an attempt at a transaction, task ``index`` of ``tasks``
    s.<index>.<number>.arrow                    segment ``number`` of task ``index``, without transactions

**Transactions.** Each task publishes its file in the commit phase, before reporting that it is done. A task without
rows publishes an empty file. So all files of a committed transaction exist, and the files of n + 1 appear only after n
is committed.

*Invariant: a transaction is read from the files of one attempt, all of them or none.* Two attempts can distribute the
same rows differently over the tasks, so files of two attempts must never be mixed. An attempt is *whole* when it has as
many files as their names say. Of several whole attempts the newest is taken, which is the attempt that commits, if any
does.

A whole attempt can still be replayed until it is known to be committed. Under the transactional rule the replay has the
same rows. So it does not matter which of the attempts is read, nor whether a restarted query reads the other one: a
transaction is offered as soon as it is whole. Under the opaque rule the rows can differ: a transaction is offered when
a later transaction has a file, since then it is committed and no newer attempt can follow.

**Segments** are numbered by each task without gaps, and offered as soon as they exist.

**Listings.** A directory can change while it is being listed: of two files that appear meanwhile, the listing can show
the later one without the earlier one. Files that appeared before a file in one listing are in every listing begun after
that listing. So a decision needs two listings: ``seen`` gives the highest number that counts, and ``listing``, made
afterwards, gives the files up to that number.

An offset is the last position that a query has read, inclusive: ``{"txid": 12}``, or ``{"0": 7, "1": 9}``, the last
segment of each task.
"""

from __future__ import annotations  # pure

import re
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from tupletree.attempt import TransactionAttempt
from tupletree.errors import UsageError

Offset = dict[str, int]
Listing = Mapping[str, int]
"""File name -> size in bytes."""

TXID = "txid"
_TRANSACTION = re.compile(r"t\.(\d+)\.(\d+)\.(\d+)\.(\d+)\.arrow")
_SEGMENT = re.compile(r"s\.(\d+)\.(\d+)\.arrow")


class Chunk(NamedTuple):
    """A file to be read by a query. ``txid`` is None for a segment."""

    name: str
    txid: int | None
    size: int


def transaction_file(attempt: TransactionAttempt, index: int, tasks: int) -> str:
    """Return the name of a task's file for an attempt."""
    return f"t.{attempt.txid}.{attempt.attempt}.{index}.{tasks}.arrow"


def segment_file(index: int, number: int) -> str:
    """Return the name of a task's segment."""
    return f"s.{index}.{number}.arrow"


def txids(names: Iterable[str]) -> set[int]:
    """Return the txids of the transactions that have a file."""
    return {int(match[1]) for match in map(_TRANSACTION.fullmatch, names) if match}


def segments(names: Iterable[str]) -> dict[str, list[int]]:
    """Return the segment numbers of each task, ascending."""
    found: dict[str, list[int]] = {}
    for match in filter(None, map(_SEGMENT.fullmatch, names)):
        found.setdefault(match[1], []).append(int(match[2]))
    return {index: sorted(numbers) for index, numbers in found.items()}


def position(name: str) -> tuple[str, int] | None:
    """Return the key and value of the offset that a file corresponds to. None if it is not an exported file."""
    if match := _TRANSACTION.fullmatch(name):
        return TXID, int(match[1])
    if match := _SEGMENT.fullmatch(name):
        return match[1], int(match[2])
    return None


class Transactions:
    """Offers of a transactional export. ``removed``: the txid up to which files were removed."""

    def __init__(self, seen: Collection[str], listing: Listing, removed: Offset, *, is_opaque: bool) -> None:
        self._removed = removed.get(TXID, 0)
        self._newest = max(txids(seen), default=0)
        # Files left by a query that died while removing them count as removed.
        self._present = sorted(txid for txid in txids(listing) if self._removed < txid <= self._newest)
        self._whole = _whole(listing)
        self._is_opaque = is_opaque

    def initial(self) -> Offset:
        """Return the offset at which a new query begins: before all present transactions."""
        return {TXID: self._present[0] - 1 if self._present else self._removed}

    def latest(self, start: Offset, max_bytes: int | None) -> Offset:
        """Return the offset up to which a query may read after ``start``: at least one transaction, if there is one."""
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
        """Return the files of the transactions after ``start`` up to ``end``, an offset that was offered earlier."""
        self._check(start)
        wanted = [txid for txid in self._present if start[TXID] < txid <= end[TXID]]
        first = wanted[0] if wanted and start[TXID] == 0 else start[TXID] + 1  # an export can begin at any txid
        for txid in range(first, end[TXID] + 1):
            if txid not in self._whole:
                raise UsageError(f"transaction {txid} cannot be read: some of its files are gone")
        return [chunk for txid in wanted for chunk in self._whole[txid]]

    def _check(self, start: Offset) -> None:
        if set(start) != {TXID}:
            raise UsageError(f"the checkpoint says {start}, but the stream is transactional: use a new checkpoint")
        if start[TXID] < self._removed:
            raise UsageError(
                f"transactions up to {self._removed} were removed by another query, but this query has read only up to "
                f"{start[TXID]}; use the option 'prune' only if a stream has a single query"
            )
        if self._present and self._newest < start[TXID]:
            raise UsageError(
                f"the checkpoint says that transactions up to {start[TXID]} were read, but the newest is "
                f"{self._newest}: the stream was restarted; use a new checkpoint"
            )


class Segments:
    """Offers of an export without transactions: every row at least once."""

    def __init__(self, seen: Collection[str], listing: Listing, removed: Offset) -> None:
        newest = {index: numbers[-1] for index, numbers in segments(seen).items()}
        self._present = {
            index: [number for number in numbers if removed.get(index, 0) < number <= newest.get(index, 0)]
            for index, numbers in segments(listing).items()
        }
        self._listing = listing
        self._removed = removed

    def initial(self) -> Offset:
        """Return the offset at which a new query begins: before all present segments."""
        return {**self._removed, **{index: numbers[0] - 1 for index, numbers in self._present.items() if numbers}}

    def latest(self, start: Offset, max_bytes: int | None) -> Offset:
        """Same as for transactions. The segments of all tasks advance evenly."""
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
        """Return the segments after ``start`` up to ``end``, an offset that was offered earlier."""
        self._check(start)
        found = []
        for index, last in end.items():
            for number in range(start.get(index, 0) + 1, last + 1):
                name = segment_file(int(index), number)
                if name not in self._listing:
                    raise UsageError(f"segment {number} of task {index} cannot be read: its file is gone")
                found.append(Chunk(name, None, self._listing[name]))
        return found

    def _check(self, start: Offset) -> None:
        if TXID in start:
            raise UsageError(f"the checkpoint says {start}, but the stream has no transactions: use a new checkpoint")
        for index, last in self._removed.items():
            if start.get(index, 0) < last:
                raise UsageError(
                    f"segments of task {index} up to {last} were removed by another query, but this query has read"
                    f" only up to {start.get(index, 0)}; use the option 'prune' only if a stream has a single query"
                )
        for index, numbers in self._present.items():
            if numbers and numbers[-1] < start.get(index, 0):
                raise UsageError(
                    f"the checkpoint says that task {index} was read up to segment {start[index]}, but its newest is "
                    f"{numbers[-1]}: the stream was restarted; use a new checkpoint"
                )


def packed(chunks: Iterable[Chunk], bytes_each: int) -> list[list[Chunk]]:
    """Group chunks into about ``bytes_each`` bytes each, one group per Spark task."""
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
    """Return the files of the newest whole attempt, for each transaction that has one."""
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
