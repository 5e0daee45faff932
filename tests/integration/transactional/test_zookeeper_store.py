"""The store in ZooKeeper does what every store does, and goes on when ZooKeeper does."""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest
from kazoo.client import KazooClient
from store_conformance import StoreConformance
from stored_metadata import store_metadata

from tupletree import config
from tupletree._coord.session import connect, disconnect
from tupletree._devcluster.guard import Guard
from tupletree._devcluster.zookeeper import EmbeddedZooKeeper
from tupletree._stores import zookeeper_nodes as module
from tupletree._stores.nodes import Create, Delete, Node, Put, StateStore
from tupletree._stores.zookeeper_nodes import ZooKeeperStore, open_store
from tupletree.errors import AuthorityError, ConflictError, UnavailableError, UsageError
from tupletree.testing.wait import wait_until
from tupletree.transactional.progress import Progress

Open = Callable[..., StateStore]


@pytest.fixture
def conf(zookeeper: EmbeddedZooKeeper, zookeeper_root: str) -> dict[str, Any]:
    return config.defaults() | {
        "zookeeper.servers": [zookeeper.host],
        "zookeeper.port": zookeeper.port,
        "zookeeper.session.timeout": 6000,
        "transactional.zookeeper.root": zookeeper_root,
    }


@pytest.fixture
def opened(conf: dict[str, Any]) -> Iterator[Open]:
    """Opens stores, with changes to the configuration; all are closed at the end of the test."""
    with ExitStack() as stack:

        def open_one(**changes: Any) -> StateStore:
            store = open_store(conf | {name.replace("_", "."): value for name, value in changes.items()})
            stack.callback(store.close)
            return store

        yield open_one
    assert not module._sessions


@pytest.fixture
def impatient(conf: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A call, and a connection that a starting server does not answer, give up sooner: the test is over sooner."""
    conf["zookeeper.session.timeout"] = 2000
    monkeypatch.setattr(module, "TIMEOUT_S", 1.0)


@pytest.fixture
def store(opened: Open) -> StateStore:
    return opened()


@pytest.fixture
def session(conf: dict[str, Any]) -> Iterator[KazooClient]:
    """Of somebody else."""
    client = connect(conf)
    yield client
    disconnect(client)


@pytest.fixture
def other_zookeeper() -> Iterator[EmbeddedZooKeeper]:
    with tempfile.TemporaryDirectory(prefix="tupletree-other-zookeeper-") as directory:
        guard = Guard(directory, remove=True)
        try:
            with EmbeddedZooKeeper(directory, durable=False) as server:
                yield server
        finally:
            guard.close()


def insist(step: Callable[[], Any], timeout_s: float = 60) -> Any:
    """Do a step again until ZooKeeper answers; its value is returned in a list of one."""

    def attempt() -> list[Any]:
        with suppress(UnavailableError):
            return [step()]
        return []

    return wait_until(attempt, timeout_s, what="ZooKeeper answers")[0]


class TestZooKeeperStore(StoreConformance):
    pass


def test_everything_is_below_the_root(store: StateStore, session: KazooClient, zookeeper_root: str) -> None:
    store.write([Create("/count/coordinator/epoch", b"data")])
    assert session.get(f"{zookeeper_root}/count/coordinator/epoch")[0] == b"data"


@pytest.mark.parametrize("root", ["/", "", "plain", "/with/end/"])
def test_the_root_may_be_written_in_any_way(root: str, opened: Open, session: KazooClient, zookeeper_root: str) -> None:
    store = opened(transactional_zookeeper_root=root)
    path = f"/id-{zookeeper_root[1:]}"
    store.write([Create(f"{path}/a", b"data")])
    assert store.get(f"{path}/a") == Node(b"data", 0)
    assert path[1:] in store.children("/")
    full = f"/{root.strip('/')}{path}/a".replace("//", "/")
    assert session.get(full)[0] == b"data"


def test_stores_of_one_ensemble_share_a_session_that_ends_with_the_last(opened: Open) -> None:
    first = opened()
    second = opened(transactional_zookeeper_root="/elsewhere")
    assert isinstance(first, ZooKeeperStore)
    assert isinstance(second, ZooKeeperStore)
    client = first._client
    assert second._client is client
    first.close()
    first.close()  # counts once
    second.write([Create("/a")])
    second.write([Delete("/a")])
    second.close()
    assert not client.connected
    third = opened()
    assert isinstance(third, ZooKeeperStore)
    assert third._client is not client
    assert third.get("/none") is None


def test_folders_that_somebody_deleted_are_created_again(
    store: StateStore, session: KazooClient, zookeeper_root: str
) -> None:
    store.write([Create("/a/b/1")])
    session.delete(zookeeper_root, recursive=True)
    store.write([Create("/a/b/2")])
    assert store.children("/a/b") == ["2"]


@pytest.mark.long
def test_another_ensemble_by_servers_and_port(
    opened: Open, zookeeper: EmbeddedZooKeeper, other_zookeeper: EmbeddedZooKeeper
) -> None:
    own = opened()
    others = [
        opened(
            transactional_zookeeper_servers=[other_zookeeper.host], transactional_zookeeper_port=other_zookeeper.port
        ),
        opened(transactional_zookeeper_servers=[other_zookeeper.connect_string]),
        opened(transactional_zookeeper_port=other_zookeeper.port),  # another server on the cluster's host
    ]
    others[0].write([Create("/a", b"other")])
    assert [other.get("/a") for other in others] == [Node(b"other", 0)] * 3
    assert own.get("/a") is None
    assert opened(transactional_zookeeper_servers=[zookeeper.host]).get("/a") is None
    zookeeper.kill()
    others[0].write([Put("/a", b"while the cluster's is away", 0)])
    zookeeper.start()
    assert insist(lambda: own.get("/a")) is None


def test_no_server_is_refused(opened: Open) -> None:
    with pytest.raises(UsageError, match=r"transactional\.zookeeper\.servers names no server"):
        opened(transactional_zookeeper_servers=[])
    with pytest.raises(UsageError, match=r"zookeeper\.servers names no server, .* not run in a LocalCluster"):
        opened(zookeeper_servers=[])


@pytest.mark.long
@pytest.mark.usefixtures("impatient")
def test_while_zookeeper_is_away_every_call_says_so_in_time_and_afterwards_all_is_there(
    store: StateStore, zookeeper: EmbeddedZooKeeper
) -> None:
    store.write([Create("/a", b"before")])
    zookeeper.kill()
    for step in (
        lambda: store.get("/a"),
        lambda: store.children("/"),
        lambda: store.write([Put("/a", b"lost", 5)]),
        lambda: store.write([Create("/folder/b", b"b")]),
    ):
        with pytest.raises(UnavailableError, match="ZooKeeper is unavailable"):
            step()
    zookeeper.start()
    assert insist(lambda: store.get("/a")) == Node(b"before", 0)
    store.write([Put("/a", b"after", 0)])
    assert store.get("/a") == Node(b"after", 1)


@pytest.mark.long
@pytest.mark.usefixtures("impatient")
def test_a_store_opened_while_zookeeper_is_away_works_once_it_is_there(
    opened: Open, zookeeper: EmbeddedZooKeeper
) -> None:
    zookeeper.kill()
    store = opened()
    with pytest.raises(UnavailableError):
        store.get("/a")
    zookeeper.start()
    insist(lambda: store.children("/"))
    store.write([Create("/a", b"data")])
    assert store.get("/a") == Node(b"data", 0)


def test_a_session_that_expired_is_followed_by_another(store: StateStore, zookeeper: EmbeddedZooKeeper) -> None:
    assert isinstance(store, ZooKeeperStore)
    store.write([Create("/a/b", b"data")])
    old = store._client.client_id
    thief = KazooClient(hosts=zookeeper.connect_string, client_id=old)
    thief.start()
    thief.stop()  # closing a session ends it for everybody who holds it
    thief.close()
    wait_until(lambda: store._client.connected and store._client.client_id != old, what="the session is a new one")
    assert insist(lambda: store.get("/a/b")) == Node(b"data", 0)
    store.write([Create("/a/c"), Put("/a/b", b"new", 0)])
    assert store.children("/a") == ["b", "c"]


@pytest.mark.long
@pytest.mark.usefixtures("impatient")
def test_a_coordinator_goes_on_through_restarts_of_zookeeper_and_loses_and_repeats_nothing(
    store: StateStore, zookeeper: EmbeddedZooKeeper
) -> None:
    progress = insist(lambda: Progress.take_over(store, "count", "first"))
    for txid in range(1, 61):
        assert insist(lambda txid=txid: store_metadata(progress, txid, f"metadata {txid}")) == f"metadata {txid}"
        if txid % 20 == 10:
            zookeeper.kill()
            with pytest.raises(UnavailableError):
                progress.record(txid)
            zookeeper.start()
        insist(lambda txid=txid: progress.record(txid))
    following = Progress.take_over(store, "count", "second")
    assert (following.epoch, following.committed, following.metadata.txids) == (progress.epoch + 1, 60, [60])
    with pytest.raises(AuthorityError, match="has taken over: second"):
        progress.record(61)


@pytest.mark.usefixtures("impatient")
def test_a_write_whose_reply_is_lost_is_made_once(store: StateStore, zookeeper: EmbeddedZooKeeper) -> None:
    """ZooKeeper is stopped, takes the request from its socket when it goes on, and answers nobody."""
    progress = insist(lambda: Progress.take_over(store, "count", "first"))
    store_metadata(progress, 1, "one")
    zookeeper.kill(signal.SIGSTOP)
    try:
        with pytest.raises(UnavailableError):
            store_metadata(progress, 2, "two")
    finally:
        zookeeper.kill(signal.SIGCONT)
    assert insist(lambda: store_metadata(progress, 2, "two, or another")) in {"two", "two, or another"}
    insist(lambda: progress.record(1))
    assert progress.metadata.txids == [1, 2]
    assert store.children("/count/coordinator/meta") == ["1", "2"]


def test_two_sessions_that_change_one_node_do_not_both_succeed(conf: dict[str, Any], opened: Open) -> None:
    own = opened()
    client = connect(conf)
    other = ZooKeeperStore(client, conf["transactional.zookeeper.root"], lambda: disconnect(client))
    try:
        own.write([Create("/a", b"0")])
        assert other.get("/a") == Node(b"0", 0)
        other.write([Put("/a", b"other", 0)])
        assert own.get("/a") == Node(b"other", 1)
        with pytest.raises(ConflictError, match=r"^writing /a: "):
            own.write([Create("/b"), Put("/a", b"own", 0)])
        assert other.get("/b") is None
    finally:
        other.close()
