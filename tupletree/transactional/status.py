"""Progress of transactional topologies, read from the store without taking over."""

from __future__ import annotations  # pure

from dataclasses import dataclass

from tupletree._stores.node_encoding import decode_owner
from tupletree._stores.nodes import StateStore
from tupletree.attempt import TransactionAttempt
from tupletree.errors import NotFoundError
from tupletree.transactional.layout import (
    check_id,
    decode_progress,
    epoch_path,
    metadata_folder,
    partitions_folder,
    progress_path,
)


@dataclass(frozen=True, slots=True)
class Status:
    """The progress of one transactional id.

    ``owner``: the last coordinator, even if it has ended. ``committing``: the first attempt of the group that is about
    to commit. ``begun``: the last transaction whose metadata is stored.
    ``partitions``: number of partitions with stored state; 0 for a spout without partitions.
    """

    id: str
    epoch: int
    owner: str
    committed: int
    committing: TransactionAttempt | None
    begun: int
    partitions: int


def transactional_ids(store: StateStore) -> list[str]:
    """Return all ids that have progress, sorted. Raises UnavailableError."""
    return [name for name in store.children("") if store.get(epoch_path(name)) is not None]


def load_status(store: StateStore, transactional_id: str) -> Status:
    """Load the status of an id. While its topology is running, the values are not from a single point in time.

    Raises:
        NotFoundError: nothing is stored for the id.
        UsageError: a newer version of Tupletree wrote the data, or the id is not a valid name.
        UnavailableError: the store cannot be reached.
    """
    check_id(transactional_id)
    path = epoch_path(transactional_id)
    epoch, progress = store.get(path), store.get(progress_path(transactional_id))
    if epoch is None:
        known = ", ".join(transactional_ids(store)) or "there is none"
        raise NotFoundError(f"no progress is stored for transactional id {transactional_id!r}; known: {known}")
    committed, committing = (
        (0, ()) if progress is None else decode_progress(progress_path(transactional_id), progress.data)
    )
    begun = [int(name) for name in store.children(metadata_folder(transactional_id)) if name.isdecimal()]
    return Status(
        id=transactional_id,
        epoch=epoch.version,
        owner=decode_owner(path, epoch.data),
        committed=committed,
        committing=committing[0] if committing else None,
        begun=max(begun, default=committed),
        partitions=len(store.children(partitions_folder(transactional_id))),
    )
