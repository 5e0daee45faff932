"""Watches that only wake: a node in a watched tree may have changed, read it again.

ZooKeeper's own watches fire once, and all fire when the connection drops. A TreeWatch keeps a watch armed on every node
of a small tree and guarantees: ``wake`` is called at least once after every change and after every reconnect. ``wake``
is called only when every watch is armed again, so that a snapshot read after a wake cannot miss a change silently: the
change either happened before the snapshot or causes another wake.

    fired --> arm again (and arm new descendants) --> all answered --> wake()
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from kazoo.protocol.states import EventType, KazooState

from tupletree._log import event as log_event

logger = logging.getLogger(__name__)

Wake = Callable[[], None]
_Key = tuple[Literal["node", "children"], str, int]


class TreeWatch:
    """Watches nodes, and their descendants down to a depth, whether they exist yet or not.

    ``roots`` are pairs of a path and a depth: 0 watches the node alone, 1 its children too.
    ``wake`` runs in one of kazoo's threads and must not block. The first call comes once the tree is armed.
    """

    def __init__(self, client: KazooClient, roots: Sequence[tuple[str, int]], wake: Wake) -> None:
        self._client = client
        self._roots = tuple(roots)
        self._wake = wake
        self._lock = threading.Lock()  # guards all fields below; callbacks come from three kazoo threads
        self._generation = 0  # incremented per connection; answers and events of older generations are void
        self._armed: set[_Key] = set()
        self._unanswered = 0
        self._cancelled = False

    def start(self) -> TreeWatch:
        self._client.add_listener(self._on_state)
        self._arm_roots()
        return self

    def cancel(self) -> None:
        """Stop watching. No wake begins afterwards."""
        with self._lock:
            self._cancelled = True
            self._armed.clear()
        self._client.remove_listener(self._on_state)

    def _on_state(self, state: str) -> None:
        if state == KazooState.CONNECTED:
            self._arm_roots()

    def _arm_roots(self) -> None:
        with self._lock:
            self._generation += 1
            self._armed.clear()
            self._unanswered = 0
            generation = self._generation
        self._arm_all(generation, [key for path, depth in self._roots for key in _keys(path, depth)])

    def _arm_all(self, generation: int, keys: Sequence[_Key]) -> None:
        with self._lock:
            if self._cancelled or generation != self._generation:
                return
            fresh = [key for key in keys if key not in self._armed]
            self._armed.update(fresh)
            self._unanswered += len(fresh)
        for key in fresh:
            kind, path, _ = key
            ask = self._client.exists_async if kind == "node" else self._client.get_children_async
            pending = ask(path, watch=partial(self._fired, generation, key))
            pending.rawlink(partial(self._answered, generation, key))

    def _fired(self, generation: int, key: _Key, event: Any) -> None:
        if event.type == EventType.NONE:
            return  # the connection dropped; the reconnect arms everything again
        with self._lock:
            if generation != self._generation:
                return
            self._armed.discard(key)
        kind, path, depth = key
        if kind == "node" and event.type == EventType.DELETED and not self._is_root(path):
            return  # the parent's children watch fired, too, and detects a new creation
        self._arm_all(generation, _keys(path, depth) if kind == "node" else [key])

    def _answered(self, generation: int, key: _Key, pending: Any) -> None:
        below: list[_Key] = []
        with self._lock:
            if generation != self._generation:
                return
            if not pending.successful():
                self._armed.discard(key)
                if not isinstance(pending.exception, NoNodeError):
                    log_event(logger, "watch.unarmed", level=logging.DEBUG, path=key[1], cause=pending.exception)
        if pending.successful() and key[0] == "children":
            below = [one for name in pending.value for one in _keys(f"{key[1]}/{name}", key[2] - 1)]
        self._arm_all(generation, below)
        with self._lock:
            if generation != self._generation or self._cancelled:
                return
            self._unanswered -= 1
            complete = self._unanswered == 0
        if complete:
            self._wake()

    def _is_root(self, path: str) -> bool:
        return any(path == root for root, _ in self._roots)


def _keys(path: str, depth: int) -> list[_Key]:
    """Return the watches of one node. A missing node has only a node watch, which detects its creation."""
    keys: list[_Key] = [("node", path, depth)]
    if depth > 0:
        keys.append(("children", path, depth))
    return keys
