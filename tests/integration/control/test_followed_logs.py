"""Logs that are followed while a machine is away."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest

from examples.word_count import topology
from tests.integration.control.conftest import ROOT
from tupletree.testing import DevCluster, wait_until

ENDS = 2


@pytest.mark.long
def test_a_worker_whose_supervisor_comes_back_is_followed_from_its_last_lines(tmp_path: Path) -> None:
    with DevCluster(supervisors=2, slots=1, ackers=1) as cluster:
        conf = {"topology.workers": 2, "topology.max.spout.pending": 200}
        cluster.client.submit("words", topology(1_000_000_000, str(tmp_path)), conf, code=[ROOT / "examples"])
        wait_until(lambda: cluster.client.describe("words").summary.workers_ready == 2, 90)
        [seed] = cluster.client.seeds
        logs = [sys.executable, "-m", "tupletree", "logs", "words", "--json", "--nimbus", seed]
        written = _by_worker(subprocess.run([*logs, "-n", "100000"], check=True, capture_output=True, text=True).stdout)
        assert len(written) == 2 and min(map(len, written.values())) > ENDS
        cluster.kill("supervisor", 1)
        with subprocess.Popen(
            [*logs, "-f", "-n", str(ENDS)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as following:
            try:
                assert following.stdout is not None and following.stderr is not None
                assert "some workers are missing" in following.stderr.readline()
                shown: list[str] = []
                threading.Thread(target=shown.extend, args=(following.stdout,), daemon=True).start()
                wait_until(lambda: len(shown) >= ENDS, 30, what="the last lines of the other worker")
                assert len(_by_worker("".join(shown))) == 1
                cluster.restart("supervisor", 1)
                wait_until(lambda: len(_by_worker("".join(shown))) == 2, 60, what="the worker that was away")
                wait_until(lambda: min(map(len, _by_worker("".join(shown)).values())) >= ENDS, 30)
            finally:
                following.terminate()
    for worker, lines in _by_worker("".join(shown)).items():
        again = set(lines) & set(written[worker][:-ENDS])
        assert not again, f"{worker}: {again}"
        assert max(Counter(lines).values()) == 1


def _by_worker(output: str) -> dict[str, list[str]]:
    """Return the lines of each worker."""
    found: dict[str, list[str]] = {}
    for one in map(json.loads, output.splitlines()):
        found.setdefault(one["worker"], []).append(one["line"])
    return found
