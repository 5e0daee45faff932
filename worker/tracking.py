"""What one run loop has to tell the ackers, and how it is split among their shards.

A tree's ack value is the xor of everything reported for its root, in any order and grouping (docs/protocol.md). So acks
of one root that come one after the other, as those of the words of a sentence do, are reported as one. Others are not
looked for: the acker adds them up for less than a dictionary here would take.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from tupletree._wire.packed import pack_u32, pack_u64
from tupletree.v1 import acker_pb2

from .pairs import Pairs

Ids: TypeAlias = "array[int]"
Columns: TypeAlias = tuple[Ids, Ids, Ids, Ids, Ids, Ids, Ids]
"""Roots, values and tasks of inits; roots and values of acks; roots of fails; roots of resets."""


class Keeper:
    """Who is told of the trees that a spout's collector begins: its task, or what stands in its place (following.py).

    Compiled, a call of ``track`` makes no Python object of an id.
    """

    __slots__ = ("is_tracked",)

    is_tracked: bool

    def track(self, root: int, value: int, msg_id: Any) -> None:
        """A tree was begun by an emit; its root is new."""
        raise NotImplementedError


class Updates:
    """Ledger updates that wait for a flush.

    ``acks``: roots and what to xor into their values. ``inits``: roots and first values of new trees, ``init_tasks``
    the spout task of each.
    """

    __slots__ = ("acks", "fails", "init_tasks", "inits", "resets")

    def __init__(self) -> None:
        self.acks = Pairs()
        self.inits = Pairs()
        self.init_tasks: list[int] = []
        self.fails: set[int] = set()
        self.resets: set[int] = set()

    @staticmethod
    def of(acks: Iterable[tuple[int, int]] = (), fails: Iterable[int] = ()) -> Updates:
        """Updates that are known already: acks as (root, value), and roots of trees that failed."""
        updates = Updates()
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
        """Xor ``value`` into what the acker holds for ``root``."""
        self.acks.add(root, value)

    def add_acks(self, other: Updates) -> None:
        """Take over the acks of other updates, which were held back until now."""
        roots, values = other.acks.columns()
        for at in range(len(roots)):
            self.acks.add(roots[at], values[at])

    def add_init(self, root: int, value: int, task: int) -> None:
        """Report a new tree of a spout task."""
        self.inits.append(root, value)
        self.init_tasks.append(task)

    def columns(self) -> Columns:
        """Copies of all columns, in the order in which ``Ledger.apply`` takes them."""
        tasks = array("I", self.init_tasks)
        return *self.inits.columns(), tasks, *self.acks.columns(), array("Q", self.fails), array("Q", self.resets)

    def roots(self) -> set[int]:
        """Every root that is mentioned."""
        return self.fails.union(self.resets, self.acks.columns()[0], self.inits.columns()[0])


def split(updates: Updates, shards: int) -> dict[int, Updates]:
    """Updates by shard: a root belongs to shard ``root mod shards``. Shards without updates are left out."""
    if shards == 1:
        return {0: updates}
    parts = [Updates() for _ in range(shards)]
    roots, values = updates.acks.columns()
    for at in range(len(roots)):
        part = parts[roots[at] % shards]
        part.add_ack(roots[at], values[at])
    roots, values = updates.inits.columns()
    for at in range(len(roots)):
        part = parts[roots[at] % shards]
        part.add_init(roots[at], values[at], updates.init_tasks[at])
    for root in updates.fails:
        part = parts[root % shards]
        part.fails.add(root)
    for root in updates.resets:
        part = parts[root % shards]
        part.resets.add(root)
    return {shard: part for shard, part in enumerate(parts) if part}


def encode(shard: int, parts: Iterable[Updates]) -> acker_pb2.ShardUpdate:
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
