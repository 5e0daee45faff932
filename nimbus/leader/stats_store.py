"""Preserves the topologies' statistics across a change of leaders.

The leader writes its sums to ``statistics/<topology>`` every ``nimbus.monitor.freq.secs``, in a large cluster less
often, and the next leader reads them when it begins. The counts of a worker since the last write are
lost if the worker dies before it reports to the next leader.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence

from tupletree._coord import paths
from tupletree._coord.leader import LeaderElection, Put, Write, parts
from tupletree._coord.store import Store
from tupletree._log import event
from tupletree.errors import AuthorityError, ConflictError, UnavailableError

from ..statistics.stats_encoding import decode_memory, encode_memory
from ..statistics.topology_statistics import Memory
from ..threads import leading
from .leader_state import LeaderState

log = logging.getLogger("tupletree.nimbus")

_LIMIT_BYTES = 900_000  # a ZooKeeper node holds 1 MiB
_SHARE = 30  # storing takes at most one part in so many of the time
_ANY_VERSION = -1  # the write is fenced by the epoch; only the leader writes here


class StatsStore:
    """Loads and stores the statistics of one leadership."""

    def __init__(self, store: Store, election: LeaderElection, leader_state: LeaderState) -> None:
        self._store = store
        self._election = election
        self._leader_state = leader_state
        self._stored: dict[str, bytes] = {}
        self._shortened: set[str] = set()  # topologies already logged as too large to store in full

    def load(self) -> dict[str, Memory]:
        """Read the statistics of the last leader, by topology id. Blocks on ZooKeeper."""
        topologies = self._store.topologies()
        self._stored = self._store.statistics(topologies.keys() | topologies.unreadable.keys())
        found = {}
        for topology_id, data in self._stored.items():
            try:
                found[topology_id] = decode_memory(data)
            except ValueError as error:
                event(log, "statistics.not_read", level=logging.WARNING, topology=topology_id, cause=error)
        return found

    def recall(self, found: dict[str, Memory]) -> None:
        """Begin with the loaded statistics. Call in the thread that owns the leader state."""
        for topology_id, memory in found.items():
            self._leader_state.statistics(topology_id).recall(memory)

    async def keep(self, pause_s: float) -> None:
        """Store the statistics every ``pause_s``, in a large cluster less often. Ends when the leadership is over."""
        while True:
            await asyncio.sleep(pause_s)
            began_s = time.monotonic()
            try:
                await leading.run(self.store, await self.memories())
            except UnavailableError as error:
                event(log, "statistics.not_kept", level=logging.DEBUG, cause=error)
            except AuthorityError:
                return
            await asyncio.sleep(_SHARE * (time.monotonic() - began_s))

    async def memories(self) -> dict[str, Memory]:
        """Collect all statistics to keep, in the thread that owns the leader state. Yields between topologies."""
        found = {}
        for topology_id, kept in self._leader_state.statistics_kept().items():
            found[topology_id] = kept.memory()
            await asyncio.sleep(0)
        return found

    def store(self, memories: dict[str, Memory]) -> None:
        """Write the statistics that changed. Topologies removed meanwhile are skipped. Blocks on ZooKeeper."""
        writes: list[Write] = []
        found: dict[str, tuple[str, bytes]] = {}  # by path
        self._shortened &= memories.keys()
        for topology_id, memory in memories.items():
            data, missing = encode_memory(memory, _LIMIT_BYTES)
            if missing and topology_id not in self._shortened:
                self._shortened.add(topology_id)
                cause = f"{missing} pairs of worker and component do not fit: only the workers' reports restore them"
                event(log, "statistics.shortened", level=logging.WARNING, topology=topology_id, cause=cause)
            if data == self._stored.get(topology_id):
                continue
            path = paths.statistics_of(self._store.root, topology_id)
            found[path] = topology_id, data
            writes.append(Put(path, data, _ANY_VERSION))
        for some in parts(writes):
            self._stored.update(found[path] for path in self._write(some))

    def _write(self, writes: Sequence[Write]) -> list[str]:
        """Write in one transaction, or one by one if a topology was removed meanwhile. Return the paths written."""
        try:
            self._election.write(self._leader_state.epoch, writes)
            return [one.path for one in writes]
        except ConflictError as error:
            if len(writes) > 1:
                return [path for one in writes for path in self._write([one])]
            event(log, "statistics.not_kept", level=logging.DEBUG, node=writes[0].path, cause=error)
            return []
