"""kill -9 with TLS and tokens everywhere: what comes back proves itself anew, and nothing is lost."""

import secrets
import time
from pathlib import Path

import pytest
from numbers_topology import History, numbers_topology

from tupletree._security.current import daemon_keyring
from tupletree.cli.main import main
from tupletree.config import defaults
from tupletree.testing import DevCluster, wait_until


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    directory = tmp_path_factory.mktemp("secured") / "tls"
    assert main(["certs", str(directory)]) == 0
    conf = {
        "tls.ca": str(directory / "ca.crt"),
        "tls.cert": str(directory / "cluster.crt"),
        "tls.key": str(directory / "cluster.key"),
        "security.tokens": True,
        "security.secret.file": str(directory / "secret"),
        "zookeeper.auth.user": "tupletree",
        "zookeeper.auth.password": secrets.token_hex(16),
    }
    keyring = daemon_keyring({**defaults(), **conf})
    conf["security.token"] = keyring.issue("operator", "user", roles=frozenset({"submit"}))
    with DevCluster(supervisors=2, slots=2, ackers=2, conf=conf) as running:
        yield running


def test_a_worker_and_an_acker_are_killed(cluster, tmp_path: Path) -> None:
    conf = {
        "topology.workers": 2,
        "topology.acker.executors": 2,
        "topology.message.timeout.secs": 30,
        "topology.max.spout.pending": 200,
    }
    cluster.client.submit("numbers", numbers_topology(tmp_path), conf)
    history = History(tmp_path)
    wait_for_acks(history, 100)
    for role in ("worker", "acker"):
        cluster.kill(role)
        crashed_s = time.time()
        if role == "acker":
            cluster.restart(role)
        wait_until(
            lambda since=crashed_s: sum(at > since for _, at in history.events("ack")) > 100,
            60,
            what=f"acks after the {role} was killed",
        )
    history.stop()
    wait_until(history.is_complete, 60, what="everything is acked")
    history.check()


def wait_for_acks(history, more):
    wanted = len(history.acked()) + more
    wait_until(lambda: len(history.acked()) >= wanted, 60, what=f"{more} more acks")
