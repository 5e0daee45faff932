"""The durable side of the coordinator: its epoch, what is committed, and the metadata of what is not.

**Invariant.** As long as the epoch node has the version that ``take_over`` left it at, only this object writes below
the coordinator's path; as soon as it has another, this object writes nothing. For every write is one transaction with
a check of that version.

**Lost replies.** After an UnavailableError a write may have happened, or may happen later. So after every error, of any
kind, the next call begins by reading what is stored, and plans its writes anew on that. A late write then does no harm:
it names the version, or the absence, of the node that it was planned on. If the next call was first, it fails; if it is
first, the next call fails on it, reads again and finds its work done.

One thread at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NoReturn

from tupletree.attempt import TransactionAttempt
from tupletree.errors import AuthorityError, ConflictError, InternalError, TupletreeError
from tupletree.transactional import layout
from tupletree.transactional.layout import decode_progress, decode_stored, encode_stored
from tupletree.transactional.rotating_state import RotatingState
from tupletree.transactional.store import Check, Create, Delete, Node, Put, StateStore, Write, next_version

TRIES = 20
"""How often a write is planned anew because somebody was first: nobody should be, so many times in a row."""


class DeposedError(AuthorityError):
    """Another coordinator has taken over. ``successor``: who it said it is, empty if that cannot be read."""

    def __init__(self, message: str, successor: str) -> None:
        super().__init__(message)
        self.successor = successor


def load_states(store: StateStore, folder: str) -> RotatingState:
    """What a folder holds now. Errors as of RotatingState; UnavailableError."""
    nodes = {name: store.get(f"{folder}/{name}") for name in store.children(folder)}
    return RotatingState(folder, {name: node for name, node in nodes.items() if node is not None})


class Progress:
    """The progress of one transactional id, in the hands of its latest coordinator. Made by ``take_over``.

    Attributes:
        epoch: of this coordinator, one more than that of the last; 1 for the first.
        committed: every transaction up to this one is recorded as committed.
        committing: the attempt that was recorded as about to commit, None if there is none.
        metadata: of the transactions from ``committed`` on.
    """

    def __init__(self, store: StateStore, transactional_id: str, epoch: int) -> None:
        self.epoch = epoch
        self.committed = 0
        self.committing: TransactionAttempt | None = None
        self._store = store
        self._id = transactional_id
        self._path = layout.progress_path(transactional_id)
        self._node: Node | None = None  # as stored at _path
        self._is_stale = True  # the store may hold something else than is known here
        self.metadata = RotatingState(layout.metadata_folder(transactional_id), {})

    @staticmethod
    def take_over(store: StateStore, transactional_id: str, owner: str) -> Progress:
        """Raise the epoch, which ends the authority of every earlier coordinator, and read what there is.

        ``owner`` says who this is, for the error that the earlier one gets. After UnavailableError call it again; the
        epoch may then have been raised twice.

        Raises:
            UsageError: the id is no name, or the progress was written by a newer version.
            ConflictError: others keep taking over at the same time.
            DeposedError: somebody took over from this one at once.
            UnavailableError: the store is away.
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
                decode_stored(path, node.data)  # refused here, a newer version's topology goes on undisturbed
                store.write([Put(path, mine, node.version)])
                progress = Progress(store, transactional_id, node.version + 1)
                progress._reload()
                return progress
        raise ConflictError(f"others keep taking transactional id {transactional_id!r} over at the same time")

    def record(self, committed: int, committing: TransactionAttempt | None) -> None:
        """Write down that all up to ``committed`` is, and that ``committing`` is about to be; forget what is behind.

        The metadata of ``committed`` itself stays: the next transaction is made from it.

        Raises:
            DeposedError: another coordinator has taken over; nothing was written.
            AuthorityError: what was stored for the id was removed.
            UnavailableError: the store is away; it may have been written. Call it again.
        """

        def plan() -> Sequence[Write]:
            if committed < self.committed:
                raise InternalError(f"{self._id!r}: {committed} cannot be the last committed after {self.committed}")
            data = encode_stored(self._path, committed, None if committing is None else list(committing))
            write = Create(self._path, data) if self._node is None else Put(self._path, data, self._node.version)
            return [write, *self.metadata.plan_cleanup(committed)]

        self._write(plan)

    def create_metadata(self, txid: int, metadata: Any) -> Any:
        """Write down the metadata of a transaction that is begun for the first time; return what is stored.

        If the transaction has metadata already, that is kept and returned: an earlier call may have succeeded although
        it raised UnavailableError. The errors are those of ``record``, and UsageError for what cannot be stored.
        """

        def plan() -> Sequence[Write]:
            if self.metadata.has(txid):
                return []
            if txid <= self.committed or self.metadata.has_later(txid):
                raise InternalError(f"{self._id!r}: transaction {txid} was begun before, but its metadata is gone")
            if txid > 1 and not self.metadata.has(txid - 1):
                raise InternalError(f"{self._id!r}: transaction {txid} cannot begin without the metadata of the last")
            return [self.metadata.plan_create(txid, metadata)]

        self._write(plan)
        return self.metadata.get(txid)

    def doubt(self) -> None:
        """Something went wrong that another coordinator may be the cause of: the next call looks before it acts."""
        self._is_stale = True

    def refresh(self) -> None:
        """Read anew what an error or a doubt has left uncertain; nothing otherwise. Errors as of ``record``."""
        if self._is_stale:
            self._reload()

    def _write(self, plan: Callable[[], Sequence[Write]]) -> None:
        """Write, in one transaction, what ``plan`` decides on what is stored; nothing if that is no write."""
        for _ in range(TRIES):
            self.refresh()
            writes = plan()
            if not writes:
                return
            self._is_stale = True  # until it is known what the store made of it
            with suppress(ConflictError):
                self._store.write([Check(layout.epoch_path(self._id), self.epoch), *writes])
                self._applied(writes)
                return
        raise ConflictError(f"the progress of transactional id {self._id!r} keeps changing: somebody else writes there")

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
        """Read everything anew. Raises DeposedError if another coordinator has taken over."""
        self._is_stale = True
        self._check_epoch()  # first, as a newer version may have written what this one cannot read
        self._read(self._store.get(self._path))
        self.metadata = load_states(self._store, layout.metadata_folder(self._id))
        self._check_epoch()  # and last: what was read in several looks is of one moment if nobody else could write
        self._is_stale = False

    def _check_epoch(self) -> None:
        epoch = self._store.get(layout.epoch_path(self._id))
        if epoch is None or epoch.version != self.epoch:
            self._stand_down(epoch)

    def _read(self, node: Node | None) -> None:
        self._node = node
        self.committed, self.committing = (0, None) if node is None else decode_progress(self._path, node.data)

    def _stand_down(self, epoch: Node | None) -> NoReturn:
        if epoch is None:
            raise AuthorityError(f"the progress of transactional id {self._id!r} was removed from the store")
        successor = ""
        with suppress(TupletreeError):
            successor = layout.decode_owner(layout.epoch_path(self._id), epoch.data)
        who = successor or "a newer version"
        raise DeposedError(f"another coordinator of transactional id {self._id!r} has taken over: {who}", successor)


def forget(store: StateStore, transactional_id: str) -> None:
    """Delete all that is stored for an id: its next topology begins at transaction 1, in epoch 1.

    No topology of the id may run. After an UnavailableError call it again.
    """
    layout.check_id(transactional_id)
    _delete(store, layout.topology_path(transactional_id))


def _delete(store: StateStore, path: str) -> None:
    for name in store.children(path):
        _delete(store, f"{path}/{name}")
    with suppress(ConflictError):
        store.write([Delete(path)])
    if store.get(path) is not None:
        raise ConflictError(f"{path} cannot be deleted: somebody still writes below it")
