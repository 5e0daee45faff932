"""The nodes of a supervisor's workers on a real ZooKeeper that was away while workers came and went."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, TypeVar

import pytest

from tupletree._coord import paths
from tupletree._coord.session import connect, disconnect
from tupletree._coord.store import Store, encode
from tupletree._daemon.health import Readiness
from tupletree._daemon.task_group import TaskGroup
from tupletree._devcluster.zookeeper import EmbeddedZooKeeper
from tupletree.config import defaults
from tupletree.supervisor.presences import WorkerPresences
from tupletree.supervisor.zookeeper_session import EventualSession
from tupletree.v1.topology_pb2 import Presence, TopologyRecord, WorkerPresence

T = TypeVar("T")
TOPOLOGY, PORT = "t-1-1", 6700


@pytest.fixture
def store(zookeeper: EmbeddedZooKeeper, zookeeper_root: str) -> Iterator[Store]:
    client = connect(defaults() | {"zookeeper.servers": [zookeeper.connect_string]})
    with contextlib.closing(contextlib.ExitStack()) as cleanup:
        cleanup.callback(disconnect, client)
        client.create(paths.topology(zookeeper_root, TOPOLOGY), encode(TopologyRecord(id=TOPOLOGY)), makepath=True)
        client.create(paths.workers_of(zookeeper_root, TOPOLOGY), makepath=True)
        yield Store(client, zookeeper_root)


def worker(worker_id: str) -> WorkerPresence:
    return WorkerPresence(worker_id=worker_id, supervisor_id="me", host="127.0.0.1", port=PORT)


class SlowToHear(EventualSession):
    """Learns what it asked for only after something else has happened."""

    def __init__(self, conf: Mapping[str, Any], happens: Callable[[], Awaitable[None]]) -> None:
        super().__init__(conf, Readiness())
        self._happens: Callable[[], Awaitable[None]] | None = happens

    async def call(self, do: Callable[[Store], T]) -> T:
        answer = await super().call(do)
        if self._happens is not None:
            happens, self._happens = self._happens, None
            await happens()
        return answer


@pytest.mark.parametrize("is_replaced", [True, False])
def test_the_node_of_a_worker_that_died_unseen_goes_and_that_of_its_successor_stays(
    zookeeper: EmbeddedZooKeeper, store: Store, is_replaced: bool
) -> None:
    store.put_worker_presence(TOPOLOGY, worker("died unseen"))

    async def run() -> None:
        async def successor_is_put() -> None:
            if is_replaced:
                presences.put(TOPOLOGY, worker("successor"))
                await presences.wait_until_applied()

        conf = defaults() | {"zookeeper.servers": [zookeeper.connect_string], "zookeeper.root": store.root}
        coordination = SlowToHear(conf, successor_is_put)
        took: list[float] = []
        presences = WorkerPresences(coordination, TaskGroup(), "me", took.append)
        await coordination.connect(Presence(id="me"), lambda: None)
        await presences.remove_strangers(lambda: {"successor"} if is_replaced else set())
        await presences.wait_until_applied()
        await coordination.close()

    asyncio.run(run())
    shown = [one.worker_id for one in store.worker_presences(TOPOLOGY).values()]
    assert shown == (["successor"] if is_replaced else [])


@pytest.mark.parametrize("last", ["removed", "put"])
def test_a_worker_whose_successors_came_and_went_while_zookeeper_was_away_is_not_shown_for_ever(
    zookeeper: EmbeddedZooKeeper, store: Store, last: str
) -> None:
    store.put_worker_presence(TOPOLOGY, worker("first"))

    async def run() -> None:
        conf = defaults() | {"zookeeper.servers": [zookeeper.connect_string], "zookeeper.root": store.root}
        coordination = EventualSession(conf, Readiness())
        took: list[float] = []
        presences = WorkerPresences(coordination, TaskGroup(), "me", took.append)
        coordination.connected.set()  # as if there had been a session: each attempt fails until there is one
        presences.remove(TOPOLOGY, PORT, "first")
        await asyncio.sleep(0)
        presences.put(TOPOLOGY, worker("second"))
        presences.remove(TOPOLOGY, PORT, "second")
        if last == "put":
            presences.put(TOPOLOGY, worker("third"))
        await coordination.connect(Presence(id="me"), lambda: None)
        await presences.wait_until_applied()
        assert not presences._candidates or presences._candidates == {(TOPOLOGY, PORT): {"third"}}
        await coordination.close()

    asyncio.run(run())
    shown = [one.worker_id for one in store.worker_presences(TOPOLOGY).values()]
    assert shown == (["third"] if last == "put" else [])
