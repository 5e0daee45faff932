"""What commands say when a worker was killed, and when the supervisor of some workers is away."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from examples.word_count import topology
from tupletree.cli.main import main
from tupletree.testing import DevCluster, wait_until

pytestmark = pytest.mark.nightly

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def two_machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    """A topology with one worker at each of two supervisors."""
    with DevCluster(supervisors=2, slots=1) as cluster:
        conf = {"topology.workers": 2, "topology.max.spout.pending": 100}
        place = str(tmp_path_factory.mktemp("words"))
        cluster.client.submit("words", topology(1_000_000_000, place), conf, code=[ROOT / "examples"])
        wait_until(lambda: cluster.client.describe("words").summary.workers_ready == 2, 90)
        yield cluster


def run(cluster: DevCluster, capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    capsys.readouterr()
    status = main([*argv, "--nimbus", cluster.client.seeds[0]])
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def shown(out: str) -> set[str]:
    """The workers whose files or lines are shown; a line may speak of others, too."""
    if out.startswith("["):
        return {one["worker"] for one in json.loads(out)}
    return {line.split()[0] for line in out.splitlines()}


def test_a_killed_worker_is_among_the_errors(two_machines: DevCluster, capsys: pytest.CaptureFixture[str]) -> None:
    victim: Any = two_machines.client.describe("words").workers[0]
    os.kill(victim.pid, signal.SIGKILL)

    def said() -> bool:
        status, out, _ = run(two_machines, capsys, "errors", "words")
        assert status == 0
        return f"the worker on port {victim.port} died: killed by SIGKILL" in out

    wait_until(said, 60)
    wait_until(lambda: two_machines.client.describe("words").summary.workers_ready == 2, 90)


def test_logs_are_shown_though_one_supervisor_is_away(
    two_machines: DevCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    addresses = {f"{one.host}:{one.port}" for one in two_machines.client.describe("words").workers}
    two_machines.kill("supervisor", 0)
    try:
        for command in (["-n", "1"], ["--list", "--json"], ["--search", "worker.ready"]):
            status, out, err = run(two_machines, capsys, "logs", "words", *command)
            assert status == 0
            assert err.startswith("tupletree: some workers are missing: supervisor at ")
            assert err.count("\n") == 1
            assert len(shown(out)) == 1 and shown(out) < addresses, (command, out)
        (away,) = addresses - shown(out)
        status, out, err = run(two_machines, capsys, "logs", "words", "--worker", away.rpartition(":")[2])
        assert (status, out) == (1, "")
        assert "cannot be reached" in err
        status, out, err = run(two_machines, capsys, "logs", "words", "--past")
        assert (status, out) == (1, "")  # whether it has any is not known
        assert "cannot be reached" in err
    finally:
        two_machines.restart("supervisor", 0)
    status, out, err = run(two_machines, capsys, "logs", "words", "--list", "--json")
    assert (status, err) == (0, "")
    assert shown(out) == addresses
