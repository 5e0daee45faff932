"""Namespaces on a cluster: the ackers that nimbus names, the command line, the pages, and two ackers at once."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from trees_harness import TreesAcker

from tupletree.errors import NotFoundError, UnavailableError
from tupletree.testing import DevCluster, wait_until
from tupletree.trees import TreeClient

QUOTAS = {"max_open_trees": 5, "timeout_s": 90}


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    with DevCluster(ackers=2, conf={"acker.trees.namespaces": {"orders": QUOTAS, "mail": None}}) as running:
        wait_until(lambda: len(running.client.cluster().ackers) == 2, 20, what="both ackers are registered")
        yield running


def command(cluster: DevCluster, *words: str) -> str:
    seeds = ",".join(cluster.conf["nimbus.seeds"])
    line = [sys.executable, "-m", "tupletree.cli.main", "trees", "--nimbus", seeds, *words]
    return subprocess.run(line, check=True, capture_output=True, text=True, timeout=60).stdout


def test_nimbus_names_the_ackers_and_trees_go_to_each_in_turn(cluster: DevCluster) -> None:
    with (
        TreeClient(namespace="orders", conf=cluster.conf) as ours,
        TreeClient(namespace="orders", conf=cluster.conf) as theirs,
    ):
        trees = [ours.begin() for _ in range(4)]
        tokens = [tree.child() for tree in trees]
        for tree in trees:
            tree.close()
        ours.flush()
        [orders] = [one for one in json.loads(command(cluster, "--json")) if one["name"] == "orders"]
        assert [(one["open_trees"], one["max_open_trees"], one["timeout_s"]) for one in orders["ackers"]] == [
            (2, 5, 90),
            (2, 5, 90),
        ]
        assert (orders["clients"], orders["open_trees"], orders["begun"]) == (4, 4, 4)
        for token in tokens:
            theirs.child(token).ack()
        assert all(tree.wait(10).is_done for tree in trees)
    lines = [line for line in command(cluster).splitlines() if "2" in line]
    assert [line.split()[:2] for line in lines] == [["mail", "2"], ["orders", "2"]]
    assert "1m 30s" in lines[1]


@pytest.fixture
def later(cluster: DevCluster, tmp_path: Path) -> Iterator[TreesAcker]:
    """An acker that joins the cluster."""
    [server] = cluster.conf["zookeeper.servers"]
    place = SimpleNamespace(connect_string=f"{server}:{cluster.conf['zookeeper.port']}")
    with TreesAcker(tmp_path, place, cluster.conf["zookeeper.root"], {"orders": QUOTAS}) as acker:
        yield acker


def is_known(cluster: DevCluster, acker: TreesAcker) -> bool:
    return acker.id in [one.presence.id for one in cluster.client.cluster().ackers]


def is_refused(trees: TreeClient, token: str) -> bool:
    try:
        trees.child(token)
    except UnavailableError:
        return False
    except NotFoundError:
        return True
    raise AssertionError("no acker has this id")


def test_a_client_finds_the_acker_of_a_token_that_has_joined_later(
    cluster: DevCluster, request: pytest.FixtureRequest
) -> None:
    with TreeClient(namespace="orders", conf=cluster.conf) as old:
        later: TreesAcker = request.getfixturevalue("later")
        with TreeClient(later.address, namespace="orders", conf=cluster.conf) as ours:
            tree = ours.begin()
            token = tree.child()
            wait_until(lambda: is_known(cluster, later), 20, what="nimbus knows the acker")
            old.child(token).ack()
            assert tree.wait(10).is_done
        stranger = token.replace(later.id, "acker-0123456789ab")
        wait_until(lambda: is_refused(old, stranger), 10, what="nimbus is asked again")
        with pytest.raises(NotFoundError, match=r"acker acker-0123456789ab of the token has ended"):
            old.child(stranger)


def test_a_client_that_starts_while_an_acker_drains_settles_its_trees(cluster: DevCluster, later: TreesAcker) -> None:
    with TreeClient(later.address, namespace="orders", conf=cluster.conf) as ours:
        tree = ours.begin()
        token = tree.child()
        tree.close()
        ours.flush()
        later.process.send_signal(signal.SIGTERM)
        wait_until(
            lambda: (
                [one.presence.draining for one in cluster.client.cluster().ackers if one.presence.id == later.id]
                == [True]
            ),
            20,
            what="nimbus knows that the acker drains",
        )
        with TreeClient(namespace="orders", conf=cluster.conf) as new:
            new.child(token).ack()
            assert tree.wait(10).is_done
            assert later.process.wait(20) == 0


def test_the_pages_of_nimbus_show_a_namespace_by_its_name(cluster: DevCluster) -> None:
    with TreeClient(namespace="mail", conf=cluster.conf) as trees:
        assert trees.begin().wait(10).is_done
        assert trees.begin().wait(10).is_done
    [http] = {f"{one.presence.host}:{one.presence.http_port}" for one in cluster.client.cluster().nimbuses}

    def roles() -> set[tuple[str, str]]:
        found = set()
        for acker in cluster.client.cluster().ackers:
            with urllib.request.urlopen(f"http://{http}/api/v1/acker/{acker.presence.id}", timeout=10) as page:
                found |= {(one["topologyName"], one["role"]) for one in json.load(page)["shardList"]}
        return found

    wait_until(lambda: ("mail", "namespace") in roles(), 20, what="nimbus has read the ledgers")


def test_a_cluster_without_namespaces_says_so() -> None:
    with DevCluster() as cluster:
        assert command(cluster) == "no namespaces of trees: add one to acker.trees.namespaces\n"
