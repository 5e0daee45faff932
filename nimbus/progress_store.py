"""Stored progress of topologies: in the cluster's ZooKeeper, beside the records of nimbus itself."""

from __future__ import annotations

import json

from tupletree._checkpoints.forgetting import state_id_of
from tupletree._checkpoints.record import stored_checkpoint
from tupletree._checkpoints.settings import SAVEPOINT, awaits_savepoint
from tupletree._coord.store import Store
from tupletree._stores.nodes import StateStore
from tupletree._stores.zookeeper_nodes import ZooKeeperStore
from tupletree.errors import InternalError, UsageError
from tupletree.v1 import topology_pb2 as pb

from .updates import state_versions


def progress_store(store: Store, record: pb.TopologyRecord) -> StateStore:
    """Return the store of a topology's progress. Raises UsageError if it is not one that nimbus reads."""
    conf = json.loads(record.conf_json) if record.conf_json else {}
    if conf.get("transactional.zookeeper.servers") or conf.get("transactional.zookeeper.port"):
        raise UsageError("the topology stores its progress in another ensemble (transactional.zookeeper.servers)")
    try:
        return ZooKeeperStore(store.client, conf.get("transactional.zookeeper.root") or "/transactional")
    except UsageError as error:
        raise UsageError(f"the topology's progress cannot be read: {error}") from None


def check_readable(store: Store, record: pb.TopologyRecord, spec: pb.TopologySpec) -> None:
    """Check that other code of a topology reads the states that are stored. Blocks on ZooKeeper.

    ``spec``: the outline of that code. What is stored elsewhere is left to the checkpoint spout, which checks it again.

    Raises:
        UsageError: a state was stored by a later ``state_version``, or what is stored is no checkpoint.
        UnavailableError: ZooKeeper cannot be reached.
    """
    state_id = state_id_of(record)
    if state_id is None:
        return
    try:
        states = progress_store(store, record)
    except UsageError:
        return
    versions = state_versions(spec)
    try:
        stored_checkpoint(states, state_id).older_states(versions, versions)
    except InternalError as error:
        raise UsageError(f"the topology's checkpoint cannot be read: {error}") from None


def check_begun(store: Store, record: pb.TopologyRecord) -> None:
    """Check that a topology has begun with its savepoint, if it has one: an update does not carry it. Blocks.

    What is stored elsewhere is left to the checkpoint spout.

    Raises:
        UsageError: its states are not restored yet.
        UnavailableError: ZooKeeper cannot be reached.
    """
    state_id, conf = state_id_of(record), json.loads(record.conf_json or "{}")
    if state_id is None or not conf.get(SAVEPOINT):
        return
    try:
        begun = not awaits_savepoint(conf, record.id, stored_checkpoint(progress_store(store, record), state_id))
    except (UsageError, InternalError):
        return
    if not begun:
        raise UsageError(
            f"topology '{record.name}' has not restored its savepoint yet, which an update does not carry: update it "
            f"when it has, which takes an active topology, or kill it and submit the new code with --from-savepoint"
        )
