"""What one run loop has to tell the ackers, and how it is split among their shards.

A tree's ack value is the xor of everything reported for its root, in any order and grouping (docs/protocol.md). So
acks of one root that come one after the other, as those of the words of a sentence do, are reported as one; and those
of a tree that was begun here since the last flush change the value that it is reported with. Its init is mostly the
one that the ack before belonged to, or the next; else a small table from the lowest bits of roots, which are random,
to the newest init that has them is looked into. If it is not there, the acker has an update more. Others are not
looked for: the acker adds them up for less than a dictionary here would take.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from tupletree._wire.packed import pack_u32, pack_u64
from tupletree.v1 import acker_pb2

from .id_columns import IdColumns

Ids: TypeAlias = "array[int]"
Columns: TypeAlias = tuple[Ids, Ids, Ids, Ids, Ids, Ids, Ids]
"""Roots, values and tasks of inits; roots and values of acks; roots of fails; roots of resets."""

NEWEST_MASK = 16_383


class TreeTracker:
    """Tracker of the trees that a spout's collector begins: its task, or what stands in its place (trace_filter.py).

    Compiled, a call of ``track`` makes no Python object of an id.
    """

    __slots__ = ("is_tracked",)

    is_tracked: bool

    def track(self, root: int, value: int, msg_id: Any) -> None:
        """A tree was begun by an emit; its root is new."""
        raise NotImplementedError


class AckUpdates:
    """Ledger updates that wait for a flush.

    ``acks``: roots and what to xor into their values. ``inits``: roots and values of new trees, ``init_tasks`` the
    spout task of each.
    """

    __slots__ = ("_at", "_newest", "acks", "fails", "init_tasks", "inits", "resets")

    def __init__(self) -> None:
        self.acks = IdColumns()
        self.inits = IdColumns()
        self.init_tasks: list[int] = []
        self.fails: set[int] = set()
        self.resets: set[int] = set()
        self._newest: Ids | None = None
        self._at = 0  # the init that an ack was found to belong to last

    def successor(self) -> AckUpdates:
        """Fresh ones for what comes after these, with their table: while they wait they are to take little room."""
        fresh = AckUpdates()
        fresh._newest, self._newest = self._newest, None  # what it says of these is not true of any init of those
        return fresh

    @staticmethod
    def of(acks: Iterable[tuple[int, int]] = (), fails: Iterable[int] = ()) -> AckUpdates:
        """Updates that are known already: acks as (root, value), and roots of trees that failed."""
        updates = AckUpdates()
        for root, value in acks:
            updates.add_ack(root, value)
        updates.fails.update(fails)
        return updates

    def __bool__(self) -> bool:
        return len(self) > 0

    def __len__(self) -> int:
        """How many updates there are."""
        return self.acks.count + self.inits.count + len(self.fails) + len(self.resets)

    def add_ack(self, root: int, value: int) -> None:
        """Xor ``value`` into what the acker holds for ``root``, or will."""
        acks, inits, at = self.acks, self.inits, self._at
        if inits.add_at(at, root, value):
            return
        if inits.add_at(at + 1, root, value):
            self._at = at + 1
            return
        if acks.add_at(acks.count - 1, root, value):
            return
        if self._newest is not None:
            at = self._newest[root & NEWEST_MASK]
            if inits.add_at(at, root, value):
                self._at = at
                return
        acks.append(root, value)

    def add_acks(self, other: AckUpdates) -> None:
        """Take over the acks of other updates, which were held back until now."""
        roots, values = other.acks.columns()
        for at in range(len(roots)):
            self.add_ack(roots[at], values[at])

    def add_init(self, root: int, value: int, task: int) -> None:
        """Report a tree of a spout task, which has not been reported before."""
        if self._newest is None:
            self._newest = array("H", bytes(2 * (NEWEST_MASK + 1)))
        self._newest[root & NEWEST_MASK] = self.inits.count & 0xFFFF  # of more only the first are found again
        self.take_init(root, value, task)

    def take_init(self, root: int, value: int, task: int) -> None:
        """As ``add_init``, for what is told as it is: acks of it that come now are told apart."""
        self.inits.append(root, value)
        self.init_tasks.append(task)

    def columns(self) -> Columns:
        """Copies of all columns, in the order in which ``Ledger.apply`` takes them."""
        tasks = array("I", self.init_tasks)
        return *self.inits.columns(), tasks, *self.acks.columns(), array("Q", self.fails), array("Q", self.resets)

    def roots(self) -> set[int]:
        """Every root that is mentioned."""
        return self.fails.union(self.resets, self.acks.columns()[0], self.inits.columns()[0])


def split(updates: AckUpdates, shards: int) -> dict[int, AckUpdates]:
    """Updates by shard: a root belongs to shard ``root mod shards``. Shards without updates are left out."""
    if shards == 1:
        return {0: updates}
    parts = [AckUpdates() for _ in range(shards)]
    roots, values = updates.acks.columns()
    for at in range(len(roots)):
        part = parts[roots[at] % shards]
        part.add_ack(roots[at], values[at])
    roots, values = updates.inits.columns()
    for at in range(len(roots)):
        part = parts[roots[at] % shards]
        part.take_init(roots[at], values[at], updates.init_tasks[at])
    for root in updates.fails:
        part = parts[root % shards]
        part.fails.add(root)
    for root in updates.resets:
        part = parts[root % shards]
        part.resets.add(root)
    return {shard: part for shard, part in enumerate(parts) if part}


def encode(shard: int, parts: Iterable[AckUpdates]) -> acker_pb2.ShardUpdate:
    """All of these updates of one shard as one message."""
    init_roots, init_values, init_tasks, ack_roots, ack_values, fails, resets = map(
        _joined, zip(*(part.columns() for part in parts), strict=True)
    )
    return acker_pb2.ShardUpdate(
        shard=shard,
        init_roots=pack_u64(init_roots),
        init_values=pack_u64(init_values),
        init_tasks=pack_u32(init_tasks),
        ack_roots=pack_u64(ack_roots),
        ack_values=pack_u64(ack_values),
        fail_roots=pack_u64(fails),
        reset_roots=pack_u64(resets),
    )


def _joined(columns: Sequence[Ids]) -> Ids:
    first, *others = columns
    for column in others:
        first.extend(column)
    return first
