"""Durable progress of a coordinator: its epoch, the last commit, and the metadata of uncommitted transactions.

**Invariant.** While the epoch node has the version at which ``take_over`` left it, only this object writes below the
coordinator's path. Once the version has changed, this object writes nothing: every write is one transaction with a
check of that version.

**Lost replies.** After an UnavailableError a write possibly happened, or can still happen. So after every error the
next call first reads the store, and plans its writes on the stored data. A late write is then harmless, because it is
conditional on the version that the node had, or on its absence, when the write was planned. If the next call writes
first, the late write fails. If the late write comes first, the next call conflicts, reads again and finds its work
done.

Not thread-safe.
"""

from __future__ import annotations  # pure

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NoReturn

from tupletree._stores.node_encoding import decode_owner, decode_stored, encode_stored
from tupletree._stores.nodes import (
    TRIES,
    Check,
    Create,
    Delete,
    DeposedError,
    Node,
    Put,
    StateStore,
    Write,
    next_version,
)
from tupletree.attempt import TransactionAttempt
from tupletree.errors import AuthorityError, ConflictError, InternalError, TupletreeError, UsageError
from tupletree.transactional import layout
from tupletree.transactional.layout import decode_progress, encode_progress
from tupletree.transactional.rotating_state import RotatingState

MAX_BYTES_TOGETHER = 200_000
"""Size at which further metadata takes another transaction of the store."""


def load_states(store: StateStore, folder: str) -> RotatingState:
    """Load the states of a folder. Raises UnavailableError and the errors of RotatingState."""
    nodes = {name: store.get(f"{folder}/{name}") for name in store.children(folder)}
    return RotatingState(folder, {name: node for name, node in nodes.items() if node is not None})


class Progress:
    """The progress of one transactional id, owned by its latest coordinator. Created by ``take_over``.

    Attributes:
        epoch: the epoch of this coordinator: the previous epoch + 1, or 1 for the first coordinator.
        committed: the last transaction recorded as committed; all earlier transactions are committed too.
        committing: the attempts recorded as about to commit.
        metadata: the metadata of the transactions from ``committed`` on.
    """

    def __init__(self, store: StateStore, transactional_id: str, epoch: int) -> None:
        self.epoch = epoch
        self.committed = 0
        self.committing: tuple[TransactionAttempt, ...] = ()
        self._store = store
        self._id = transactional_id
        self._path = layout.progress_path(transactional_id)
        self._node: Node | None = None  # as stored at _path
        self._is_stale = True  # the store can differ from the data here
        self._planned: dict[int, Create] = {}  # metadata that is not stored yet, by txid
        self.metadata = RotatingState(layout.metadata_folder(transactional_id), {})

    @staticmethod
    def take_over(store: StateStore, transactional_id: str, owner: str) -> Progress:
        """Raise the epoch, which ends the authority of every earlier coordinator, and read the stored progress.

        ``owner`` identifies this coordinator in the error that the earlier coordinator gets. After UnavailableError
        repeat the call; the epoch is then possibly raised twice.

        Raises:
            UsageError: the id is not a valid name, or a newer version of Tupletree wrote the progress.
            ConflictError: other coordinators keep taking over at the same time.
            DeposedError: another coordinator took over immediately afterwards.
            UnavailableError: the store cannot be reached.
        """
        layout.check_id(transactional_id)
        path = layout.epoch_path(transactional_id)
        mine = encode_stored(path, owner)
        for _ in range(TRIES):
            with suppress(ConflictError):
                node = store.get(path)
                if node is None:
                    store.write([Create(path, mine)])
                    node = Node(mine, 0)
                decode_stored(path, node.data)  # an error here leaves the topology of a newer version undisturbed
                store.write([Put(path, mine, node.version)])
                progress = Progress(store, transactional_id, node.version + 1)
                progress._reload()
                return progress
        raise ConflictError(f"other coordinators keep taking over transactional id {transactional_id!r}")

    def record(self, committed: int, committing: Sequence[TransactionAttempt] = ()) -> None:
        """Store the last committed transaction and the attempts that are about to commit; delete older metadata.

        The metadata of ``committed`` itself stays, because the next transaction is derived from it.

        Raises:
            DeposedError: another coordinator has taken over; nothing was written.
            AuthorityError: the data stored for the id was removed.
            UnavailableError: the store cannot be reached. The record is possibly written: repeat the call.
        """

        def plan() -> Sequence[Write]:
            if committed < self.committed:
                raise InternalError(f"{self._id!r}: the last commit cannot go from {self.committed} to {committed}")
            data = encode_progress(self._path, committed, committing)
            write = Create(self._path, data) if self._node is None else Put(self._path, data, self._node.version)
            return [write, *self.metadata.plan_cleanup(committed)]

        self._write(plan)

    def plan_metadata(self, txid: int, metadata: Any) -> None:
        """Plan the metadata of a transaction that begins for the first time; ``store_metadata`` stores it.

        Raises UnregisteredTypeError if the metadata cannot be encoded, and ValueError if the transaction has metadata.
        """
        if txid <= self.committed or self.metadata.has_later(txid):
            raise InternalError(f"{self._id!r}: transaction {txid} was begun before, but its metadata is gone")
        if txid > 1 and not self.has_metadata(txid - 1):
            raise InternalError(f"{self._id!r}: transaction {txid} cannot begin: its predecessor has no metadata")
        self._planned[txid] = self.metadata.plan_create(txid, metadata)

    def has_metadata(self, txid: int) -> bool:
        """True if the metadata of a transaction is stored or planned."""
        return txid in self._planned or self.metadata.has(txid)

    def previous_metadata(self, txid: int) -> Any:
        """Return the metadata, stored or planned, of the closest earlier transaction that has some, or None."""
        planned = self._planned.get(txid - 1)
        return self.metadata.previous(txid) if planned is None else decode_stored(planned.path, planned.data)[0]

    def store_metadata(self) -> None:
        """Store all planned metadata, in one transaction of the store unless it is large.

        Existing metadata is kept: an earlier call can have succeeded although it raised UnavailableError. What is
        planned stays so until it is stored. Raises the errors of ``record``, and UsageError if the metadata of a
        transaction is too large.
        """
        while self._planned:
            self._write(self._plan_creates)
            self._planned = {txid: write for txid, write in self._planned.items() if not self.metadata.has(txid)}

    def _plan_creates(self) -> Sequence[Write]:
        """Return the writes that create planned metadata, as many as fit into a transaction of moderate size."""
        writes: list[Write] = []
        size = 0
        for txid, write in sorted(self._planned.items()):
            size += len(write.data)
            if writes and size > MAX_BYTES_TOGETHER:
                break
            if not self.metadata.has(txid):
                writes.append(write)
        return writes

    def doubt(self) -> None:
        """Make the next call read the store first: another coordinator has possibly taken over."""
        self._is_stale = True

    def refresh(self) -> None:
        """Reread the store if an error or ``doubt`` made the data here uncertain. Raises the errors of ``record``."""
        if self._is_stale:
            self._reload()

    def _write(self, plan: Callable[[], Sequence[Write]]) -> None:
        """Write what ``plan`` returns in one transaction. ``plan`` is called again on fresh data after a conflict."""
        for _ in range(TRIES):
            self.refresh()
            writes = plan()
            if not writes:
                return
            self._is_stale = True  # until the outcome is known
            with suppress(ConflictError):
                self._store.write([Check(layout.epoch_path(self._id), self.epoch), *writes])
                self._applied(writes)
                return
        raise ConflictError(f"the progress of transactional id {self._id!r} keeps changing: another writer is active")

    def _applied(self, writes: Sequence[Write]) -> None:
        self.metadata.applied(writes)
        for write in writes:
            match write:
                case Create(self._path, data):
                    self._read(Node(data, 0))
                case Put(self._path, data, version):
                    self._read(Node(data, next_version(version)))
        self._is_stale = False

    def _reload(self) -> None:
        """Reread everything. Raises DeposedError if another coordinator has taken over."""
        self._is_stale = True
        self._check_epoch()  # first, because a newer version can have written data that is unreadable here
        self._read(self._store.get(self._path))
        self.metadata = load_states(self._store, layout.metadata_folder(self._id))
        self._check_epoch()  # and last: the separate reads are consistent if nobody else could write meanwhile
        self._is_stale = False

    def _check_epoch(self) -> None:
        epoch = self._store.get(layout.epoch_path(self._id))
        if epoch is None or epoch.version != self.epoch:
            self._stand_down(epoch)

    def _read(self, node: Node | None) -> None:
        self._node = node
        self.committed, self.committing = (0, ()) if node is None else decode_progress(self._path, node.data)

    def _stand_down(self, epoch: Node | None) -> NoReturn:
        if epoch is None:
            raise AuthorityError(f"the progress of transactional id {self._id!r} was removed from the store")
        successor = ""
        with suppress(TupletreeError):
            successor = decode_owner(layout.epoch_path(self._id), epoch.data)
        who = successor or "a newer version"
        raise DeposedError(f"another coordinator of transactional id {self._id!r} has taken over: {who}", successor)


FORGOTTEN_IN_PART = "none: forgotten in part, repeat --forget"
"""The owner of the epoch while the data of an id are being deleted."""

_SHARED = {"$states": "the states of all topologies", "$checkpoints": "the checkpoints of all topologies"}


def forget(store: StateStore, transactional_id: str) -> None:
    """Delete all data stored for an id: its next topology begins at transaction 1, in epoch 1.

    No topology of this id may be running. After an UnavailableError repeat the call: the id is known until everything
    is deleted. Raises UsageError for the ids that hold the states and the checkpoints of all topologies.
    """
    layout.check_id(transactional_id)
    if shared := _SHARED.get(transactional_id):
        raise UsageError(f"transactional id {transactional_id!r} cannot be forgotten: it holds {shared}")
    _end_authority(store, layout.epoch_path(transactional_id))
    for path in (layout.partitions_folder, layout.metadata_folder, layout.progress_path):
        _delete(store, path(transactional_id))
    _delete(store, layout.topology_path(transactional_id))  # the epoch is the last data: without it, the id is unknown


def _end_authority(store: StateStore, path: str) -> None:
    """Raise the stored epoch, if there is one, so that no coordinator or emitter writes to what is being deleted."""
    for _ in range(TRIES):
        node = store.get(path)
        if node is None:
            return
        with suppress(ConflictError):
            store.write([Put(path, encode_stored(path, FORGOTTEN_IN_PART), node.version)])
            return
    raise _still_written(path)


def _delete(store: StateStore, path: str) -> None:
    for name in store.children(path):
        _delete(store, f"{path}/{name}")
    with suppress(ConflictError):
        store.write([Delete(path)])
    if store.get(path) is not None:
        raise _still_written(path)


def _still_written(path: str) -> ConflictError:
    return ConflictError(f"{path} cannot be deleted: a writer is active; kill the topology first")
