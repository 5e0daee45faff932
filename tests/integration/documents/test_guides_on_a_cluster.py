"""The examples of the guides on the client and on states, against a cluster of processes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from document_blocks import DOCS, run_python

from tupletree.client import StateClient
from tupletree.errors import NotFoundError, UnavailableError
from tupletree.testing import DevCluster, wait_until

GUIDES = DOCS / "guides"
SEED = "cluster.example:6627"
QUESTIONS = "## Questions to a state"


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    with DevCluster(supervisors=1, slots=3, ackers=1) as running:
        yield running


def test_the_client_submits_changes_and_kills(cluster: DevCluster, capsys: pytest.CaptureFixture[str]) -> None:
    run_python(GUIDES / "client.md", replaced={SEED: cluster.client.seeds[0]})
    assert re.fullmatch(r"words active \d workers, up for \d+ s\n", capsys.readouterr().out)
    wait_until(lambda: cluster.client.list() == (), 60)


@pytest.mark.long
def test_questions_to_a_state_are_answered(cluster: DevCluster, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("apple pear\napple\n")
    names = run_python(GUIDES / "state.md", before=QUESTIONS, replaced={"corpus.txt": str(corpus)})
    conf = {
        "topology.state.provider": "sqlite",
        "topology.state.provider.config": {"directory": str(tmp_path / "states")},
        "topology.state.checkpoint.aligned": True,
        "topology.state.checkpoint.interval.ms": 500,
    }
    seed = cluster.client.seeds[0]
    cluster.client.submit("words", names["builder"].create_topology(), conf)

    def is_committed() -> bool:
        with StateClient(seed) as states:
            try:
                return bool(states.get("words", "count", "pear").entries)
            except (NotFoundError, UnavailableError):  # its workers are starting
                return False

    wait_until(is_committed, 90)
    run_python(GUIDES / "state.md", names, after=QUESTIONS, replaced={SEED: seed})
    assert names["counts"] == {"apple": 2, "pear": 1}
    assert {one.key: one.value for one in names["page"].entries} == {"apple": 2, "pear": 1}
    cluster.client.kill("words", wait_secs=0)
