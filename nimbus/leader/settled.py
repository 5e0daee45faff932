"""Topologies for which the last decision found nothing to change and the next one would find the same. Pure.

A decision depends on a topology's record, assignment and workers, and on the supervisors and ackers. While all of these
are the same objects as before, or equal to them, the topology need not be looked at again: the cost of a decision is
that of what has changed. These topologies are looked at each time: those that wait for a kill or rebalance, that have a
dead worker, that have fewer workers than wanted, and those that cannot be read.
"""

from __future__ import annotations  # pure

from collections.abc import Collection, Mapping
from typing import Protocol

from tupletree._coord.versioned import Versioned
from tupletree.v1 import topology_pb2 as pb

from .isolation import Owner
from .scheduler import Slot
from .shard_placement import Acker


class Cluster(Protocol):
    """The part of a snapshot that decisions about a topology without faults depend on."""

    @property
    def records(self) -> Mapping[str, Versioned[pb.TopologyRecord]]: ...
    @property
    def assignments(self) -> Mapping[str, Versioned[pb.Assignment]]: ...
    @property
    def supervisors(self) -> Mapping[str, pb.Presence]: ...
    @property
    def ackers(self) -> Mapping[str, Acker]: ...
    @property
    def worker_presences(self) -> Mapping[str, Collection[Slot]]: ...


_Seen = tuple[Versioned[pb.TopologyRecord], Versioned[pb.Assignment] | None, Collection[Slot]]


class Settled:
    """The settled topologies of one leadership."""

    def __init__(self) -> None:
        self._supervisors: Mapping[str, pb.Presence] = {}
        self._ackers: Mapping[str, Acker] = {}
        self._owners: Mapping[str, Owner] = {}  # of supervisors that are not everybody's
        self._seen: dict[str, _Seen] = {}

    def observe(self, cluster: Cluster, owners: Mapping[str, Owner] | None = None) -> None:
        """Begin a decision. Nothing is settled after a change of the supervisors, their owners or the ackers."""
        owners = owners or {}
        if cluster.supervisors != self._supervisors or cluster.ackers != self._ackers or owners != self._owners:
            self._seen.clear()
        self._owners = owners
        self._supervisors, self._ackers = dict(cluster.supervisors), dict(cluster.ackers)
        for topology_id in self._seen.keys() - cluster.records.keys():
            del self._seen[topology_id]

    def has(self, cluster: Cluster, topology_id: str) -> bool:
        """True if nothing that concerns the topology has changed since ``add``."""
        seen = self._seen.get(topology_id)
        if seen is None:
            return False
        record, assignment, workers = seen
        return (
            record is cluster.records[topology_id]
            and assignment is cluster.assignments.get(topology_id)
            and workers == cluster.worker_presences.get(topology_id, ())
        )

    def add(self, cluster: Cluster, topology_id: str) -> None:
        """Record that nothing is to be changed, whatever slots are free."""
        found = cluster.records[topology_id], cluster.assignments.get(topology_id)
        self._seen[topology_id] = (*found, cluster.worker_presences.get(topology_id, ()))
