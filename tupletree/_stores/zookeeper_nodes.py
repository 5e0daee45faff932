"""The StateStore of a cluster: ZooKeeper, by default the cluster's own ensemble.

**Reads.** A server of an ensemble can lag behind writes that other servers have acknowledged. Each read is therefore
preceded by ZooKeeper's ``sync`` and sees every earlier write. Otherwise a restarted emitter could take an old state for
the latest.

**Writes** are ZooKeeper transactions, except that missing parents are created first, one by one: an empty folder is
harmless.

**Outages.** No data here is bound to a session. While ZooKeeper is unreachable the client reconnects forever, under a
new session if the old session has expired. Every call raises UnavailableError after at most ``TIMEOUT_S``. ZooKeeper
executes the requests of a session in order, so a late write (it raised UnavailableError but happens nevertheless) is
never overtaken by a later read.
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
from tupletree._stores import memory_nodes
from tupletree._stores.nodes import Check, Create, Delete, Node, Put, StateStore, Write, check_size
from tupletree.errors import UsageError

logger = logging.getLogger(__name__)

TIMEOUT_S = 5.0
"""The timeout of a call. A committing task must not be blocked for long by an unreachable ZooKeeper."""


class ZooKeeperStore:
    """The nodes below ``root``. ``client`` is closed by its creator or by ``on_close``."""

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
        self._folders: set[str] = set()  # folders known to exist, unless somebody has deleted them since

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
                self._folders.clear()  # somebody has deleted a folder
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
        deadline.result(synced)  # it can fail alone, if the connection was lost in between
        return deadline.result(pending)

    def _commit(self, writes: Sequence[Write], deadline: _Deadline) -> tuple[Write, Exception] | None:
        """Apply the writes, or return the write that was refused and its error."""
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
        """Create missing parents of the nodes to create, except parents that the transaction itself creates."""
        created = {write.path for write in writes if isinstance(write, Create)}
        folders = {path.rpartition("/")[0] for path in created} - created - self._folders
        pending = {folder: self._client.ensure_path_async(self._full(folder)) for folder in folders}
        for folder, one in pending.items():
            deadline.result(one)
            self._folders.add(folder)

    def _full(self, path: str) -> str:
        return f"{self._root}{path}".rstrip("/") or "/"


class _Deadline:
    """The deadline of a call, shared by all its requests."""

    def __init__(self) -> None:
        self._at_s = time.monotonic() + TIMEOUT_S

    def result(self, pending: Any) -> Any:
        return result(pending, max(0.0, self._at_s - time.monotonic()))


@dataclass
class _Shared:
    client: Session
    users: int = 0


_lock = threading.Lock()  # guards _sessions
_sessions: dict[str, _Shared] = {}  # by connect string


def open_store(conf: Mapping[str, Any]) -> StateStore:
    """Open the store that a topology's configuration names. The caller must close it.

    The ensemble is given by ``transactional.zookeeper.servers`` and ``.port``, or by the cluster's settings where these
    are null. All stores of a process on one ensemble share a session, which is closed with the last store. If ZooKeeper
    is unreachable, the store is returned nevertheless, after ``TIMEOUT_S``. A LocalCluster has no ZooKeeper: the result
    is then the cluster's MemoryStore.

    Raises UsageError if the configuration names no server.
    """
    own = conf["transactional.zookeeper.servers"]
    root = str(conf["transactional.zookeeper.root"])
    if own is None and not conf["zookeeper.servers"]:
        return memory_nodes.registered(root)
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
    # No data here is bound to a session, so a new connection thread suffices; the ending thread cannot start it itself.
    client.on_death = lambda: threading.Thread(target=_restart, args=(client,), daemon=True).start()
    if not client.start_async().wait(TIMEOUT_S):
        event(logger, "transactional.zookeeper.away", level=logging.WARNING, servers=connect_string(conf))
    return client


def _restart(client: Session) -> None:
    """Start a new connection thread of a client, unless the client was stopped meanwhile."""
    with _lock:
        if any(session.client is client for session in _sessions.values()):
            client.start_async()  # no stop() before: the new thread would first process its close request


def _leave(name: str) -> None:
    with _lock:
        session = _sessions[name]
        session.users -= 1
        if session.users:
            return
        del _sessions[name]
    disconnect(session.client)
