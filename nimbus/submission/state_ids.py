"""Topologies that store their checkpoints in the same place: the one that starts later takes them from the other."""

from __future__ import annotations  # pure

import json
from collections.abc import Collection, Iterable

from tupletree._checkpoints.forgetting import state_id_of
from tupletree._security.rights import Principal, acl_of, may_read
from tupletree.v1 import topology_pb2 as pb

from ..leader.lifecycle import KILLED

_PLACE = ("transactional.zookeeper.root", "transactional.zookeeper.servers", "transactional.zookeeper.port")


def shared_state_id(
    record: pb.TopologyRecord, others: Iterable[pb.TopologyRecord], who: Principal | None, admins: Collection[str]
) -> str:
    """Return what a topology is warned of if others have its state id; "" if none has.

    ``who``: the caller, who learns the names of those topologies only that may be seen by them. A topology that is
    being killed has no state id any more.
    """
    place = _place(record)
    sharing = [one for one in others if place is not None and one.status != KILLED and _place(one) == place]
    if place is None or not sharing:
        return ""
    names = sorted(f"topology '{one.name}'" for one in sharing if may_read(who, admins, acl_of(one)))
    if len(names) < len(sharing):
        names.append("another topology, which the caller may not see")
    return (
        f"it has the state id '{place[0]}' (topology.state.id) of {' and '.join(names)}: whichever starts later takes "
        f"checkpoints and states over, and the other cannot go on; kill one, and submit it with a state id of its own"
    )


def _place(record: pb.TopologyRecord) -> tuple[object, ...] | None:
    """Return where a topology stores its checkpoints; None if it takes none."""
    state_id = state_id_of(record)
    if state_id is None:
        return None
    conf = json.loads(record.conf_json or "{}")
    return state_id, *(str(conf.get(key)) for key in _PLACE)
