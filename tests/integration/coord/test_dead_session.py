"""kazoo's connection thread ends on what it cannot encode: nothing of ours gets there, and its end is noticed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgpack
import pytest
from kazoo.client import KazooClient
from kazoo.protocol.serialization import Exists

from tupletree import config
from tupletree._coord.session import Session, connect, disconnect
from tupletree._coord.store import Store
from tupletree._devcluster.zookeeper import EmbeddedZooKeeper
from tupletree._stores.node_encoding import encode_stored
from tupletree._stores.nodes import Create
from tupletree._stores.zookeeper_nodes import ZooKeeperStore, open_store
from tupletree.errors import UsageError
from tupletree.nimbus.web.stored_progress import stored_checkpoints, stored_transactions
from tupletree.testing.wait import wait_until
from tupletree.transactional.layout import epoch_path, progress_path
from tupletree.v1 import topology_pb2 as pb


@pytest.fixture
def conf(zookeeper: EmbeddedZooKeeper, zookeeper_root: str) -> dict[str, Any]:
    return config.defaults() | {
        "zookeeper.servers": [zookeeper.host],
        "zookeeper.port": zookeeper.port,
        "zookeeper.session.timeout": 6000,
        "zookeeper.root": zookeeper_root,
        "transactional.zookeeper.root": f"{zookeeper_root}/progress",
    }


def end_thread(client: KazooClient) -> None:
    """Send what cannot be encoded, as kazoo's own client would."""
    KazooClient._call(client, Exists("/\ud800", None), client.handler.async_result())


@pytest.mark.parametrize("path", ["/\ud800", "/a\x00b", "/a/../b", "/./a", "/\udfff/x", "/a\ud83d"])
def test_a_path_that_is_none_is_refused_where_it_is_used(session: Session, path: str) -> None:
    for ask in (session.get_async, session.exists_async, session.get_children_async, session.sync_async):
        with pytest.raises((UsageError, ValueError)):  # kazoo itself refuses the dots
            ask(path)
    with pytest.raises(UsageError, match=r"transactional\.zookeeper\.root"):
        ZooKeeperStore(session, path)
    with pytest.raises((UsageError, ValueError)):
        ZooKeeperStore(session, "/").get(path)
    assert session.exists("/") is not None


def test_a_version_that_no_request_can_carry_is_refused_where_it_is_used(session: Session) -> None:
    with pytest.raises(UsageError, match="SetData"):
        session.set_async("/absent", b"", version=2**31)
    transaction = session.transaction()
    transaction.check("/absent", 2**31)
    with pytest.raises(UsageError, match="Transaction"):
        transaction.commit_async()
    assert session.exists("/") is not None


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_the_end_of_the_connection_thread_is_told_once_and_that_of_a_stop_is_not(conf: dict[str, Any]) -> None:
    deaths: list[int] = []
    ended, stopped = connect(conf, lambda: deaths.append(1)), connect(conf, lambda: deaths.append(2))
    disconnect(stopped)
    end_thread(ended)
    wait_until(lambda: deaths, what="the end is told")
    disconnect(ended)
    assert deaths == [1]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_store_of_a_topology_goes_on_with_a_new_connection_thread(conf: dict[str, Any]) -> None:
    store = open_store(conf)
    try:
        store.write([Create("/a", b"1")])
        end_thread(store._client)  # type: ignore[attr-defined]

        def answers() -> bool:
            try:
                return store.get("/a") is not None
            except Exception:
                return False

        wait_until(answers, 30, what="the store answers again")
        store.write([Create("/b", b"2")])
        assert store.children("") == ["a", "b"]
    finally:
        store.close()


DAEMON = """
import gc, sys, threading, time
from importlib import import_module
from kazoo.client import KazooClient
from kazoo.protocol.serialization import Exists
from tupletree._coord.session import Session
from tupletree.testing.wait import wait_until

def connected():
    return [one for one in gc.get_objects() if isinstance(one, Session) and one.connected]

def end_thread():
    wait_until(lambda: announced.exists(), 60, what="the daemon serves")
    wait_until(connected, 60, what="the daemon has a session")  # a supervisor serves before it has one
    client = connected()[0]
    KazooClient._call(client, Exists("/\\ud800", None), client.handler.async_result())

import pathlib
announced = pathlib.Path(sys.argv[-1])
threading.Thread(target=end_thread, daemon=True).start()
sys.exit(import_module(sys.argv[1]).main(sys.argv[2:]))
"""


@pytest.mark.parametrize("role", ["acker", "nimbus", "supervisor"])
def test_a_daemon_whose_connection_thread_ends_ends_with_an_error(
    role: str, conf: dict[str, Any], tmp_path: Path
) -> None:
    overrides = {name: conf[name] for name in ("zookeeper.servers", "zookeeper.port", "zookeeper.root")}
    overrides |= {"local.dir": str(tmp_path), f"{role}.port": 0, f"{role}.http.port": 0}
    if role == "supervisor":
        overrides |= {"supervisor.slots.ports": [0]}
    settings = [argument for name, value in overrides.items() for argument in ("-c", f"{name}={json.dumps(value)}")]
    done = subprocess.run(
        [sys.executable, "-c", DAEMON, f"tupletree.{role}.__main__", *settings, "--announce", str(tmp_path / "told")],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 1, done.stderr[-2000:]
    logged = "".join(path.read_text() for path in (tmp_path / "logs").glob(f"{role}*.log"))
    assert "zookeeper.thread_ended" in logged + done.stderr


def record(root: str) -> pb.TopologyRecord:
    return pb.TopologyRecord(id="t-1", conf_json=json.dumps({"transactional.zookeeper.root": root}))


def test_a_page_of_progress_says_what_cannot_be_read_and_shows_the_rest(session: Session, conf: dict[str, Any]) -> None:
    root = conf["transactional.zookeeper.root"]
    states = ZooKeeperStore(session, root)
    epoch = encode_stored("", "me")
    states.write([Create(epoch_path("good"), epoch), Create(progress_path("good"), encode_stored("", 7, None))])
    deep = msgpack.packb([1, 5, msgpack.ExtType(1, b"\x91\x01")])
    states.write([Create(epoch_path("bad"), epoch), Create(progress_path("bad"), deep)])
    found, why_not = stored_transactions(Store(session, "/x"), record(root), ["bad", "good", "../..", "absent"])
    assert found["good"]["committed"] == 7
    assert list(found) == ["good"]
    assert "'bad' cannot be read" in why_not
    assert "'../..' cannot be read" in why_not
    found, why_not = stored_checkpoints(Store(session, "/x"), record(root), ["..", "a\ud800", "a\x00"])
    assert (found, why_not.count("cannot be read")) == ({}, 3)


@pytest.mark.parametrize("root", ["/\ud800", "/a/../../tupletree", "/a\x00"])
def test_a_page_of_progress_below_what_is_no_path_says_so(session: Session, root: str) -> None:
    for read in (stored_transactions, stored_checkpoints):
        found, why_not = read(Store(session, "/x"), record(root), ["a"])
        assert (found, "transactional.zookeeper.root" in why_not) == ({}, True)
    assert session.exists("/") is not None
