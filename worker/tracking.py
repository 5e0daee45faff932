"""What one run loop has to tell the ackers, combined for each root, and how it is split among their shards.

A tree's ack value is the xor of everything reported for its root, in any order and grouping (docs/protocol.md). So all
that a run loop learns of a root between two flushes is one xor in a dict, and an ack costs one dict update.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tupletree._wire.packed import pack_u32, pack_u64
from tupletree.v1 import acker_pb2


@dataclass(slots=True)
class Updates:
    """Ledger updates that wait for a flush. ``init_*`` are parallel lists, one item for each new tree."""

    acks: dict[int, int] = field(default_factory=dict)
    init_roots: list[int] = field(default_factory=list)
    init_values: list[int] = field(default_factory=list)
    init_tasks: list[int] = field(default_factory=list)
    fails: set[int] = field(default_factory=set)
    resets: set[int] = field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(self.acks or self.init_roots or self.fails or self.resets)

    def __len__(self) -> int:
        """How many roots have news; one that has two kinds counts twice."""
        return len(self.acks) + len(self.init_roots) + len(self.fails) + len(self.resets)

    def add_ack(self, root: int, value: int) -> None:
        """Xor ``value`` into what will be reported for ``root``."""
        self.acks[root] = self.acks.get(root, 0) ^ value

    def add_init(self, root: int, value: int, task: int) -> None:
        """Report a new tree of a spout task."""
        self.init_roots.append(root)
        self.init_values.append(value)
        self.init_tasks.append(task)

    def roots(self) -> set[int]:
        """Every root that is mentioned."""
        return self.fails | self.resets | self.acks.keys() | set(self.init_roots)


def split(updates: Updates, shards: int) -> dict[int, Updates]:
    """Updates by shard: a root belongs to shard ``root mod shards``. Shards without updates are left out."""
    if shards == 1:
        return {0: updates}
    parts: dict[int, Updates] = {}

    def part(root: int) -> Updates:
        shard = root % shards
        if shard not in parts:
            parts[shard] = Updates()
        return parts[shard]

    for root, value in updates.acks.items():
        part(root).acks[root] = value
    for root, value, task in zip(updates.init_roots, updates.init_values, updates.init_tasks, strict=True):
        part(root).add_init(root, value, task)
    for root in updates.fails:
        part(root).fails.add(root)
    for root in updates.resets:
        part(root).resets.add(root)
    return parts


def encode(shard: int, updates: Updates) -> acker_pb2.ShardUpdate:
    """Updates of one shard as a message."""
    return acker_pb2.ShardUpdate(
        shard=shard,
        init_roots=pack_u64(updates.init_roots),
        init_values=pack_u64(updates.init_values),
        init_tasks=pack_u32(updates.init_tasks),
        ack_roots=pack_u64(updates.acks.keys()),
        ack_values=pack_u64(updates.acks.values()),
        fail_roots=pack_u64(updates.fails),
        reset_roots=pack_u64(updates.resets),
    )
