"""The store that caches: it returns what a store without a cache returns, and asks only for what has changed."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from kazoo.client import KazooClient
from sessions import drop_connection, expire

from tupletree._coord import paths
from tupletree._coord.caching import CachingStore
from tupletree._coord.store import Store, encode
from tupletree.errors import InternalError
from tupletree.v1 import topology_pb2 as pb

TOPOLOGIES = [f"t{number}" for number in range(5)]


@pytest.fixture
def stores(open_session: Callable[[], KazooClient], zookeeper_root: str) -> tuple[CachingStore, Store]:
    cached, other = open_session(), open_session()
    for folder in paths.folders(zookeeper_root):
        other.ensure_path(folder)
    return CachingStore(cached, zookeeper_root), Store(other, zookeeper_root)


def snapshot(store: Store) -> list[object]:
    with store.snapshot():
        return read(store)


def read(store: Store) -> list[object]:
    found = store.assignments(), store.topologies_of(TOPOLOGIES)
    return [
        *found,
        *(one.unreadable for one in found),
        store.worker_slots(TOPOLOGIES),
        store.worker_presences("t0"),
        single(store, "t1"),
    ]


def single(store: Store, topology_id: str) -> object:
    try:
        return store.assignment(topology_id)
    except InternalError as error:
        return str(error)


class Requests:
    """Counts the requests that a session sends."""

    def __init__(self, client: KazooClient, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sent: Counter[str] = Counter()
        send = client._call

        def counted(request: Any, pending: Any) -> Any:
            self.sent[type(request).__name__] += 1
            return send(request, pending)

        monkeypatch.setattr(client, "_call", counted)

    def of(self, work: Callable[[], object]) -> Counter[str]:
        self.sent.clear()
        work()
        return self.sent


def assign(store: Store, topology_id: str, version: int) -> None:
    """Write an assignment, whether or not there is one."""
    path = paths.assignment(store.root, topology_id)
    store.client.ensure_path(path)
    store.client.set(path, encode(pb.Assignment(topology_id=topology_id, version=version)))


def change(store: Store, draw: random.Random) -> None:
    topology_id = draw.choice(TOPOLOGIES)
    assignment, record = paths.assignment(store.root, topology_id), paths.topology(store.root, topology_id)
    match draw.randrange(6):
        case 0 | 1:
            assign(store, topology_id, draw.randrange(1000))
        case 2:
            if store.client.exists(assignment):
                store.client.delete(assignment)
        case 3:
            store.client.ensure_path(assignment)
            store.client.set(assignment, b"no assignment")
        case 4:
            store.client.ensure_path(record)
            store.client.set(record, encode(pb.TopologyRecord(id=topology_id, workers=draw.randrange(9))))
        case 5:
            store.client.ensure_path(paths.workers_of(store.root, topology_id))
            one = pb.WorkerPresence(worker_id=f"w{draw.random()}", supervisor_id="s", port=draw.randrange(3))
            store.put_worker_presence(topology_id, one)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_each_snapshot_is_that_of_a_store_without_a_cache(stores: tuple[CachingStore, Store], seed: int) -> None:
    cached, plain = stores
    draw = random.Random(seed)
    for step in range(120):
        for _ in range(draw.randrange(3)):
            change(draw.choice((plain, cached)), draw)  # of its own session and of another one
        if step % 40 == 20:
            drop_connection(cached.client)
        if step % 60 == 50:
            expire(cached.client)
        take = draw.choice((read, snapshot))
        assert take(cached) == read(plain), f"seed {seed}, step {step}"


def test_an_unchanged_cluster_is_not_read_again(
    stores: tuple[CachingStore, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    cached, plain = stores
    for topology_id in TOPOLOGIES:
        assign(plain, topology_id, 1)
    requests = Requests(cached.client, monkeypatch)
    before = cached.assignments()
    again: list[Any] = []
    assert not requests.of(lambda: again.append(cached.assignments())).keys() & {"GetData", "GetChildren"}
    assert all(again[0][one].value is before[one].value for one in TOPOLOGIES)
    assign(plain, "t3", 2)
    assert requests.of(cached.assignments)["GetData"] == 1


def test_a_snapshot_asks_once_for_changes_and_again_after_each_read(
    stores: tuple[CachingStore, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    cached, plain = stores
    for topology_id in TOPOLOGIES:
        assign(plain, topology_id, 1)
        plain.client.create(paths.workers_of(plain.root, topology_id))
        plain.client.create(paths.topology(plain.root, topology_id), encode(pb.TopologyRecord(id=topology_id)))
    snapshot(cached)
    requests = Requests(cached.client, monkeypatch)
    assert requests.of(lambda: snapshot(cached)) == {"Exists": 1}
    with cached.snapshot():
        assert cached.assignments()["t3"].value.version == 1
        assign(plain, "t3", 2)
        cached.topologies_of(["new"])
        assert cached.assignments()["t3"].value.version == 2


def test_after_a_lost_connection_only_versions_are_asked_for(
    stores: tuple[CachingStore, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    cached, plain = stores
    for topology_id in TOPOLOGIES:
        assign(plain, topology_id, 1)
    cached.assignments()
    drop_connection(cached.client)
    assign(plain, "t3", 2)
    requests = Requests(cached.client, monkeypatch)
    assert requests.of(cached.assignments)["GetData"] == 1
    assert cached.assignments()["t3"].value.version == 2


def test_errors_of_components_leave_nothing_in_the_cache(stores: tuple[CachingStore, Store]) -> None:
    cached, plain = stores
    plain.client.ensure_path(paths.errors_of(plain.root, "t0"))
    cached.report_error("t0", pb.ComponentError(component_id="c", message="m", count=2, first_unix_s=1))
    assert [one.message for one in cached.errors("t0")] == ["m"]
    assert not cached._nodes and not cached._folders
