"""Keeps the topologies' statistics over a change of leaders.

What a leader has summed up lies in ``statistics/<topology>``, written every ``nimbus.monitor.freq.secs`` and read when
the next leader begins. What was counted by a worker that died in between, and by nobody else, is missing afterwards.
"""

from __future__ import annotations

import logging

from tupletree._coord import paths
from tupletree._coord.leader import LeaderElection, Put
from tupletree._coord.store import Store
from tupletree._daemon.logs import event
from tupletree.errors import ConflictError

from .reign import Reign
from .stats import decode_memory, encode_memory

log = logging.getLogger("tupletree.nimbus")

_LIMIT_BYTES = 900_000  # a ZooKeeper node holds 1 MiB
_ANY_VERSION = -1  # the epoch guards it; nobody but the leader writes here


class Recollection:
    """Loads and stores the statistics of one leadership."""

    def __init__(self, store: Store, election: LeaderElection, reign: Reign) -> None:
        self._store = store
        self._election = election
        self._reign = reign
        self._stored: dict[str, bytes] = {}

    def load(self) -> dict[str, bytes]:
        """What the last leader left, by topology id. Blocks on ZooKeeper."""
        self._stored = self._store.statistics(self._store.topologies())
        return self._stored

    def recall(self, found: dict[str, bytes]) -> None:
        """Begin with it. In the thread that owns the reign."""
        for topology_id, data in found.items():
            self._reign.statistics(topology_id).recall(decode_memory(data))

    def memories(self) -> dict[str, bytes]:
        """What has changed since it was stored last. In the thread that owns the reign."""
        found = {one: encode_memory(kept.memory()) for one, kept in self._reign.statistics_kept().items()}
        return {one: data for one, data in found.items() if data != self._stored.get(one)}

    def store(self, memories: dict[str, bytes]) -> None:
        """Write them down. A topology that was removed meanwhile is left out. Blocks on ZooKeeper."""
        for topology_id, data in memories.items():
            self._stored[topology_id] = data
            if len(data) > _LIMIT_BYTES:
                event(log, "statistics.not_kept", level=logging.DEBUG, topology=topology_id, bytes=len(data))
                continue
            try:
                write = Put(paths.statistics_of(self._store.root, topology_id), data, _ANY_VERSION)
                self._election.write(self._reign.epoch, [write])
            except ConflictError as error:
                event(log, "statistics.not_kept", level=logging.DEBUG, topology=topology_id, cause=error)
