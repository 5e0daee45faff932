"""What is particular to states in ZooKeeper."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from kazoo.client import KazooClient
from state_places import NAMESPACE, State, StatePlace, checkpoint, zookeeper_place
from stored_metadata import store_metadata

from tupletree import config
from tupletree._coord.session import connect, disconnect
from tupletree._devcluster.zookeeper import EmbeddedZooKeeper
from tupletree._stores import memory_nodes
from tupletree._stores import zookeeper_nodes as transactional_zookeeper
from tupletree._stores.memory_nodes import MemoryStore
from tupletree.errors import AuthorityError, UnavailableError, UsageError
from tupletree.state import ZooKeeperStateProvider
from tupletree.state.buffered import BufferedState
from tupletree.state.zookeeper import LIMIT_BYTES, ZooKeeperBackend, folder
from tupletree.testing.wait import wait_until
from tupletree.transactional.progress import Progress, forget
from tupletree.transactional.status import transactional_ids

Opens = Callable[..., State]


@pytest.fixture
def place(zookeeper: EmbeddedZooKeeper, zookeeper_root: str) -> StatePlace:
    return zookeeper_place(zookeeper, zookeeper_root)


@pytest.fixture
def session(place: StatePlace) -> Iterator[KazooClient]:
    """Of somebody else."""
    client = connect(place.context.conf)
    yield client
    disconnect(client)


@pytest.mark.long
def test_zookeeper_that_is_away_is_said_to_be_and_afterwards_all_goes_on(
    opened: Opens, zookeeper: EmbeddedZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactional_zookeeper, "TIMEOUT_S", 1.0)
    state = opened()
    state.put("word", 1)
    checkpoint(state, 1)
    state.put("word", 2)
    zookeeper.kill()
    for step in (lambda: state.prepare_commit(2), state.rollback, opened):
        with pytest.raises(UnavailableError, match="ZooKeeper is unavailable"):
            step()
    assert state.get("word") == 2
    zookeeper.start()

    def is_prepared() -> bool:
        with suppress(UnavailableError):
            state.prepare_commit(2)
        return state.prepared == 2

    wait_until(is_prepared, 60, what="ZooKeeper answers")
    state.commit(2)
    assert dict(opened().items()) == {"word": 2}


def test_more_than_zookeeper_is_to_hold_is_refused_with_what_to_use_instead(opened: Opens) -> None:
    state = opened()
    part = "x" * (LIMIT_BYTES // 4)
    for number in range(3):
        state.put(number, part)
    checkpoint(state, 1)
    state.put(3, part)
    with pytest.raises(
        UsageError,
        match=r"^state 'words/count/0' would take 500,0[0-9]{2} bytes, .* 500,000: .* 'postgres', 'redis' or 'sqlite'$",
    ):
        state.prepare_commit(2)
    assert state.prepared is None
    state.delete(0)
    state.put(3, part)
    checkpoint(state, 2)
    assert set(dict(opened().items())) == {1, 2, 3}
    many = opened()
    for number in range(100_000):
        many.delete(number)  # changes nothing that is there, and takes its room while it is prepared
    with pytest.raises(UsageError, match="would take"):
        many.prepare_commit(3)


def test_a_state_that_somebody_deleted_is_not_written_to(
    opened: Opens, session: KazooClient, zookeeper_root: str
) -> None:
    state = opened()
    state.put("word", 1)
    checkpoint(state, 1)
    session.delete(f"{zookeeper_root}{folder(NAMESPACE)}", recursive=True)
    state.put("word", 2)
    with pytest.raises(AuthorityError, match="was removed from ZooKeeper"):
        state.prepare_commit(2)
    assert opened().committed is None


def test_what_a_newer_version_wrote_is_refused(opened: Opens, session: KazooClient, zookeeper_root: str) -> None:
    opened().close()
    session.set(f"{zookeeper_root}{folder(NAMESPACE)}/owner", b"\x92\x02\xa1x")
    with pytest.raises(UsageError, match="was written by a newer version of Tupletree"):
        opened()


def test_states_and_transactional_topologies_of_any_name_are_apart() -> None:
    store = MemoryStore()
    namespaces = ["coordinator", "user", "coordinator/epoch", "a/b/0", ".", "..", "", "%"]
    states: list[State] = [BufferedState(one, ZooKeeperBackend(one, store, "owner")) for one in namespaces]
    for name, state in zip(namespaces, states, strict=True):
        state.put("name", name)
        checkpoint(state, 1)
    assert transactional_ids(store) == []
    progress = Progress.take_over(store, "$states", "owner")
    store_metadata(progress, 1, "one")
    assert transactional_ids(store) == ["$states"]
    for name, state in zip(namespaces, states, strict=True):
        checkpoint(state, 2)
        assert dict(BufferedState(name, ZooKeeperBackend(name, store, "other")).items()) == {"name": name}
    forget(store, "count")
    assert BufferedState("user", ZooKeeperBackend("user", store, "owner")).committed == 2


def test_in_a_local_cluster_it_is_in_the_memory_of_the_cluster() -> None:
    conf: dict[str, Any] = config.defaults() | {"zookeeper.servers": [], "transactional.zookeeper.root": "/local-1"}
    memory_nodes.register("/local-1")
    try:
        place = StatePlace(ZooKeeperStateProvider(), {}, conf)
        state = place.open()
        state.put("word", 1)
        checkpoint(state, 1)
        assert dict(place.open().items()) == {"word": 1}
    finally:
        memory_nodes.drop("/local-1")
