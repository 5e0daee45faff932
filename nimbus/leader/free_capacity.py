"""Free capacity of the cluster during a decision: the free slots, and the number of shards per acker.

Both are counted once per decision and updated with each change. The cost of a decision is therefore proportional to
the number of topologies plus supervisors, not to their product.
"""

from __future__ import annotations  # pure

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from .scheduler import Slot
from .shard_placement import Shard, load_of


class FreeCapacity:
    """Free slots and shard counts.

    ``slots``: the slots of all registered supervisors. ``used`` and ``shards``: the slots and shards in the stored
    assignment of each topology.
    """

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
        """Number of slots that no topology uses."""
        return len(self._free)

    def own(self, topology_id: str, current: Iterable[Slot]) -> set[Slot]:
        """Return the current slots that a topology can keep: those whose supervisor is registered."""
        return {slot for slot in current if slot in self._slots and self._users[slot] == topology_id}

    def offered(self, topology_id: str, current: Iterable[Slot]) -> set[Slot]:
        """Return every slot that a topology can use. The cost is linear in the free slots: call only when needed."""
        return self._free | self.own(topology_id, current)

    def reserve(self, slots: Iterable[Slot]) -> None:
        """Offer free slots to nobody any more."""
        self._free.difference_update(slots)

    @contextmanager
    def load_without(self, topology_id: str) -> Iterator[Mapping[str, int]]:
        """Yield the number of shards of other topologies per acker, valid inside the ``with`` block."""
        own = load_of([self._shards.get(topology_id, ())])
        self._load.subtract(own)
        try:
            yield self._load
        finally:
            self._load.update(own)

    def allocate(self, topology_id: str, slots: Iterable[Slot], shards: Sequence[Shard]) -> None:
        """Record a topology's new slots and shards. Its former slots stay in use until the assignment is written."""
        for slot in slots:
            self._users[slot] = topology_id
            self._free.discard(slot)
        self._load.subtract(load_of([self._shards.get(topology_id, ())]))
        self._load.update(load_of([shards]))
        self._shards[topology_id] = shards
