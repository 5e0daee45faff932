"""Hooks of workers and tasks on a cluster, beside samples and traces, which exchange the same parts of a task."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import hooked_topology
import pytest

from tupletree.testing import DevCluster, wait_until

PATIENCE_S = 60
WANTED = hooked_topology.WANTED
CONF = {"topology.workers": 2, "topology.auto.task.hooks": ["hooked_topology:Sums"]}


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    with DevCluster(slots=2) as running:
        yield running


def counts(cluster: DevCluster) -> dict[tuple[str, str], float]:
    """The sums of the hooks' counters, by component and name."""
    found: dict[tuple[str, str], float] = {}
    for port in [one.http_port for one in cluster.processes if one.role == "worker" and one.http_port]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as reply:
                page = reply.read().decode()
        except OSError:
            continue
        for name, component, value in re.findall(r'user_hook_(\w+)_total\{component="(\w+)".*\} (\S+)', page):
            found[component, name] = found.get((component, name), 0.0) + float(value)
    return {key: value for key, value in found.items() if value}


@pytest.mark.nightly
def test_hooks_see_every_tuple_of_every_worker(cluster: DevCluster, tmp_path: Path) -> None:
    topology = hooked_topology.topology(str(tmp_path))
    cluster.client.submit("hooked", topology, CONF, [Path(hooked_topology.__file__)])
    expected = {
        ("numbers", "emits"): WANTED,
        ("numbers", "targets"): WANTED,
        ("numbers", "spout_acks"): WANTED - 1,
        ("numbers", "spout_fails"): 1,
        ("forward", "emits"): WANTED,
        ("forward", "targets"): 2 * WANTED,
        ("forward", "executions"): WANTED,
        ("forward", "acks"): WANTED - 1,
        ("forward", "fails"): 1,
        ("sink", "executions"): 2 * WANTED,
        ("sink", "acks"): 2 * WANTED,
    }
    wait_until(lambda: counts(cluster) == expected, PATIENCE_S, what="all events were seen")

    def errors() -> str:
        return str([one.message for one in cluster.client.describe("hooked").errors])

    wait_until(lambda: "hook saw message 7 fail" in errors(), PATIENCE_S, what="the error of the hook is shown")
    marks = sorted(tmp_path.glob("worker-*"))
    assert sorted(mark.read_text() for mark in marks) == ["start 2\n", "start 3\n"]
    cluster.client.kill("hooked", 0)
    wait_until(
        lambda: all("shutdown\n" in mark.read_text() for mark in marks), PATIENCE_S, what="the hooks are shut down"
    )


@pytest.mark.nightly
def test_a_worker_whose_hook_does_not_start_says_so_and_is_started_again(cluster: DevCluster, tmp_path: Path) -> None:
    wait_until(lambda: not cluster.client.list(), PATIENCE_S, what="the topology before is gone")
    (tmp_path / "broken").touch()
    topology = hooked_topology.topology(str(tmp_path))
    cluster.client.submit("broken", topology, {"topology.workers": 1}, [Path(hooked_topology.__file__)])

    def errors() -> str:
        return str([one.message for one in cluster.client.describe("broken").errors])

    sentence = "worker hook Marks cannot start: ValueError: the file 'broken' is there"
    wait_until(lambda: sentence in errors(), PATIENCE_S, what="the error is shown")
    (tmp_path / "broken").unlink()
    wait_until(lambda: list(tmp_path.glob("worker-*")), PATIENCE_S, what="the worker is started again")
    cluster.client.kill("broken", 0)


def test_event_loggers_get_the_sampled_tuples_of_their_worker(cluster: DevCluster, tmp_path: Path) -> None:
    wait_until(lambda: not cluster.client.list(), PATIENCE_S, what="the topology before is gone")
    conf = {
        "topology.workers": 2,
        "topology.event.logger.register": ["hooked_topology:Lines"],
        "logger.directory": str(tmp_path),
    }
    topology = hooked_topology.topology(str(tmp_path))
    cluster.client.submit("logged", topology, conf, [Path(hooked_topology.__file__)], inactive=True)
    wait_until(lambda: len(list(tmp_path.glob("worker-*"))) == 2, PATIENCE_S, what="both workers run")
    assert not list(tmp_path.glob("tuples-*")), "no logger is prepared before tuples are sampled"
    cluster.client.set_sampling("logged", "", 100)
    wait_until(lambda: len(list(tmp_path.glob("tuples-*"))) == 2, PATIENCE_S, what="both workers sample")
    cluster.client.activate("logged")

    def lines() -> list[str]:
        return [line for path in tmp_path.glob("tuples-*") for line in path.read_text().splitlines()]

    numbers = [n for n in range(WANTED) if n != 7]
    expected = [*(("forward", [n], None) for n in numbers), *(("numbers", [n], n) for n in numbers)]

    def seen() -> list[tuple[str, list[int], int | None]]:
        tuples = [json.loads(line) for line in lines() if line.endswith("}")]
        return sorted((one["component_id"], one["values"], one["message_id"]) for one in tuples)

    wait_until(lambda: seen() == expected, PATIENCE_S, what="each tuple but number 7 is logged once")

    def errors() -> str:
        return str([(one.component_id, one.message) for one in cluster.client.describe("logged").errors])

    said = "event logger Lines failed: ValueError: no number 7"
    wait_until(lambda: said in errors(), PATIENCE_S, what="the error of the logger is shown")
    first = json.loads(lines()[0])
    assert first["stream"] == "default" and first["task_id"] and first["target_tasks"] and first["at_unix_s"] > 0
    cluster.client.kill("logged", 0)
    wait_until(lambda: lines().count("closed") == 2, PATIENCE_S, what="the loggers are closed")
