"""kill -9 under topologies whose spouts replay by themselves: nothing is lost, only poison is in the dead letters."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from poison_topology import lines_of, poison_topology
from sqlite_counts import counts

from tupletree.cli.main import main
from tupletree.testing import DevCluster, wait_until

LIMIT = 60_000
ROOT = Path(__file__).parents[2]
FIRST_PROGRAMS = {"README.md": "## The API", "docs/guides/core.md": "## A topology"}
"""The heading above the first program of each of these documents."""


@pytest.fixture(scope="module")
def cluster() -> Any:
    with DevCluster(supervisors=2, slots=2, ackers=2) as running:
        yield running


def kill_a_worker(cluster: DevCluster) -> None:
    wait_until(lambda: [one for one in cluster.processes if one.role == "worker"], 30, what="a worker runs")
    cluster.kill("worker", 0)


@pytest.mark.long
def test_all_poison_and_nothing_else_is_in_the_dead_letters(cluster: DevCluster, tmp_path: Path) -> None:
    conf = {"topology.workers": 2, "topology.acker.executors": 2, "topology.max.spout.pending": 2_000}
    cluster.client.submit("poison", poison_topology(tmp_path, LIMIT), conf)
    for share in (0.05, 0.2, 0.4):
        wait_until(lambda share=share: len(lines_of(tmp_path, "good")) > share * LIMIT, 60, what="it gets on")
        kill_a_worker(cluster)
    cluster.kill("acker", 0)
    cluster.restart("acker", 0)
    poison = {str(number) for number in range(0, LIMIT, 100)}
    rest = {str(number) for number in range(LIMIT)} - poison
    wait_until(lambda: {line[0] for line in lines_of(tmp_path, "letter")} >= poison, 60, what="all poison left")
    wait_until(lambda: {line[0] for line in lines_of(tmp_path, "good")} >= rest, 60, what="all the rest came through")
    letters = lines_of(tmp_path, "letter")
    assert {line[0] for line in letters} == poison
    assert {" ".join(line[1:]) for line in letters} == {"FailedException: poison"}
    assert {line[0] for line in lines_of(tmp_path, "good")} == rest
    cluster.client.kill("poison", wait_secs=0)
    wait_until(lambda: not [one for one in cluster.processes if one.role == "worker"], 30, what="its workers end")


@pytest.mark.long
@pytest.mark.parametrize("document", FIRST_PROGRAMS)
def test_the_first_programs_count_no_word_too_seldom(cluster: DevCluster, tmp_path: Path, document: str) -> None:
    heading = FIRST_PROGRAMS[document]
    program = (ROOT / document).read_text().partition(f"{heading}\n")[2].partition("```python")[2]
    program = program.partition("\n")[2].partition("```")[0]
    text = program + "".join(f"# {number % 100} to be or not to be\n" for number in range(30_000))
    words = filter(str.isalpha, text.split()) if "str.isalpha" in program else text.split()
    truth, name = Counter(words), heading.rpartition(" ")[2].lower()
    (tmp_path / "words.py").write_text(text)
    states = tmp_path / "states"
    nimbus = next(one for one in cluster.processes if one.role == "nimbus")
    conf = {
        "nimbus.seeds": f"[127.0.0.1:{nimbus.grpc_port}]",
        "topology.state.provider": "sqlite",
        "topology.state.provider.config": f'{{"directory": "{states}"}}',
        "topology.max.spout.pending": 5_000,
    }
    options = [word for key, value in conf.items() for word in ("-c", f"{key}={value}")]
    assert main(["submit", str(tmp_path / "words.py"), "--name", name, *options]) == 0
    wait_until(lambda: counts(states)["to"] > 5_000, 60, what="it counts")
    kill_a_worker(cluster)
    wait_until(lambda: not truth - counts(states), 60, what="every word is counted")
    cluster.client.kill(name, wait_secs=0)
    wait_until(lambda: not cluster.client.list(), 30, what="it is gone")
