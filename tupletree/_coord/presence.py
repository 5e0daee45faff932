"""The ephemeral ZooKeeper node of a process, which ends with the process's session.

If the session was lost (ZooKeeper or the network unavailable for longer than the session timeout), the node is written
again under the new session. A node with the same id left by an earlier session is taken over: the daemon was restarted
with the same id before its old session ended.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NodeExistsError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KazooState

from tupletree._coord import paths
from tupletree._coord.loop import WakeLoop
from tupletree._coord.paths import PresenceKind
from tupletree._coord.session import result, translated
from tupletree._coord.store import encode
from tupletree._coord.watch import TreeWatch
from tupletree._log import event
from tupletree.v1 import topology_pb2 as pb

logger = logging.getLogger(__name__)


class Registration:
    """Keeps one Presence registered from ``start`` to ``stop``."""

    def __init__(self, client: KazooClient, root: str, kind: PresenceKind, presence: pb.Presence) -> None:
        self._client = client
        self._kind = kind
        self._path = paths.presence(root.rstrip("/"), kind, presence.id)
        self._data = encode(presence)
        self._identity = presence.id
        self._takes_over = True  # once per session, else two processes with one id would replace each other forever
        self._loop = WakeLoop(f"presence-{presence.id}", self._ensure)
        self._watch: TreeWatch | None = None

    def start(self) -> None:
        """Register. When this returns, the node exists. Raises UnavailableError while ZooKeeper is unavailable."""
        self._ensure()
        self._loop.start()
        self._client.add_listener(self._on_state)
        self._watch = TreeWatch(self._client, [(self._path, 0)], self._loop.wake).start()

    def update(self, presence: pb.Presence) -> None:
        """Replace the presence. Returns at once; the new value is written as soon as ZooKeeper answers."""
        self._data = encode(presence)
        self._loop.wake()

    def stop(self) -> None:
        """Delete the node if ZooKeeper answers; otherwise it ends with the session."""
        self._client.remove_listener(self._on_state)
        if self._watch is not None:
            self._watch.cancel()
        self._loop.stop()
        with suppress(KazooException, KazooTimeoutError):
            _, stat = result(self._client.get_async(self._path), timeout_s=2.0)
            if self._is_mine(stat):
                result(self._client.delete_async(self._path), timeout_s=2.0)

    def _on_state(self, state: str) -> None:
        if state == KazooState.LOST:
            self._takes_over = True
        elif state == KazooState.CONNECTED:
            self._loop.wake()

    def _ensure(self) -> None:
        with translated(f"registering {self._kind} {self._identity}"):
            while not self._attempt():
                pass

    def _attempt(self) -> bool:
        """Try once; returns False if another process changed the node in between."""
        data = self._data
        try:
            result(self._client.create_async(self._path, data, ephemeral=True, makepath=True))
            self._takes_over = False
            event(logger, "presence.registered", kind=self._kind, id=self._identity)
            return True
        except NodeExistsError:
            pass
        try:
            found, stat = result(self._client.get_async(self._path))
            if self._is_mine(stat):
                self._takes_over = False
                if found != data:
                    result(self._client.set_async(self._path, data))
                return data == self._data
            if not self._takes_over:
                event(logger, "presence.taken", level=logging.WARNING, kind=self._kind, id=self._identity)
                return True
            result(self._client.delete_async(self._path))
        except NoNodeError:
            pass
        return False

    def _is_mine(self, stat: Any) -> bool:
        session = self._client.client_id
        return session is not None and stat.ephemeralOwner == session[0]
