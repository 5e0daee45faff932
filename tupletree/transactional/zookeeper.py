"""The StateStore of a cluster: ZooKeeper, by default the cluster's own ensemble.

**Reads.** A server of an ensemble may lag behind what others have acknowledged. Each read here is preceded by
ZooKeeper's ``sync``, which ends that: it sees everything that anybody wrote before. An emitter that begins anew must
not take an old state for the latest.

**Writes** are ZooKeeper's own transactions, except that missing parents are created before, one by one: an empty folder
that nothing is put into does no harm.

**Away.** There is nothing here that ends with a session. While ZooKeeper is away the client reconnects for ever, under
a new session if the old one has expired, and every call raises UnavailableError after ``TIMEOUT_S`` at the latest. The
requests of a session are carried out in the order in which they were made: so a late write, one that raised
UnavailableError and happens all the same, is not overtaken by a later read.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError, RolledBackError, RuntimeInconsistency

from tupletree._coord.paths import check_path
from tupletree._coord.session import Session, connect_string, disconnect, result, translated, unstarted
from tupletree._log import event
from tupletree.errors import UsageError
from tupletree.transactional import memory_store
from tupletree.transactional.store import Check, Create, Delete, Node, Put, StateStore, Write, check_size

logger = logging.getLogger(__name__)

TIMEOUT_S = 5.0
"""Of a call. A task that commits has other things to do than to wait for a ZooKeeper that is away."""


class ZooKeeperStore:
    """The nodes below ``root``. Whoever made ``client`` ends it, unless ``on_close`` does."""

    def __init__(self, client: KazooClient, root: str, on_close: Callable[[], None] = lambda: None) -> None:
        self._client = client
        self._root = f"/{root.strip('/')}".rstrip("/")
        try:
            check_path(self._root or "/")
        except UsageError as error:
            raise UsageError(f"transactional.zookeeper.root: {error}") from None
        self._on_close = on_close
        self._is_closed = False
        self._servers = ",".join(f"{host}:{port}" for host, port in client.hosts)
        self._folders: set[str] = set()  # that exist, unless somebody has deleted them since

    def get(self, path: str) -> Node | None:
        with translated(f"reading {path} at {self._servers}"):
            try:
                data, stat = self._read(self._client.get_async, path)
            except NoNodeError:
                return None
        return Node(data, stat.version)

    def children(self, path: str) -> list[str]:
        with translated(f"reading below {path or '/'} at {self._servers}"):
            try:
                return sorted(self._read(self._client.get_children_async, path))
            except NoNodeError:
                return []

    def write(self, writes: Sequence[Write]) -> None:
        check_size(writes)
        if not writes:
            return
        deadline = _Deadline()
        with translated(f"writing {writes[0].path} at {self._servers}"):
            failure = self._commit(writes, deadline)
            if failure is not None and isinstance(failure[1], NoNodeError) and isinstance(failure[0], Create):
                self._folders.clear()  # somebody has deleted one
                failure = self._commit(writes, deadline)
        if failure is not None:
            refused, error = failure
            with translated(f"writing {refused.path}"):
                raise error

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._on_close()

    def _read(self, ask: Callable[[str], Any], path: str) -> Any:
        deadline = _Deadline()
        full = self._full(path)
        synced, pending = self._client.sync_async(full), ask(full)
        deadline.result(synced)  # it may fail alone, if the connection was lost in between
        return deadline.result(pending)

    def _commit(self, writes: Sequence[Write], deadline: _Deadline) -> tuple[Write, Exception] | None:
        """Do it, or return the write that does not fit and why."""
        self._create_folders(writes, deadline)
        transaction = self._client.transaction()
        for write in writes:
            full = self._full(write.path)
            match write:
                case Check(_, version):
                    transaction.check(full, version)
                case Create(_, data):
                    transaction.create(full, data)
                case Put(_, data, version):
                    transaction.set_data(full, data, version)
                case Delete():
                    transaction.delete(full)
        outcomes = deadline.result(transaction.commit_async())
        for write, outcome in zip(writes, outcomes, strict=True):
            if isinstance(outcome, Exception) and not isinstance(outcome, RolledBackError | RuntimeInconsistency):
                return write, outcome
        return None

    def _create_folders(self, writes: Sequence[Write], deadline: _Deadline) -> None:
        """Create the parents of what is to be created, but what the transaction creates itself."""
        created = {write.path for write in writes if isinstance(write, Create)}
        folders = {path.rpartition("/")[0] for path in created} - created - self._folders
        pending = {folder: self._client.ensure_path_async(self._full(folder)) for folder in folders}
        for folder, one in pending.items():
            deadline.result(one)
            self._folders.add(folder)

    def _full(self, path: str) -> str:
        return f"{self._root}{path}".rstrip("/") or "/"


class _Deadline:
    """When a call must have ended, however many requests it makes."""

    def __init__(self) -> None:
        self._at_s = time.monotonic() + TIMEOUT_S

    def result(self, pending: Any) -> Any:
        return result(pending, max(0.0, self._at_s - time.monotonic()))


@dataclass
class _Shared:
    client: Session
    users: int = 0


_lock = threading.Lock()  # guards what follows
_sessions: dict[str, _Shared] = {}  # by connect string


def open_store(conf: Mapping[str, Any]) -> StateStore:
    """The store that a topology's configuration names; to be closed by the caller.

    ``transactional.zookeeper.servers`` and ``.port``, where they are null those of the cluster. All stores of a process
    on one ensemble share a session, which ends with the last of them. If ZooKeeper is away the store is returned all
    the same, after ``TIMEOUT_S``. For a LocalCluster, which has no ZooKeeper, it is the cluster's MemoryStore.

    Raises UsageError if the configuration names no server.
    """
    own = conf["transactional.zookeeper.servers"]
    root = str(conf["transactional.zookeeper.root"])
    if own is None and not conf["zookeeper.servers"]:
        return memory_store.registered(root)
    if own is not None and not own:
        raise UsageError(
            "transactional.zookeeper.servers names no server: name one, or leave it null for the cluster's"
        )
    port = conf["transactional.zookeeper.port"]
    ensemble = {
        **conf,
        "zookeeper.servers": conf["zookeeper.servers"] if own is None else own,
        "zookeeper.port": conf["zookeeper.port"] if port is None else port,
    }
    name = connect_string(ensemble)
    with _lock:
        session = _sessions.get(name)
        if session is None:
            session = _sessions[name] = _Shared(_started(ensemble))
        session.users += 1
    return ZooKeeperStore(session.client, root, lambda: _leave(name))


def _started(conf: Mapping[str, Any]) -> Session:
    client = unstarted(conf)
    # Nothing here ends with a session, so a new connection thread does; it cannot be started by the one that ends.
    client.on_death = lambda: threading.Thread(target=_restart, args=(client,), daemon=True).start()
    if not client.start_async().wait(TIMEOUT_S):
        event(logger, "transactional.zookeeper.away", level=logging.WARNING, servers=connect_string(conf))
    return client


def _restart(client: Session) -> None:
    """Give a client a new connection thread, unless somebody has stopped it meanwhile."""
    with _lock:
        if any(session.client is client for session in _sessions.values()):
            client.start_async()  # no stop() before: its order to close would be the first that the new thread finds


def _leave(name: str) -> None:
    with _lock:
        session = _sessions[name]
        session.users -= 1
        if session.users:
            return
        del _sessions[name]
    disconnect(session.client)
