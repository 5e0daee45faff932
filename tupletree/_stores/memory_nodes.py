"""An in-process StateStore, for LocalCluster and for tests that crash everything around the store."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from tupletree._stores.nodes import Check, Create, Delete, Node, Put, StateStore, Write, check_size, next_version
from tupletree.errors import ConflictError, UsageError


class MemoryStore:
    """Nodes in a dictionary. Always available. ``close`` does nothing, so the nodes stay for the next user."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards both dictionaries; writes are atomic for readers too
        self._nodes: dict[str, Node] = {}
        self._names: dict[str, set[str]] = {}  # of the children of a path

    def get(self, path: str) -> Node | None:
        with self._lock:
            return self._nodes.get(path)

    def children(self, path: str) -> list[str]:
        with self._lock:
            return sorted(self._names.get(path.rstrip("/"), ()))

    def write(self, writes: Sequence[Write]) -> None:
        check_size(writes)
        with self._lock:
            before: list[tuple[str, Node | None]] = []
            try:
                for write in writes:
                    self._apply(write, before)
            except ConflictError:
                for path, node in reversed(before):
                    self._set(path, node)
                raise

    def close(self) -> None:
        pass

    def _apply(self, write: Write, before: list[tuple[str, Node | None]]) -> None:
        """Make one change, and append the previous nodes to ``before``."""
        node = self._nodes.get(write.path)
        if isinstance(write, Create):
            if node is not None:
                raise ConflictError(f"{write.path} exists")
            for path in (*_missing(write.path, self._nodes), write.path):
                before.append((path, None))
                self._set(path, Node(write.data if path == write.path else b"", 0))
            return
        if node is None:
            raise ConflictError(f"{write.path} does not exist")
        match write:
            case Check(path, version) | Put(path, _, version) if node.version != version:
                raise ConflictError(f"{path} is at version {node.version}, not {version}")
            case Put(path, data, version):
                before.append((path, node))
                self._set(path, Node(data, next_version(version)))
            case Delete(path):
                if self._names.get(path):
                    raise ConflictError(f"{path} has children")
                before.append((path, node))
                self._set(path, None)

    def _set(self, path: str, node: Node | None) -> None:
        parent, _, name = path.rpartition("/")
        if node is not None:
            self._nodes[path] = node
            self._names.setdefault(parent, set()).add(name)
        else:
            del self._nodes[path]
            self._names[parent].remove(name)
            if not self._names[parent]:
                del self._names[parent]


def _missing(path: str, nodes: dict[str, Node]) -> list[str]:
    """Return the missing parents of a path, topmost first."""
    missing: list[str] = []
    parent = path.rpartition("/")[0]
    while parent and parent not in nodes:
        missing.insert(0, parent)
        parent = parent.rpartition("/")[0]
    return missing


_registered: dict[str, StateStore] = {}  # by root


def register(root: str, store: StateStore | None = None) -> None:
    """Create the store of a LocalCluster. ``root`` is the cluster's ``transactional.zookeeper.root``.

    ``store``: the one to register instead of a new MemoryStore.
    """
    _registered[root] = MemoryStore() if store is None else store


def registered(root: str) -> StateStore:
    """Return the store registered under ``root``. UsageError if there is none."""
    if root not in _registered:
        raise UsageError("zookeeper.servers names no server, and the topology does not run in a LocalCluster")
    return _registered[root]


def drop(root: str) -> None:
    """Forget a store. Its data is freed when its last user is gone. Idempotent."""
    _registered.pop(root, None)
