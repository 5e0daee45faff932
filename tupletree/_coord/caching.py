"""A store that reads a node again only after the node has changed.

Every read leaves a watch in ZooKeeper. Until the watch fires, the parsed value is returned again. The snapshot of a
daemon thus costs what has changed since the last snapshot, however large the cluster is:

    read, with a watch --> current --(watch fires)--> forgotten --> read again by the next snapshot
                              |
                              +--(connection lost)--> unverified --> one request for its version: current or read again

A snapshot is as recent as one of ``Store``: before values are returned again, one request asks whether there are events
of watches. ZooKeeper sends them before the answer, and they are handled before the snapshot goes on. Inside the context
``snapshot`` that happens once, and again after each read of ZooKeeper: a value that is returned is thus never older
than one that was returned before it.

All snapshots share the values: do not change them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from google.protobuf.message import Message
from kazoo.client import KazooClient
from kazoo.protocol.states import Callback, EventType, KazooState

from tupletree._coord.session import REQUEST_TIMEOUT_S, result, translated
from tupletree._coord.store import Store, answer_or_none, decoded, result_or_none
from tupletree._coord.versioned import Versioned
from tupletree.errors import UnavailableError

M = TypeVar("M", bound=Message)


class _Entry:
    """A value read with a watch. ``value`` is a Versioned message, the reason why it is unreadable, or names."""

    __slots__ = ("is_current", "modified", "value")

    def __init__(self, value: Any = None, modified: int = -1) -> None:
        self.is_current = True  # set to False by the watch, which can fire before the value is here
        self.value = value
        self.modified = modified  # the transaction that last changed the node


class CachingStore(Store):
    """A store for snapshots, used from any threads. Errors of components are read and written without the cache."""

    def __init__(self, client: KazooClient, root: str) -> None:
        super().__init__(client, root)
        self._nodes: dict[str, _Entry] = {}
        self._folders: dict[str, _Entry] = {}
        self._thread = threading.local()  # depth: of nested snapshots; is_fresh: no event can have come since the last
        client.add_listener(self._on_state)

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        depth = getattr(self._thread, "depth", 0)
        self._thread.depth = depth + 1
        self._thread.is_fresh = depth > 0 and self._thread.is_fresh
        try:
            yield
        finally:
            self._thread.depth = depth

    def _catch_up(self) -> None:
        """Wait until every watch that has fired before this call, or before this snapshot, has been handled."""
        is_snapshot = getattr(self._thread, "depth", 0) > 0
        if is_snapshot and self._thread.is_fresh:
            return
        self._thread.is_fresh = is_snapshot
        with translated("asking ZooKeeper for changes"):
            result(self.client.exists_async(self.root))
        handled = threading.Event()
        self.client.handler.dispatch_callback(Callback("watch", handled.set, ()))
        if not handled.wait(REQUEST_TIMEOUT_S):
            raise UnavailableError("asking ZooKeeper for changes: the session is ending")

    def _names(self, folders: Sequence[str]) -> list[list[str]]:
        if not self._folders.keys().isdisjoint(folders):
            self._catch_up()
        known = {one: entry for one in folders if (entry := self._folders.get(one)) is not None and entry.is_current}
        unknown = {one: _Entry() for one in folders if one not in known}
        for folder, entry, request in self._asked(self._folders, unknown, self.client.get_children_async):
            with translated(f"reading {folder}"):
                names = result_or_none(request)
            if names is not None:
                entry.value = names
                known[folder] = self._folders[folder] = entry
        return [list(known[one].value) if one in known else [] for one in folders]

    def _load_nodes(
        self, nodes: Sequence[str], kind: type[M], unreadable: dict[str, str]
    ) -> list[tuple[str, Versioned[M]]]:
        if not self._nodes.keys().isdisjoint(nodes):
            self._catch_up()
        known = {one: entry for one in nodes if (entry := self._nodes.get(one)) is not None}
        known = {one: entry for one, entry in known.items() if entry.is_current} | self._verified(known)
        unknown = {one: _Entry() for one in nodes if one not in known}
        for node, entry, request in self._asked(self._nodes, unknown, self.client.get_async):
            answer = answer_or_none(request, node, unreadable)
            if answer is None:
                self._nodes.pop(node, None)
                continue
            entry.value, entry.modified = decoded(answer, kind, node), answer[1].mzxid
            known[node] = self._nodes[node] = entry
        values = [(node, known[node].value) for node in nodes if node in known]
        unreadable.update((node, value) for node, value in values if isinstance(value, str))
        return [(node, value) for node, value in values if not isinstance(value, str)]

    def _verified(self, known: dict[str, _Entry]) -> dict[str, _Entry]:
        """Return those of the entries that a lost connection has left without a watch and that have not changed."""
        found: dict[str, _Entry] = {}
        unsure = {node: _Entry(one.value, one.modified) for node, one in known.items() if not one.is_current}
        for node, entry, request in self._asked(self._nodes, unsure, self.client.exists_async):
            with translated(f"reading {node}"):
                stat = result(request)
            if stat is not None and stat.mzxid == entry.modified:
                found[node] = self._nodes[node] = entry
        return found

    def _asked(
        self, entries: dict[str, _Entry], wanted: Mapping[str, _Entry], ask: Callable[..., Any]
    ) -> list[tuple[str, _Entry, Any]]:
        """Ask for each path at once, with a watch that makes its entry outdated. Return path, entry and request."""
        if wanted:
            self._thread.is_fresh = False
        return [
            (path, entry, ask(path, watch=partial(self._fired, entries, path, entry))) for path, entry in wanted.items()
        ]

    def _fired(self, entries: dict[str, _Entry], path: str, entry: _Entry, event: Any) -> None:
        entry.is_current = False
        if event.type != EventType.NONE and entries.get(path) is entry:
            entries.pop(path, None)

    def _on_state(self, state: str) -> None:
        """Leave nothing without verification that was read before the connection was lost."""
        if state != KazooState.CONNECTED:
            for entry in (*self._nodes.copy().values(), *self._folders.copy().values()):
                entry.is_current = False
