"""Question to the resource scheduler, before a rebalance that must not wait: is there room for it?"""

from __future__ import annotations  # pure

from collections.abc import Iterable

from tupletree.v1 import topology_pb2 as pb

from . import lifecycle
from .planner import Snapshot, placement_of, placer_of, room_of
from .scheduling import QUOTAS


def lack_of(snapshot: Snapshot, record: pb.TopologyRecord) -> str:
    """Explain in one sentence why the rebalance that a record waits for has no room now; "" if it has."""
    shortages: dict[str, str] = {}
    found = snapshot.assignments.get(record.id)
    current = placement_of(found.value) if found is not None else {}
    placer = placer_of(snapshot, room_of(snapshot), shortages)
    if placer.rebalanced(lifecycle.rebalanced(record), current, may_evict=False) is not None:
        return ""
    return shortages[record.id].removeprefix("Its rebalance or update waits. ")


def lacks_resources(shortages: Iterable[str]) -> bool:
    """True if one of the reasons why topologies are not placed is not the quota of their owner."""
    return any(not one.endswith(f"({QUOTAS}).") for one in shortages)
