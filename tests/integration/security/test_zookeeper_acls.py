"""Credentials for ZooKeeper: what is created is closed, what is older is closed by hand, others get one sentence."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from tupletree._coord.acls import open_nodes, share_roots
from tupletree._coord.session import connect, disconnect, translated
from tupletree._coord.worker_acls import WORKER_AUTH, WorkerAcls
from tupletree._devcluster.zookeeper import EmbeddedZooKeeper
from tupletree._stores.nodes import Create, Put
from tupletree._stores.zookeeper_nodes import open_store
from tupletree.cli.main import main
from tupletree.config import defaults
from tupletree.errors import ConfigError, ForbiddenError

OURS = {"zookeeper.auth.user": "tupletree", "zookeeper.auth.password": "ours"}


@pytest.fixture
def conf(zookeeper: EmbeddedZooKeeper, zookeeper_root: str) -> dict[str, Any]:
    where = {"zookeeper.servers": [zookeeper.host], "zookeeper.port": zookeeper.port, "zookeeper.root": zookeeper_root}
    return {**defaults(), **where, "transactional.zookeeper.root": f"{zookeeper_root}/transactional"}


@pytest.fixture
def ours(conf: dict[str, Any]) -> Iterator[KazooClient]:
    client = connect({**conf, **OURS})
    yield client
    disconnect(client)


@pytest.fixture
def stranger(conf: dict[str, Any]) -> Iterator[KazooClient]:
    client = connect({**conf, "zookeeper.auth.user": "tupletree", "zookeeper.auth.password": "guessed"})
    yield client
    disconnect(client)


def test_what_is_created_is_closed_to_strangers(ours: KazooClient, stranger: KazooClient, zookeeper_root: str) -> None:
    ours.create(f"{zookeeper_root}/a/b", b"1", makepath=True)
    transaction = ours.transaction()
    transaction.create(f"{zookeeper_root}/c", b"2")
    transaction.commit()
    assert open_nodes(ours, zookeeper_root) == []
    for touch in (
        lambda: stranger.get(f"{zookeeper_root}/a/b"),
        lambda: stranger.set(f"{zookeeper_root}/c", b"3"),
        lambda: stranger.delete(f"{zookeeper_root}/c"),
        lambda: stranger.create(f"{zookeeper_root}/d"),
        lambda: stranger.get_children(zookeeper_root),
    ):
        with pytest.raises(NoAuthError):
            touch()
    with pytest.raises(ForbiddenError, match="belongs to other credentials"), translated("reading"):
        stranger.get(f"{zookeeper_root}/c")


def test_what_is_open_is_found_and_closed(
    conf: dict[str, Any], ours: KazooClient, zookeeper_root: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    old = connect(conf)
    old.create(f"{zookeeper_root}/a/b", b"1", makepath=True)
    assert sorted(open_nodes(ours, zookeeper_root)) == [zookeeper_root, f"{zookeeper_root}/a", f"{zookeeper_root}/a/b"]
    path = tmp_path / "tupletree.yaml"
    path.write_text(json.dumps({**conf, **OURS}))
    assert main(["zookeeper", "secure", "--conf", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["closed"][zookeeper_root] == 3
    assert open_nodes(ours, zookeeper_root) == []
    with pytest.raises(NoAuthError):
        old.get(f"{zookeeper_root}/a/b")
    disconnect(old)
    assert main(["zookeeper", "secure", "--conf", str(path)]) == 0
    assert "no node was open" in capsys.readouterr().out


def test_progress_of_transactional_topologies_is_closed_too(conf: dict[str, Any], ours: KazooClient) -> None:
    root = str(conf["transactional.zookeeper.root"])
    store = open_store({**conf, **OURS})
    try:
        store.write([Create("/id/coordinator/epoch", b"1")])
        store.write([Put("/id/coordinator/epoch", b"2", 0)])
    finally:
        store.close()
    assert ours.get(f"{root}/id/coordinator/epoch")[0] == b"2"
    assert open_nodes(ours, root) == []


@pytest.mark.parametrize("lacks", sorted(OURS))
def test_half_of_the_credentials_is_a_mistake(conf: dict[str, Any], lacks: str) -> None:
    with pytest.raises(ConfigError, match="must be set together"):
        connect({**conf, **OURS, lacks: None})


def test_a_password_may_lie_in_a_file_of_its_own(conf: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.write_text("ours\n")
    told = {**conf, "zookeeper.auth.user": "tupletree", "zookeeper.auth.password.file": str(path)}
    with pytest.raises(ConfigError, match="is open to every user"):
        path.chmod(0o604)
        connect(told)
    path.chmod(0o600)
    disconnect(connect(told))


def test_a_daemon_closes_no_node_that_is_still_open(conf: dict[str, Any], ours: KazooClient) -> None:
    progress = str(conf["transactional.zookeeper.root"])
    before = connect(conf)
    before.create(progress, b"", makepath=True)
    share_roots(ours, progress)
    assert open_nodes(ours, progress) == [progress]
    assert before.get(progress)[0] == b""
    disconnect(before)


def test_roots_of_others_are_left_to_them(
    conf: dict[str, Any], ours: KazooClient, stranger: KazooClient, caplog: pytest.LogCaptureFixture
) -> None:
    progress = str(conf["transactional.zookeeper.root"])
    ours.create(progress, b"", makepath=True)
    share_roots(stranger, progress)
    assert "zookeeper.not_shared" in caplog.text


def test_workers_with_credentials_of_their_own_reach_what_is_of_their_owner(
    conf: dict[str, Any], ours: KazooClient, zookeeper_root: str
) -> None:
    acls = WorkerAcls((OURS["zookeeper.auth.user"], OURS["zookeeper.auth.password"]))
    progress = str(conf["transactional.zookeeper.root"])
    record, errors, shared = (f"{zookeeper_root}/{name}" for name in ("record", "errors", "shared"))
    ours.create(record, b"1", acl=acls.of_reader("alice"), makepath=True)
    ours.create(errors, b"", acl=acls.of_writer("alice"))
    ours.create(shared, b"1", acl=acls.of_all_workers())
    share_roots(ours, progress)
    alice, bob = (connect({**conf, WORKER_AUTH: acls.of_worker(owner)}) for owner in ("alice", "bob"))
    try:
        assert alice.get(record)[0] == alice.get(shared)[0] == bob.get(shared)[0] == b"1"
        alice.create(f"{errors}/one", b"2")
        assert ours.get(f"{errors}/one")[0] == b"2"
        alice.create(f"{progress}/$states/alice", b"3")
        bob.create(f"{progress}/$states/bob", b"4")
        for touch in (
            lambda: alice.set(record, b"mine"),
            lambda: alice.set(shared, b"mine"),
            lambda: alice.delete(f"{progress}/$states/bob"),
            lambda: bob.get(record),
            lambda: bob.create(f"{errors}/two"),
            lambda: bob.get(f"{errors}/one"),
            lambda: bob.get(f"{progress}/$states/alice"),
            lambda: bob.create(f"{zookeeper_root}/three"),
        ):
            with pytest.raises(NoAuthError):
                touch()
        assert open_nodes(ours, zookeeper_root) == []
    finally:
        disconnect(alice)
        disconnect(bob)
