"""A busy bolt gets more executors by itself, loses them when it has nothing to do, and counts every line once."""

from __future__ import annotations

import json
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from slow_lines import slow_lines

from tests.integration.control.conftest import Console
from tupletree.client import StateClient, TopologyRecord
from tupletree.errors import UnavailableError, UsageError
from tupletree.testing import DevCluster, wait_until

pytestmark = pytest.mark.nightly

BOUNDS = {"count": {"min": 1, "max": 3}}


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    with DevCluster(supervisors=1, slots=2, ackers=1, nimbuses=2) as running:
        yield running


def conf_of(states: Path, **changes: Any) -> dict[str, Any]:
    return {
        "topology.state.checkpoint.aligned": True,
        "topology.state.checkpoint.interval.ms": 200,
        "topology.message.timeout.secs": 10,
        "topology.max.spout.pending": 50,
        "topology.state.provider": "sqlite",
        "topology.state.provider.config": {"directory": str(states)},
        "topology.autoscale": BOUNDS,
        "topology.autoscale.up.secs": 5,
        "topology.autoscale.down.secs": 10,
        "topology.autoscale.cooldown.secs": 2,
        **changes,
    }


def write(logs: Path, lines: int) -> Counter[str]:
    logs.mkdir()
    written = [f"{line % 40} of many" for line in range(lines)]
    (logs / "0.txt").write_text("".join(f"{line}\n" for line in written))
    return Counter(written)


def record(cluster: DevCluster) -> TopologyRecord:
    return cluster.client.describe("lines").summary.record


def page(cluster: DevCluster, path: str) -> bytes:
    port = next(one.http_port for one in cluster.processes if one.role == "nimbus")
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=20) as reply:
        return bytes(reply.read())


def counted(cluster: DevCluster) -> Counter[str]:
    """The committed counts; none while workers are replaced."""
    try:
        answer = StateClient(cluster.client.seeds).scan("lines", "count", limit=1000)
    except UnavailableError:
        return Counter()
    return Counter({one.key: one.value for one in answer.entries})


def test_what_cannot_be_scaled_is_refused_at_submission(cluster: DevCluster, tmp_path: Path) -> None:
    def refusal(bounds: Any, **changes: Any) -> str:
        conf = conf_of(tmp_path, **{"topology.autoscale": bounds, **changes})
        with pytest.raises(UsageError) as caught:
            cluster.client.submit("lines", slow_lines(f"{tmp_path}/*.txt"), conf)
        return str(caught.value)

    assert "'cuont', which is no bolt of the topology: it has count" in refusal({"cuont": {"min": 1, "max": 2}})
    assert "names the spout 'lines', but it is for bolts" in refusal({"lines": {"min": 1, "max": 2}})
    assert "permits 5 executors of component 'count', which has 4 tasks" in refusal({"count": {"min": 1, "max": 5}})
    assert "has 1 executors, which is not within its bounds" in refusal({"count": {"min": 2, "max": 4}})
    assert "has min 3, which is more than its max 2: exchange them" in refusal({"count": {"min": 3, "max": 2}})
    assert "takes {min: 2, max: 8}" in refusal({"count": 5})
    assert "more than topology.autoscale.max.workers, which is 1" in refusal(
        BOUNDS, **{"topology.workers": 2, "topology.autoscale.max.workers": 1}
    )
    memory = refusal(BOUNDS, **{"topology.state.provider": None, "topology.state.provider.config": None})
    assert "keeps its state in the memory of its workers, which topology.autoscale replaces" in memory


def test_a_busy_bolt_is_scaled_up_and_an_idle_one_down(
    cluster: DevCluster, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    console, written = Console(cluster, capsys), write(tmp_path / "logs", 2500)
    console.seed = ",".join(cluster.client.seeds)
    cluster.client.submit("lines", slow_lines(f"{tmp_path}/logs/*.txt"), conf_of(tmp_path / "states"))

    wait_until(lambda: record(cluster).executors["count"] > 1, 60, what="the busy bolt gets executors")
    last = record(cluster).autoscaled
    assert last is not None
    assert (last.component, last.executors_before, last.executors) == ("count", 1, 2)
    assert "its busiest thread was busy for" in last.reason
    assert "scaled by its load at" in console("describe", "lines")
    wait_until(lambda: record(cluster).status == "active", 30)
    leader = next(
        index
        for index, one in enumerate(one for one in cluster.processes if one.role == "nimbus")
        if one.grpc_port == int(cluster.client.leader().rpartition(":")[2])
    )
    cluster.kill("nimbus", leader)  # the next leader neither forgets nor repeats the change
    assert record(cluster).autoscaled == last

    wait_until(lambda: counted(cluster) == written, 90, what="each line is counted once")
    wait_until(lambda: record(cluster).executors["count"] == 1, 90, what="the idle bolt loses its executors")
    wait_until(lambda: counted(cluster) == written, 60, what="the counts are there again")
    down = record(cluster).autoscaled
    assert down is not None and down.reason.startswith("at no time of the last 10 s did its work fill half of")

    console("rebalance", "lines", "-e", "count=4", "-w", "0")
    wait_until(lambda: "outside 1 to 3" in console("autoscale", "lines"), 60, what="a user's number is left alone")
    shown = console.json("autoscale", "lines")
    assert [(one["executors"], one["wanted"]) for one in shown["components"]] == [(4, 4)]
    assert shown["last"]["executors"] == 1
    found = json.loads(page(cluster, f"/api/v1/topology/{record(cluster).id}/autoscale"))
    assert (found["wantedWorkers"], found["components"]["count"]["wantedExecutors"]) == (1, 4)
    assert found["last"]["executors"] == 1
    metrics = page(cluster, "/metrics").decode()
    assert 'tupletree_nimbus_autoscale_wanted_executors{component="count",topology="lines"} 4.0' in metrics
    assert 'tupletree_nimbus_autoscale_changes_total{direction="down"}' in metrics

    refused = console.refusal("config", "set", "lines", 'topology.autoscale={"count": {"min": 1, "max": 9}}')
    assert "permits 9 executors of component 'count', which has 4 tasks" in refused
    console("config", "set", "lines", "topology.autoscale={}")
    assert "nothing is changed: the topology has no topology.autoscale" in console("autoscale", "lines")
    console("deactivate", "lines")
    console("config", "set", "lines", 'topology.autoscale={"count": {"min": 1, "max": 4}}')
    wait_until(lambda: "its spouts are deactivated" in console("autoscale", "lines"), 30)
