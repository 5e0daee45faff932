"""Progress stored in the cluster's ZooKeeper. Progress in another ensemble is not read."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tupletree._checkpoints.record import load_checkpoint
from tupletree._coord.store import Store
from tupletree._stores.nodes import StateStore
from tupletree.errors import NotFoundError, UnavailableError, UsageError
from tupletree.transactional.status import load_status
from tupletree.v1 import topology_pb2 as pb

from ..progress_store import progress_store

Stored = tuple[dict[str, Mapping[str, Any]], str]
"""Progress by id, and the reasons why entries could not be read; empty if all were read."""


def stored_transactions(store: Store, record: pb.TopologyRecord, ids: Sequence[str]) -> Stored:
    """Read the progress of transactional ids. Blocks on ZooKeeper. Raises UnavailableError."""
    return _read(store, record, ids, _transaction)


def stored_checkpoints(store: Store, record: pb.TopologyRecord, ids: Sequence[str]) -> Stored:
    """Read the progress of state ids. Blocks on ZooKeeper. Raises UnavailableError."""
    return _read(store, record, ids, _checkpoint)


def _read(
    store: Store, record: pb.TopologyRecord, ids: Sequence[str], read: Callable[[StateStore, str], Mapping[str, Any]]
) -> Stored:
    try:
        states = progress_store(store, record)
    except UsageError as error:
        return {}, str(error)
    found: dict[str, Mapping[str, Any]] = {}
    failures: list[str] = []
    for one in ids:
        try:
            found[one] = read(states, one)
        except NotFoundError:
            continue
        except UnavailableError:
            raise
        except Exception as error:  # topologies may have written anything; the rest is still shown
            failures.append(f"{one!r} cannot be read: {error}")
    return found, "; ".join(failures)


def _transaction(states: StateStore, transactional_id: str) -> Mapping[str, Any]:
    status = load_status(states, transactional_id)
    committing = status.committing
    return {
        **dataclasses.asdict(status),
        "committing": None if committing is None else {"txid": committing.txid, "attempt": committing.attempt},
    }


def _checkpoint(states: StateStore, state_id: str) -> Mapping[str, Any]:
    checkpoint, epoch, owner = load_checkpoint(states, state_id)
    return {
        "id": state_id,
        "txid": checkpoint.txid,
        "phase": checkpoint.phase.value,
        "tasks": dict(checkpoint.tasks),
        "epoch": epoch,
        "owner": owner,
    }
