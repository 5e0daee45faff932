"""The presence nodes of this supervisor's workers in ZooKeeper, kept up to date through outages of ZooKeeper.

The other workers of a topology act on these nodes: when a node disappears, they fail the tuples that may be lost with
its worker. A removal is therefore attempted at once and retried until it is known to have succeeded. For each slot of a
topology only the newest wish counts: the node of a new incarnation replaces the old node, which other workers treat as
a removal. A removal also removes the nodes of earlier incarnations, which remain after an outage of ZooKeeper.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

from tupletree._coord.store import Store
from tupletree._daemon.task_group import TaskGroup
from tupletree._log import event
from tupletree.errors import NotFoundError, TupletreeError
from tupletree.v1.topology_pb2 import WorkerPresence

from .faults import reason
from .zookeeper_session import EventualSession

log = logging.getLogger(__name__)

_RETRY_S = 0.2
_RETRY_UNEXPECTED_S = 5.0


@dataclass(frozen=True)
class _Wish:
    """The desired state of a node. ``presence`` None: the node of ``worker_id`` is to be removed."""

    worker_id: str
    presence: WorkerPresence | None
    since_s: float  # monotonic
    reader: str = ""


class WorkerPresences:
    """The nodes of this supervisor's workers. ``put`` and ``remove`` return at once and write in the background."""

    def __init__(
        self,
        session: EventualSession,
        tasks: TaskGroup,
        supervisor_id: str,
        observe_removal_s: Callable[[float], None],
    ) -> None:
        self._session = session
        self._group = tasks
        self._supervisor_id = supervisor_id
        self._observe_removal_s = observe_removal_s
        self._wishes: dict[tuple[str, int], _Wish] = {}
        self._candidates: dict[tuple[str, int], set[str]] = {}  # ids of workers whose presence the node can be
        self._busy: set[tuple[str, int]] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def put(self, topology_id: str, presence: WorkerPresence, reader: str = "") -> None:
        """``reader``: the user whose workers read it, if they run as their users."""
        self._wish(topology_id, presence.port, _Wish(presence.worker_id, presence, time.monotonic(), reader))

    def remove(self, topology_id: str, port: int, worker_id: str) -> None:
        self._wish(topology_id, port, _Wish(worker_id, None, time.monotonic()))

    def _wish(self, topology_id: str, port: int, wish: _Wish) -> None:
        key = (topology_id, port)
        self._wishes[key] = wish
        self._candidates.setdefault(key, set()).add(wish.worker_id)
        if key not in self._busy:
            self._busy.add(key)
            task = self._group.start(self._fulfil(key), f"presence-{port}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _fulfil(self, key: tuple[str, int]) -> None:
        try:
            while (wish := self._wishes.pop(key, None)) is not None:
                try:
                    is_done, pause_s = await self._attempt(key, wish), _RETRY_S
                except Exception as error:
                    reason(log, "presence.failed", error, topology=key[0], slot=key[1], worker=wish.worker_id)
                    is_done, pause_s = False, _RETRY_UNEXPECTED_S
                if not is_done:
                    self._wishes.setdefault(key, wish)  # unless there is a newer wish meanwhile
                    await asyncio.sleep(pause_s)
        finally:
            self._busy.discard(key)

    async def wait_until_applied(self) -> None:
        """Wait until every wish is fulfilled."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _attempt(self, key: tuple[str, int], wish: _Wish) -> bool:
        shown = {wish.worker_id, *self._candidates.get(key, ())}
        try:
            await self._session.connected.wait()
            await self._session.call(self._write(key, wish, shown))
        except NotFoundError:
            return True  # the topology was removed with all its nodes
        except TupletreeError as error:
            event(log, "presence.pending", slot=key[1], worker=wish.worker_id, cause=str(error))
            return False
        left = self._candidates.pop(key, set()) - shown | ({wish.worker_id} if wish.presence is not None else set())
        if left:
            self._candidates[key] = left
        if wish.presence is None:
            self._observe_removal_s(time.monotonic() - wish.since_s)
        name = "presence.put" if wish.presence else "presence.removed"
        event(log, name, topology=key[0], slot=key[1], worker=wish.worker_id)
        return True

    def _write(self, key: tuple[str, int], wish: _Wish, shown: Collection[str]) -> Callable[[Store], object]:
        topology_id, port = key
        presence = wish.presence
        if presence is not None:
            return lambda store: store.put_worker_presence(topology_id, presence, wish.reader)
        return lambda store: [
            store.remove_worker_presence(topology_id, self._supervisor_id, port, worker_id) for worker_id in shown
        ]

    async def remove_strangers(self, live_worker_ids: Callable[[], Collection[str]]) -> None:
        """Remove the nodes of workers that died while no supervisor process was running on this machine."""
        await self._session.connected.wait()
        while True:
            try:
                shown = await self._session.call(self._shown)
                break
            except TupletreeError as error:
                event(log, "presence.unread", cause=str(error))
                await asyncio.sleep(_RETRY_S)
        live = live_worker_ids()
        for topology_id, presence in shown:
            # If this process has put a node or is about to, that node replaces the stranger's. A removal now would
            # also remove the new node, and its live worker would be missing for all others.
            key = (topology_id, presence.port)
            if presence.worker_id not in live and key not in self._busy and key not in self._candidates:
                self.remove(topology_id, presence.port, presence.worker_id)

    def _shown(self, store: Store) -> list[tuple[str, WorkerPresence]]:
        found = store.topologies()
        return [
            (topology_id, presence)
            for topology_id in (*found, *found.unreadable)
            for (supervisor_id, _), presence in store.worker_presences(topology_id).items()
            if supervisor_id == self._supervisor_id
        ]
