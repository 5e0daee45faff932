"""The configuration of a running topology: changed live, with a restart, refused, and kept through crashes."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from examples.word_count import topology
from tests.integration.control.conftest import Console
from tupletree.testing import DevCluster, wait_until

pytestmark = pytest.mark.nightly

ROOT = Path(__file__).resolve().parents[3]
PENDING = "topology.max.spout.pending"
SHARDS = "topology.acker.executors"
TIMEOUT = "topology.message.timeout.secs"


def pids(cluster: DevCluster) -> list[int]:
    return sorted(worker.pid for worker in cluster.client.describe("words").workers)


def pending(cluster: DevCluster) -> int:
    """The pending trees of all spout tasks; -1 while there are none, as in a topology that has just started."""
    components = cluster.client.describe("words").components
    return sum(one.total.pending for one in components if one.kind == "spout") or -1


def is_limited(cluster: DevCluster, limit: int) -> bool:
    """True if the two spout tasks have at most so many pending trees each, and more than a tenth of that."""
    return 2 * limit / 10 < pending(cluster) <= 2 * limit


def runs_anew(cluster: DevCluster, before: list[int]) -> bool:
    summary, now = cluster.client.describe("words").summary, pids(cluster)
    is_back = summary.record.status == "active" and summary.workers_ready == 2
    return is_back and len(now) == 2 and not set(now) & set(before)


def test_a_live_key_changes_what_spouts_do_and_no_worker_is_restarted(console: Console) -> None:
    before = pids(console.cluster)
    wait_until(lambda: pending(console.cluster) > 100, 60, what="the spouts have many pending trees")
    said = console("config", "set", "words", f"{PENDING}=5")
    assert said == f"{PENDING} is 5: running workers adopt it\n"
    wait_until(lambda: is_limited(console.cluster, 5), 60, what="the limit holds")
    assert console.json("config", "get", "words", PENDING) == {
        "key": PENDING, "value": 5, "source": "changed", "changes": "live", "submitted": 200,
    }  # fmt: skip
    assert f"{PENDING} is 5, 200 at submission" in console("describe", "words")
    assert console("config", "set", "words", f"{PENDING}=5").startswith(f"{PENDING} is 5")
    assert console("config", "unset", "words", PENDING) == f"{PENDING} is 200, as at submission\n"
    wait_until(lambda: pending(console.cluster) > 100, 60, what="the submitted limit holds again")
    assert pids(console.cluster) == before
    [found] = [one for one in console.json("config", "get", "words") if one["key"] == PENDING]
    assert found == {"key": PENDING, "value": 200, "source": "submission", "changes": "live"}
    assert console.json("describe", "words")["changed_conf"] == []


def test_another_key_restarts_the_workers_where_they_are(console: Console) -> None:
    cluster, before = console.cluster, pids(console.cluster)
    places = [(one.host, one.port) for one in cluster.client.describe("words").assignment.workers]
    changed = console.json("config", "set", "words", f"{TIMEOUT}=25", f"{PENDING}=6", "--wait", "20")
    assert changed["status"] == "rebalancing"
    assert [(one["key"], one["value"], one.get("pending")) for one in changed["settings"]] == [
        (TIMEOUT, 30, 25),
        (PENDING, 6, None),
    ]
    wait_until(lambda: runs_anew(cluster, before), 90, what="the workers run anew")
    assert [(one.host, one.port) for one in cluster.client.describe("words").assignment.workers] == places
    assert console("config", "get", "words", TIMEOUT) == "25\n"
    wait_until(lambda: is_limited(cluster, 6), 60, what="new workers follow what was changed live")
    table = console("config", "get", "words")
    assert f"{TIMEOUT} " in table and "25 (was 30)" in table and "restart" in table
    between = pids(cluster)
    said = console("config", "unset", "words", TIMEOUT, PENDING)
    assert f"{TIMEOUT} will be 30 when the workers are restarted" in said
    wait_until(lambda: runs_anew(cluster, between), 90, what="the workers run with the submission's configuration")
    assert cluster.client.describe("words").summary.record.submitted_conf == {}


def test_another_number_of_shards_is_used_by_all_workers_after_their_restart(console: Console) -> None:
    cluster, before = console.cluster, pids(console.cluster)

    def completed() -> dict[int, int]:
        ledgers = [cluster.client.ledger(one.presence.address) for one in cluster.client.cluster().ackers]
        return {one.shard: one.completed for ledger in ledgers for one in ledger.shards}

    console("config", "set", "words", f"{SHARDS}=5", "--wait", "20")
    wait_until(lambda: runs_anew(cluster, before), 90, what="the workers run anew")
    assert cluster.client.describe("words").summary.record.acker_shards == 5
    wait_until(lambda: completed().keys() == set(range(5)) and all(completed().values()), 60, what="each has trees")
    between = pids(cluster)
    console("config", "unset", "words", SHARDS, "--wait", "20")
    wait_until(lambda: runs_anew(cluster, between), 90, what="the workers run anew")
    assert cluster.client.describe("words").summary.record.acker_shards == 2
    seen = completed()
    wait_until(lambda: all(completed()[one] > seen[one] for one in (0, 1)), 60, what="both that are left have trees")


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["set", "words", f"{SHARDS}=0"], f"tracks its tuples, and {SHARDS} 0 would go on without ackers"),
        (["set", "words", f"{PENDING}x=5"], f"did you mean '{PENDING}'"),
        (["set", "words", f"{PENDING}=none"], "takes a whole number of at least 1"),
        (["set", "words", f"{PENDING}=5", "topology.tasks=3"], "cannot be changed in a running topology"),
        (["set", "words", "nimbus.seeds=a"], "belongs to the cluster"),
        (["set", "words", PENDING], "must look like key=value"),
        (["set", "nope", f"{PENDING}=5"], "nope"),
        (["unset", "words", "topology.state.id"], "cannot be changed in a running topology"),
        (["unset", "words", "topology.stat.id"], "did you mean 'topology.state.id'"),
        (["get", "words", "topology.stat.id"], "did you mean 'topology.state.id'"),
        (["get", "words", "my.key"], "has no configuration key 'my.key'"),
        (["get", "words", PENDING, "more"], "not 3 arguments"),
        (["get", "nope"], "nope"),
    ],
)
def test_wrong_keys_values_and_names_get_a_sentence_and_change_nothing(
    console: Console, argv: list[str], sentence: str
) -> None:
    before = console.cluster.client.describe("words").summary.record
    assert sentence in console.refusal("config", *argv)
    assert console.cluster.client.describe("words").summary.record == before


def test_a_single_argument_with_a_dot_is_a_key_of_this_machine_or_of_nimbus(console: Console) -> None:
    assert console("config", "get", PENDING, "--remote") == "null\n"


@pytest.fixture
def two_nimbuses() -> Iterator[DevCluster]:
    with DevCluster(supervisors=1, slots=2, ackers=1, nimbuses=2) as cluster:
        conf: dict[str, Any] = {"topology.workers": 2, PENDING: 200}
        with tempfile.TemporaryDirectory() as place:
            cluster.client.submit("words", topology(1_000_000_000, place), conf, code=[ROOT / "examples"])
            wait_until(lambda: cluster.client.describe("words").summary.workers_ready == 2, 90)
            yield cluster


def test_changes_outlive_the_leader_and_the_workers(two_nimbuses: DevCluster) -> None:
    cluster = two_nimbuses
    cluster.client.set_conf("words", {PENDING: 5})
    before = pids(cluster)
    leader = cluster.client.leader()
    grpc_ports = [one.grpc_port for one in cluster.processes if one.role == "nimbus"]
    at = grpc_ports.index(int(leader.rpartition(":")[2]))
    waits = cluster.client.set_conf("words", {TIMEOUT: 45, "my.key": [1]}, wait_secs=60)
    assert waits.status == "rebalancing"
    cluster.kill("nimbus", at)  # at any moment of the restart: the next leader completes it
    wait_until(lambda: runs_anew(cluster, before), 120, what="the next leader restarts the workers")
    assert cluster.client.leader() != leader
    cluster.kill("worker", 0)
    cluster.restart("worker", 0)
    wait_until(lambda: cluster.client.describe("words").summary.workers_ready == 2, 90)
    wait_until(lambda: is_limited(cluster, 5), 60, what="all workers follow what was changed")
    record = cluster.client.describe("words").summary.record
    assert (record.conf[PENDING], record.conf[TIMEOUT], record.conf["my.key"]) == (5, 45, [1])
    assert {name: json.loads(text or "0") for name, text in record.submitted_conf.items()} == {
        PENDING: 200,
        TIMEOUT: 30,
        "my.key": 0,
    }
