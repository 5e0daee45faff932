"""The places of the cluster while a decision is made: which slots are free, and how many shards each acker holds.

Both are counted once for a decision and kept up to date with each change, so that deciding costs what the topologies
and supervisors are together, not one times the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from .scheduler import Slot
from .shard_placement import Shard, load_of


class FreeCapacity:
    """``slots``: those of all registered supervisors. ``used``: the slots of each topology's stored assignment.
    ``shards``: the shards of each topology, likewise."""

    def __init__(
        self, slots: Iterable[Slot], used: Mapping[str, Iterable[Slot]], shards: Mapping[str, Sequence[Shard]]
    ) -> None:
        self._slots = frozenset(slots)
        self._users: dict[Slot, str] = {slot: one for one, own in used.items() for slot in own}
        self._free = set(self._slots - self._users.keys())
        self._shards = dict(shards)
        self._load = load_of(shards.values())

    @property
    def free(self) -> int:
        """How many slots no topology uses."""
        return len(self._free)

    def own(self, topology_id: str, current: Iterable[Slot]) -> set[Slot]:
        """Those of a topology's current slots that it may go on using: their supervisors are registered."""
        return {slot for slot in current if slot in self._slots and self._users[slot] == topology_id}

    def offered(self, topology_id: str, current: Iterable[Slot]) -> set[Slot]:
        """Every slot that a topology may use. This takes as long as there are free slots: ask when something moves."""
        return self._free | self.own(topology_id, current)

    @contextmanager
    def load_without(self, topology_id: str) -> Iterator[Mapping[str, int]]:
        """Inside, how many shards of other topologies each acker holds."""
        own = load_of([self._shards.get(topology_id, ())])
        self._load.subtract(own)
        try:
            yield self._load
        finally:
            self._load.update(own)

    def take(self, topology_id: str, slots: Iterable[Slot], shards: Sequence[Shard]) -> None:
        """Note what a topology is given. What it gives up stays taken until that is written."""
        for slot in slots:
            self._users[slot] = topology_id
            self._free.discard(slot)
        self._load.subtract(load_of([self._shards.get(topology_id, ())]))
        self._load.update(load_of([shards]))
        self._shards[topology_id] = shards
