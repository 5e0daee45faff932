"""Stored record of the last checkpoint: its txid, its phase, and its components.

Below ``transactional.zookeeper.root``, for each state id:

=============================  ==================================================================
node                           value, after the format
=============================  ==================================================================
$checkpoints/<id>/epoch        owner that raised the epoch; the node's *version* is the epoch
$checkpoints/<id>/checkpoint   txid, phase, number of tasks by component, round; then layouts, versions, origin, if any
=============================  ==================================================================

**Invariant.** While the epoch node has the version at which ``take_over`` left it, only this object writes the
checkpoint node. Once the version has changed, this object writes nothing: every write is one transaction with a check
of that version. After an UnavailableError a write possibly happened, or can still happen. The next write therefore
first reads the stored node, and is conditional on its version.

Not thread-safe.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from tupletree._checkpoints.coordinator import Phase
from tupletree._stores.node_encoding import FORMAT, decode_owner, decode_record, decode_stored, encode_stored
from tupletree._stores.nodes import TRIES, Check, Create, DeposedError, Node, Put, StateStore, next_version
from tupletree.errors import AuthorityError, ConflictError, InternalError, NotFoundError, UsageError

FOLDER = "/$checkpoints"
WITH_VERSIONS = 2
"""The format of a checkpoint with versions of states."""
WITH_ORIGIN = 3
"""The format of a checkpoint whose states were restored from a savepoint."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The stored checkpoint. ``tasks``: number of tasks of each component in the last whole checkpoint.

    ``layouts``: for each component whose number of tasks has changed, the checkpoint at which it changed last, or a
    number above it after a second change at that checkpoint, or after a savepoint: part of the names of its states
    (places.py). ``versions``: the ``state_version`` of each component that stored its state, where it is not 1.
    ``round``: a task that opens its state later refuses the steps of earlier rounds (worker/checkpoint/task_state.py).
    ``origin``: the id of the topology that began with a savepoint, or "": its states are restored, and never restored
    again.
    """

    txid: int = 0
    phase: Phase = Phase.COMMITTED
    tasks: Mapping[str, int] = field(default_factory=dict)
    round: int = 0
    layouts: Mapping[str, int] = field(default_factory=dict)
    versions: Mapping[str, int] = field(default_factory=dict)
    origin: str = ""

    def older_states(self, components: Collection[str], versions: Mapping[str, int]) -> list[tuple[str, int]]:
        """Return the components whose states must be migrated, and the versions that have stored them.

        ``components``: those that keep a state. ``versions``: their ``state_version`` where it is not 1.

        Raises:
            UsageError: a state was stored by a later version.
        """
        older = []
        for id in sorted(self.tasks.keys() & components):
            before, now = self.versions.get(id, 1), versions.get(id, 1)
            if before > now:
                raise UsageError(
                    f"the state of component {id!r} was stored by its state_version {before}, and this code, which "
                    f"has state_version {now}, cannot read it: go on with code of state_version {before} or later"
                )
            if before < now:
                older.append((id, before))
        return older


class CheckpointRecord:
    """The stored checkpoint of one state id, owned by its latest checkpoint spout. Created by ``take_over``.

    Attributes:
        epoch: the epoch of this checkpoint spout: the previous epoch + 1, or 1 for the first spout.
        checkpoint: the stored checkpoint.
    """

    def __init__(self, store: StateStore, state_id: str, epoch: int) -> None:
        self.epoch = epoch
        self.checkpoint = Checkpoint()
        self._store = store
        self._id = state_id
        self._node: Node | None = None
        self._is_stale = True

    @staticmethod
    def take_over(store: StateStore, state_id: str, owner: str) -> CheckpointRecord:
        """Raise the epoch, which ends the authority of every earlier checkpoint spout, and read the stored checkpoint.

        ``owner`` identifies the caller. After UnavailableError repeat the call; the epoch is then possibly raised
        twice.

        Raises:
            UsageError: a newer version of Tupletree wrote the checkpoint.
            ConflictError: other spouts keep taking over at the same time.
            DeposedError: another spout took over immediately afterwards.
            UnavailableError: the store cannot be reached.
        """
        path = epoch_path(state_id)
        mine = encode_stored(path, owner)
        for _ in range(TRIES):
            with suppress(ConflictError):
                node = store.get(path)
                if node is None:
                    store.write([Create(path, mine)])
                    node = Node(mine, 0)
                decode_stored(path, node.data)
                store.write([Put(path, mine, node.version)])
                record = CheckpointRecord(store, state_id, node.version + 1)
                record._reload()
                return record
        raise ConflictError(f"other checkpoint spouts keep taking over {state_id!r}")

    def save(self, checkpoint: Checkpoint) -> None:
        """Store a checkpoint.

        Raises:
            DeposedError: another checkpoint spout has taken over; nothing was written.
            AuthorityError: the data stored for the id was removed.
            UnavailableError: the store cannot be reached. The checkpoint is possibly written: repeat the call.
        """
        path = checkpoint_path(self._id)
        more = [dict(checkpoint.layouts), dict(checkpoint.versions), checkpoint.origin]
        while more and not more[-1]:
            more.pop()
        data = encode_stored(
            path,
            checkpoint.txid,
            checkpoint.phase.value,
            dict(checkpoint.tasks),
            checkpoint.round,
            *more,
            form=WITH_ORIGIN if checkpoint.origin else WITH_VERSIONS if checkpoint.versions else FORMAT,
        )
        for _ in range(TRIES):
            self.refresh()
            if self._node is not None and self._node.data == data:
                self.checkpoint = checkpoint
                return
            node = self._node
            write = Create(path, data) if node is None else Put(path, data, node.version)
            version = 0 if node is None else next_version(node.version)
            self._is_stale = True  # until the outcome is known
            with suppress(ConflictError):
                self._store.write([Check(epoch_path(self._id), self.epoch), write])
                self._node, self.checkpoint, self._is_stale = Node(data, version), checkpoint, False
                return
        raise ConflictError(f"the checkpoints of {self._id!r} keep changing: another writer is active")

    def doubt(self) -> None:
        """Make the next call read the store first: another checkpoint spout has possibly taken over."""
        self._is_stale = True

    def refresh(self) -> None:
        """Reread the store if an error or ``doubt`` made the cached data uncertain. Raises the errors of ``save``."""
        if self._is_stale:
            self._reload()

    def _reload(self) -> None:
        self._check_epoch()  # first, because a newer version can have written data that is unreadable here
        self._node = self._store.get(checkpoint_path(self._id))
        self._check_epoch()
        self.checkpoint = Checkpoint() if self._node is None else _decoded(self._id, self._node)
        self._is_stale = False

    def _check_epoch(self) -> None:
        path = epoch_path(self._id)
        epoch = self._store.get(path)
        if epoch is None:
            raise AuthorityError(f"the checkpoints of {self._id!r} were removed from the store")
        if epoch.version != self.epoch:
            successor = decode_owner(path, epoch.data)
            raise DeposedError(
                f"another checkpoint spout of state id {self._id!r} has taken over: {successor}", successor
            )


def epoch_path(state_id: str) -> str:
    return f"{FOLDER}/{state_id}/epoch"


def checkpoint_path(state_id: str) -> str:
    return f"{FOLDER}/{state_id}/checkpoint"


def state_ids(store: StateStore) -> list[str]:
    """Return all ids that have a checkpoint, sorted. Raises UnavailableError."""
    return store.children(FOLDER)


def owner_of(store: StateStore, state_id: str) -> str:
    """Return who last raised the epoch of an id, or "". Raises the errors of ``decode_owner``, and UnavailableError."""
    path = epoch_path(state_id)
    node = store.get(path)
    return "" if node is None else decode_owner(path, node.data)


def stored_checkpoint(store: StateStore, state_id: str) -> Checkpoint:
    """Return the stored checkpoint of an id, or an empty one. Raises as ``load_checkpoint``, except NotFoundError."""
    node = store.get(checkpoint_path(state_id))
    return Checkpoint() if node is None else _decoded(state_id, node)


def load_checkpoint(store: StateStore, state_id: str) -> tuple[Checkpoint, int, str]:
    """Load the checkpoint of an id, its epoch, and the owner that last raised the epoch.

    Raises:
        NotFoundError: nothing is stored for the id.
        UsageError: a newer version of Tupletree wrote the data.
        UnavailableError: the store cannot be reached.
    """
    epoch, node = store.get(epoch_path(state_id)), store.get(checkpoint_path(state_id))
    if epoch is None:
        known = ", ".join(state_ids(store)) or "there is none"
        raise NotFoundError(f"no checkpoint is stored for state id {state_id!r}; known: {known}")
    checkpoint = Checkpoint() if node is None else _decoded(state_id, node)
    return checkpoint, epoch.version, decode_owner(epoch_path(state_id), epoch.data)


def _decoded(state_id: str, node: Node) -> Checkpoint:
    path = checkpoint_path(state_id)
    match decode_record(path, node.data, WITH_ORIGIN):
        case [int(txid), str(phase), dict(tasks), int(round_), *rest] if _are_counts(tasks) and phase in list(Phase):
            maps, origin = rest[:2], rest[2:]
            are_maps = all(isinstance(one, dict) and _are_counts(one) for one in maps)
            if are_maps and len(origin) < 2 and all(isinstance(one, str) for one in origin):
                return Checkpoint(txid, Phase(phase), tasks, round_, *rest)
    raise InternalError(f"{path} does not hold a checkpoint")


def _are_counts(tasks: Mapping[object, object]) -> bool:
    return all(type(name) is str and type(count) is int for name, count in tasks.items())
