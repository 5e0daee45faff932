"""Removal of the stored checkpoint of a state id, and the topologies that forbid it."""

from __future__ import annotations

import json
from collections.abc import Iterable

from tupletree._checkpoints.record import FOLDER, checkpoint_path, epoch_path
from tupletree._checkpoints.steps import CHECKPOINT_SPOUT
from tupletree._stores.nodes import Check, Delete, StateStore, Write
from tupletree.errors import ConflictError, UsageError
from tupletree.v1 import topology_pb2 as pb


def users_of(state_id: str, records: Iterable[pb.TopologyRecord]) -> list[str]:
    """Return the names of the topologies that store their checkpoints under a state id, sorted."""
    return sorted(record.name for record in records if state_id_of(record) == state_id)


def state_id_of(record: pb.TopologyRecord) -> str | None:
    """Return the state id of a topology; None for a topology without states."""
    if CHECKPOINT_SPOUT not in record.tasks:
        return None
    try:
        chosen = json.loads(record.conf_json or "{}").get("topology.state.id")
    except (ValueError, AttributeError, RecursionError):
        chosen = None
    return record.name if chosen is None else str(chosen)


def forget(store: StateStore, state_id: str) -> bool:
    """Remove the checkpoint that is stored for a valid state id. Return False if none is.

    Raises:
        UsageError: a checkpoint spout took over, or stored a checkpoint, during the call.
        UnavailableError: the store cannot be reached. The checkpoint is possibly removed: repeat the call.
    """
    if state_id not in store.children(FOLDER):
        return False
    epoch, checkpoint = store.get(epoch_path(state_id)), store.get(checkpoint_path(state_id))
    writes: list[Write] = []
    if checkpoint is not None:
        writes += [Check(checkpoint_path(state_id), checkpoint.version), Delete(checkpoint_path(state_id))]
    if epoch is not None:
        writes += [Check(epoch_path(state_id), epoch.version), Delete(epoch_path(state_id))]
    try:
        store.write([*writes, Delete(f"{FOLDER}/{state_id}")])
    except ConflictError:
        raise UsageError(
            f"the checkpoint of state id {state_id!r} was not removed: somebody changes it at this moment, such as a "
            f"topology that has just started"
        ) from None
    return True
