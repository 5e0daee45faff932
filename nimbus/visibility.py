"""Filter for the part of the cluster that a caller may see: readable topologies and their assignments. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from tupletree._security.rights import Principal, acl_of, is_admin, may_read

from .leader.cluster_state import ClusterState


def visible(loaded: ClusterState, who: Principal | None, admins: Collection[str]) -> ClusterState:
    """Return ``loaded`` with only the topologies that ``who`` may read. With None, everything is visible.

    A topology whose owner cannot be read is visible only to administrators.
    """
    if who is None or is_admin(who, admins):
        return loaded
    seen = {one for one, stored in loaded.records.items() if may_read(who, admins, acl_of(stored.value))}
    if seen >= loaded.records.keys() | loaded.unread.keys():
        return loaded
    return replace(
        loaded,
        records={one: stored for one, stored in loaded.records.items() if one in seen},
        assignments={one: stored for one, stored in loaded.assignments.items() if one in seen},
        worker_presences={one: slots for one, slots in loaded.worker_presences.items() if one in seen},
        unread_records={one: why for one, why in loaded.unread_records.items() if one in seen},
        unread_assignments={one: why for one, why in loaded.unread_assignments.items() if one in seen},
    )
