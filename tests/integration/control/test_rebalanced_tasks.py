"""The numbers of tasks of a running topology change by a command; states and positions go with them, exactly once."""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from counted_lines import counted_lines

from tests.integration.control.conftest import Console
from tupletree._checkpoints.places import namespace_of
from tupletree._checkpoints.record import Checkpoint, stored_checkpoint
from tupletree._stores.zookeeper_nodes import open_store
from tupletree.client import StateClient
from tupletree.state.providers import open_state
from tupletree.testing import DevCluster, wait_until


def stored(cluster: DevCluster) -> Checkpoint:
    with contextlib.closing(open_store(cluster.conf)) as store:
        return stored_checkpoint(store, "lines")


def counts(conf: Mapping[str, Any], checkpoint: Checkpoint) -> list[Counter[str]]:
    """What the states of the counting tasks hold; reading takes them from their tasks, so once everything has ended."""
    tasks, layout = checkpoint.tasks["count"], checkpoint.layouts.get("count", 0)
    found = []
    for index in range(tasks):
        name = namespace_of("lines", "count", index, tasks, layout)
        _, state = open_state(name, conf, SimpleNamespace(conf=conf))  # type: ignore[arg-type]
        with contextlib.closing(state):
            if checkpoint.phase == "committing" and state.prepared == checkpoint.txid:
                state.commit(checkpoint.txid)
            found.append(Counter(dict(state.items())))
    return found


def write(logs: Path) -> Counter[str]:
    """Append lines to each of five files; return how often each line."""
    written: Counter[str] = Counter()
    for number in range(5):
        lines = [f"{line % 40} of {number}" for line in range(200)]
        with (logs / f"{number}.txt").open("a") as file:
            file.writelines(f"{line}\n" for line in lines)
        written.update(lines)
    return written


def has_all(cluster: DevCluster) -> bool:
    """Whether the spout has read all lines, and all of them are processed."""
    (spout,) = [one for one in cluster.client.describe("lines").components if one.component_id == "lines"]
    said = [one.status for one in spout.statuses if one.status]
    return bool(said) and all((one["lag"], one["outstanding"]) == (0, 0) for one in said)


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    with DevCluster(supervisors=1, slots=3, ackers=1) as running:
        yield running


@pytest.mark.nightly
def test_counts_and_positions_go_on_with_other_tasks(
    cluster: DevCluster, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    console = Console(cluster, capsys)
    logs = tmp_path / "logs"
    logs.mkdir()
    conf = {
        "topology.workers": 2,
        "topology.state.checkpoint.aligned": True,
        "topology.state.checkpoint.interval.ms": 200,
        "topology.message.timeout.secs": 10,
        "topology.state.provider": "sqlite",
        "topology.state.provider.config": {"directory": str(tmp_path / "states")},
    }
    written = write(logs)
    cluster.client.submit("lines", counted_lines(f"{logs}/*.txt"), conf)
    wait_until(lambda: stored(cluster).txid >= 1, 60, what="a checkpoint is stored")

    assert "'total' keeps a state and receives 'lines' by shuffle grouping" in console.refusal(
        "rebalance", "lines", "-t", "total=3"
    )
    assert "'count' can have 1 to 100000 tasks" in console.refusal("rebalance", "lines", "-t", "count=100001")
    assert "--tasks takes COMPONENT=N" in console.refusal("rebalance", "lines", "-t", "count=0")
    before = cluster.client.describe("lines").summary.record
    [shown] = console.json("rebalance", "lines", "-t", "count=5", "-t", "lines=3", "-w", "1")
    assert shown["pending"]["tasks"] == {"count": 5, "lines": 3}
    written += write(logs)
    wait_until(lambda: stored(cluster).tasks == {"count": 5, "lines": 3, "total": 1}, 60, what="the states have moved")
    after = cluster.client.describe("lines").summary.record
    assert (after.tasks["count"], after.executors["count"], after.executors["lines"]) == (5, 5, 3)
    assert after.first_task == 1 + sum(before.tasks.values())
    if sys.platform == "linux":
        cluster.kill("worker", 0)
    written += write(logs)
    console("rebalance", "lines", "-t", "count=1", "-w", "0")
    wait_until(lambda: stored(cluster).tasks["count"] == 1, 60, what="the states have moved again")
    txid = stored(cluster).txid
    wait_until(lambda: stored(cluster).txid > txid + 1 and has_all(cluster), 60, what="all lines are read")
    txid = stored(cluster).txid
    wait_until(lambda: stored(cluster).txid > txid + 1, 30, what="a checkpoint has all of them")
    line = "7 of 3"
    (answer,) = StateClient(cluster.client.seeds).get("lines", "count", line).entries
    assert (answer.key, answer.value, answer.task) == (line, written[line], 0)
    cluster.client.kill("lines", wait_secs=0)
    wait_until(lambda: not [one for one in cluster.processes if one.role == "worker"], 30, what="the workers end")
    assert sum(counts(conf, stored(cluster)), Counter()) == written
    assert len(list((tmp_path / "states").glob("*count*.db"))) == 1, "the states of before are removed"
