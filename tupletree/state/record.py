"""The checkpoint's own transaction in the store: which checkpoint, in which phase, and of which components.

Below ``transactional.zookeeper.root``, for each state id:

=============================  ==================================================================
node                           value, after the format
=============================  ==================================================================
$checkpoints/<id>/epoch        who raised it; its *version* is the epoch
$checkpoints/<id>/checkpoint   txid, phase, tasks of each component that is in it, round
=============================  ==================================================================

**Invariant.** As long as the epoch node has the version that ``take_over`` left it at, only this object writes the
checkpoint node; as soon as it has another, this object writes nothing: every write is one transaction with a check of
that version. After an UnavailableError a write may have happened or may yet happen; the next one begins by reading
what is stored, and names its version.

One thread at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from tupletree.errors import AuthorityError, ConflictError, InternalError, NotFoundError
from tupletree.state.coordinator import Phase
from tupletree.transactional.layout import decode_owner, decode_record, decode_stored, encode_stored
from tupletree.transactional.progress import TRIES, DeposedError
from tupletree.transactional.store import Check, Create, Node, Put, StateStore, next_version

FOLDER = "/$checkpoints"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What is stored. ``tasks``: of each component that the last whole checkpoint was taken of, how many it had.

    ``round``: no step of an earlier one may be acted on by who was not there when it was sent (task_state.py).
    """

    txid: int = 0
    phase: Phase = Phase.COMMITTED
    tasks: Mapping[str, int] = field(default_factory=dict)
    round: int = 0


class CheckpointRecord:
    """The stored checkpoint of one state id, in the hands of its latest checkpoint spout. Made by ``take_over``.

    Attributes:
        epoch: of this checkpoint spout, one more than that of the last; 1 for the first.
        checkpoint: what is stored.
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
        """Raise the epoch, which ends the authority of every earlier checkpoint spout, and read what there is.

        ``owner`` says who this is. After UnavailableError call it again; the epoch may then have been raised twice.

        Raises:
            UsageError: a newer version wrote it.
            ConflictError: others keep taking over at the same time.
            DeposedError: somebody took over from this one at once.
            UnavailableError: the store is away.
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
        raise ConflictError(f"others keep taking the checkpoints of {state_id!r} over at the same time")

    def save(self, checkpoint: Checkpoint) -> None:
        """Write down a checkpoint.

        Raises:
            DeposedError: another checkpoint spout has taken over; nothing was written.
            AuthorityError: what was stored for the id was removed.
            UnavailableError: the store is away; it may have been written. Call it again.
        """
        path = checkpoint_path(self._id)
        data = encode_stored(path, checkpoint.txid, checkpoint.phase.value, dict(checkpoint.tasks), checkpoint.round)
        for _ in range(TRIES):
            self.refresh()
            if self._node is not None and self._node.data == data:
                self.checkpoint = checkpoint
                return
            node = self._node
            write = Create(path, data) if node is None else Put(path, data, node.version)
            version = 0 if node is None else next_version(node.version)
            self._is_stale = True  # until it is known what the store made of it
            with suppress(ConflictError):
                self._store.write([Check(epoch_path(self._id), self.epoch), write])
                self._node, self.checkpoint, self._is_stale = Node(data, version), checkpoint, False
                return
        raise ConflictError(f"the checkpoints of {self._id!r} keep changing: somebody else writes there")

    def doubt(self) -> None:
        """Something went wrong that another checkpoint spout may be the cause of: the next call looks first."""
        self._is_stale = True

    def refresh(self) -> None:
        """Read anew what an error or a doubt has left uncertain; nothing otherwise. Errors as of ``save``."""
        if self._is_stale:
            self._reload()

    def _reload(self) -> None:
        self._check_epoch()  # first, as a newer version may have written what this one cannot read
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
    """Every id that has a checkpoint, sorted. Raises UnavailableError."""
    return store.children(FOLDER)


def newest_round(store: StateStore, state_id: str) -> int:
    """The round that is stored for an id; 0 if nothing is. Errors as of ``load_checkpoint``, but for NotFoundError."""
    node = store.get(checkpoint_path(state_id))
    return 0 if node is None else _decoded(state_id, node).round


def load_checkpoint(store: StateStore, state_id: str) -> tuple[Checkpoint, int, str]:
    """What is stored for an id: the checkpoint, the epoch, and who raised it last.

    Raises:
        NotFoundError: nothing is.
        UsageError: a newer version wrote it.
        UnavailableError: the store is away.
    """
    epoch, node = store.get(epoch_path(state_id)), store.get(checkpoint_path(state_id))
    if epoch is None:
        known = ", ".join(state_ids(store)) or "there is none"
        raise NotFoundError(f"there is no checkpoint of a state id {state_id!r}; known: {known}")
    checkpoint = Checkpoint() if node is None else _decoded(state_id, node)
    return checkpoint, epoch.version, decode_owner(epoch_path(state_id), epoch.data)


def _decoded(state_id: str, node: Node) -> Checkpoint:
    path = checkpoint_path(state_id)
    match decode_record(path, node.data):
        case [int(txid), str(phase), dict(tasks), int(round_)] if _are_counts(tasks) and phase in list(Phase):
            return Checkpoint(txid, Phase(phase), tasks, round_)
    raise InternalError(f"{path} holds something else than a checkpoint")


def _are_counts(tasks: Mapping[object, object]) -> bool:
    return all(type(name) is str and type(count) is int for name, count in tasks.items())
