"""TLS to ZooKeeper: a real server with a secure port, whom its clients trust, and the sentences of refusals."""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from examples import stateful_words
from tupletree._coord.session import connect, disconnect
from tupletree._devcluster.zookeeper import EmbeddedZooKeeper
from tupletree._security.authority import Authority
from tupletree._security.tls import Tls
from tupletree.cli.main import main
from tupletree.client import StateClient
from tupletree.config import defaults
from tupletree.errors import ConfigError, NotFoundError, UnavailableError, UsageError
from tupletree.testing import DevCluster, wait_until

pytestmark = pytest.mark.nightly


def files(directory: Path, name: str = "client") -> dict[str, Any]:
    """The configuration of a process that shows this certificate of the authority in ``directory``."""
    ends = {"ca": "ca.crt", "cert": f"{name}.crt", "key": f"{name}.key"}
    return {f"zookeeper.tls.{key}": str(directory / file) for key, file in ends.items()}


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("ours")
    Authority(directory).prepare([], 90, False)
    return directory


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another authority, which signs for the same hosts."""
    directory = tmp_path_factory.mktemp("foreign")
    Authority(directory).prepare([], 90, False)
    return directory


@pytest.fixture(scope="module")
def server(ours: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    tls = Tls.from_conf(files(ours, "cluster"), "zookeeper.tls")
    with EmbeddedZooKeeper(tmp_path_factory.mktemp("zookeeper"), durable=False, tls=tls) as running:
        yield running


def conf(server: EmbeddedZooKeeper, **changes: Any) -> dict[str, Any]:
    where = {"zookeeper.servers": [server.host], "zookeeper.port": server.port, "zookeeper.connection.timeout": 10_000}
    return {**defaults(), **where, **changes}


def refused(server: EmbeddedZooKeeper, changes: dict[str, Any]) -> str:
    """The sentence with which a connection ends."""
    with pytest.raises(UnavailableError) as caught:
        connect(conf(server, **{"zookeeper.connection.timeout": 1500, **changes}))
    return str(caught.value)


def test_a_client_of_the_authority_writes_and_reads(server: EmbeddedZooKeeper, ours: Path, zookeeper_root: str) -> None:
    for address in (server.host, "localhost"):
        client = connect(conf(server, **files(ours), **{"zookeeper.servers": [address]}))
        try:
            client.ensure_path(zookeeper_root)
            client.create(f"{zookeeper_root}/{address}", b"x" * 500_000)
            assert client.get(f"{zookeeper_root}/{address}")[0] == b"x" * 500_000
            assert client.refusal == ""
        finally:
            disconnect(client)


def test_a_server_of_another_authority_is_refused(server: EmbeddedZooKeeper, foreign: Path) -> None:
    sentence = refused(server, files(foreign))
    assert f"the certificate of {server.host}:{server.port} is refused: " in sentence
    assert sentence.endswith("(zookeeper.tls.ca)")


def test_a_server_under_a_name_that_is_not_in_its_certificate_is_refused(server: EmbeddedZooKeeper, ours: Path) -> None:
    other_name = "127.0.0.2"  # also this machine
    tls = Tls.from_conf(files(ours, "cluster"), "zookeeper.tls")
    with EmbeddedZooKeeper(Path(server.data_dir, "other"), host=other_name, durable=False, tls=tls) as other:
        assert f"the certificate of {other_name}:{other.port} is refused: IP address mismatch" in refused(
            other, files(ours)
        )


def test_a_client_of_another_authority_or_without_a_certificate_is_refused(
    server: EmbeddedZooKeeper, ours: Path, foreign: Path, tmp_path: Path
) -> None:
    mixed = {**files(foreign), "zookeeper.tls.ca": str(ours / "ca.crt")}
    without = {"zookeeper.tls.ca": str(ours / "ca.crt")}
    for changes in (mixed, without):
        assert "it closes connections after the TLS handshake" in refused(server, changes)


def test_a_client_without_tls_learns_that_the_server_may_expect_it(server: EmbeddedZooKeeper) -> None:
    assert "it closes connections without an answer" in refused(server, {})
    assert refused(server, {}).endswith("or it expects TLS (zookeeper.tls.ca)")


def test_a_client_with_tls_learns_that_the_port_has_none(zookeeper: EmbeddedZooKeeper, ours: Path) -> None:
    assert "is the port its secureClientPort?" in refused(zookeeper, files(ours))


def test_an_expired_certificate_is_refused_and_a_renewed_one_counts(
    ours: Path, tmp_path: Path, zookeeper_root: str
) -> None:
    theirs = tmp_path / "tls"
    shutil.copytree(ours, theirs)
    Authority(theirs).prepare([], 0, True)  # signed to end at once
    tls = Tls.from_conf(files(theirs, "cluster"), "zookeeper.tls")
    server = EmbeddedZooKeeper(tmp_path / "data", durable=False, tls=tls)
    try:
        server.launch()
        wait_until(lambda: is_listening(server), 30, what="it listens")
        assert "is refused: certificate has expired" in refused(server, files(theirs))
        Authority(theirs).prepare([], 90, True)
        server.restart()
        client = connect(conf(server, **files(theirs)))
        client.create(zookeeper_root)
        disconnect(client)
    finally:
        server.stop()


def test_an_open_client_shows_its_renewed_certificate_when_it_reconnects(
    ours: Path, tmp_path: Path, zookeeper_root: str
) -> None:
    theirs = tmp_path / "tls"
    shutil.copytree(ours, theirs)
    server = EmbeddedZooKeeper(
        tmp_path / "data", durable=False, tls=Tls.from_conf(files(ours, "cluster"), "zookeeper.tls")
    )
    with server:
        client = connect(conf(server, **files(theirs)))
        Authority(theirs).prepare([], 90, True)
        (theirs / "ca.crt").write_bytes(b"no certificate")
        server.restart()
        wait_until(lambda: "holds no certificate" in client.refusal, 30, what="a broken file is reported")
        shutil.copy(ours / "ca.crt", theirs / "ca.crt")
        wait_until(lambda: client.connected and client.refusal == "", 30, what="it is connected again")
        client.create(zookeeper_root)
        disconnect(client)


def is_listening(server: EmbeddedZooKeeper) -> bool:
    try:
        socket.create_connection((server.host, server.port), 1).close()
    except OSError:
        return False
    return True


@pytest.mark.parametrize("lacks", ["zookeeper.tls.cert", "zookeeper.tls.key"])
def test_half_a_certificate_is_a_mistake(server: EmbeddedZooKeeper, ours: Path, lacks: str) -> None:
    with pytest.raises(ConfigError, match=r"zookeeper\.tls\.cert and zookeeper\.tls\.key must be set together"):
        connect(conf(server, **{**files(ours), lacks: None}))


def test_a_key_without_an_authority_is_a_mistake(server: EmbeddedZooKeeper, ours: Path) -> None:
    with pytest.raises(ConfigError, match=r"need zookeeper\.tls\.ca"):
        connect(conf(server, **{**files(ours), "zookeeper.tls.ca": None}))


def test_the_doctor_connects_over_tls(
    server: EmbeddedZooKeeper, ours: Path, foreign: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = {}
    missing = {"zookeeper.tls.ca": str(tmp_path / "away")}
    for name, changes in {"ours": files(ours), "foreign": files(foreign), "missing": missing}.items():
        path = tmp_path / f"{name}.yaml"
        path.write_text(json.dumps({"zookeeper.servers": [server.connect_string], **changes}))
        main(["doctor", "--conf", str(path), "--json"])
        findings = json.loads(capsys.readouterr().out)["findings"]
        found[name] = next(one for one in findings if one["subject"] == "zookeeper")
    assert found["ours"]["level"] == "ok"
    assert found["foreign"]["level"] == found["missing"]["level"] == "problem"
    assert "is refused: " in found["foreign"]["sentence"]
    assert "cannot read the file" in found["missing"]["sentence"]


def test_a_server_needs_a_certificate(ours: Path, tmp_path: Path) -> None:
    tls = Tls.from_conf({"zookeeper.tls.ca": str(ours / "ca.crt")}, "zookeeper.tls")
    with pytest.raises(UsageError, match=r"also needs zookeeper\.tls\.cert and zookeeper\.tls\.key"):
        EmbeddedZooKeeper(tmp_path, tls=tls).launch()


def test_a_whole_cluster_and_its_states_use_tls(ours: Path) -> None:
    own = {"topology.state.provider": "zookeeper", "topology.state.checkpoint.interval.ms": 200}
    with DevCluster(conf={**files(ours, "cluster"), **own}) as cluster:
        cluster.client.submit("words", stateful_words.topology(2_000))
        states = StateClient(conf=cluster.conf)

        def is_committed() -> bool:
            with suppress(UnavailableError, NotFoundError):  # the worker starts
                return bool(states.get("words", "count", "the").entries)
            return False

        wait_until(is_committed, 60, what="a state is committed")
