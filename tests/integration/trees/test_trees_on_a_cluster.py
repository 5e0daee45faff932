"""Namespaces on a cluster: the ackers that nimbus names, the command line, the pages, and two ackers at once."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator

import pytest

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
