"""The embedded ZooKeeper: the real server, killed and restarted."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest
from kazoo.client import KazooClient

from tupletree._devcluster import prepare
from tupletree._devcluster.zookeeper import EmbeddedZooKeeper, class_archive
from tupletree._net import bind
from tupletree.errors import UsageError
from tupletree.testing.wait import wait_until


def test_what_was_written_survives_kill_9(zookeeper: EmbeddedZooKeeper, zookeeper_root: str) -> None:
    client = KazooClient(zookeeper.connect_string, timeout=10)
    client.start(timeout=10)
    try:
        client.create(zookeeper_root, b"kept")
        process, port = zookeeper.process, zookeeper.port
        zookeeper.kill()
        assert not zookeeper.running
        zookeeper.start()
        assert zookeeper.process is not process
        assert zookeeper.port == port
        wait_until(lambda: client.connected, 20)
        assert client.retry(client.get, zookeeper_root)[0] == b"kept"
    finally:
        client.stop()
        client.close()


CLIENT = """
import sys, time
from kazoo.client import KazooClient
client = KazooClient(sys.argv[1], timeout=1)
client.start()
client.create(sys.argv[2], ephemeral=True)
print("created", flush=True)
time.sleep(600)
"""


def test_a_short_session_ends_soon_after_its_client(zookeeper: EmbeddedZooKeeper, zookeeper_root: str) -> None:
    observer = KazooClient(zookeeper.connect_string, timeout=10)
    observer.start(timeout=10)
    command = [sys.executable, "-c", CLIENT, zookeeper.connect_string, zookeeper_root]
    client = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert client.stdout is not None
        assert client.stdout.readline() == b"created\n"
        client.kill()
        assert observer.exists(zookeeper_root)
        wait_until(lambda: observer.exists(zookeeper_root) is None, 15)
    finally:
        client.kill()
        client.communicate()
        observer.stop()
        observer.close()


def test_a_port_in_use_is_one_sentence(tmp_path: pathlib.Path) -> None:
    with bind("127.0.0.1", 0) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"^port {port} on 127.0.0.1 is in use$"):
            EmbeddedZooKeeper(tmp_path, port).start()


def test_a_data_directory_that_cannot_be_written_is_one_sentence(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"^cannot write ZooKeeper's data directory .*/file/data: Not a directory$"):
        EmbeddedZooKeeper(tmp_path / "file" / "data").start()


def test_the_jvm_has_mapped_the_archive_of_classes(zookeeper: EmbeddedZooKeeper) -> None:
    assert str(class_archive()) in pathlib.Path(f"/proc/{zookeeper.pid}/maps").read_text()


def test_the_archive_is_made_once(capfd: pytest.CaptureFixture[str]) -> None:
    made = class_archive().stat()
    assert prepare.main() == 0
    assert class_archive().stat() == made
    assert capfd.readouterr() == ("", "")


@pytest.mark.nightly
def test_an_archive_that_no_jvm_can_use_is_ignored(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "environment"))
    class_archive().parent.mkdir(parents=True)
    class_archive().write_bytes(b"neither classes nor an archive")
    with EmbeddedZooKeeper(tmp_path / "data", durable=False) as server:
        assert server.answers()
    assert "archive" not in pathlib.Path(server.log_path).read_text().lower()
