"""One cluster for the module, with word count running on two workers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from examples.word_count import topology
from tupletree.cli.main import main
from tupletree.testing import DevCluster, wait_until

ROOT = Path(__file__).resolve().parents[3]


class Console:
    """Runs commands in this process against the cluster."""

    def __init__(self, cluster: DevCluster, capsys: pytest.CaptureFixture[str]) -> None:
        self.cluster = cluster
        self.seed = cluster.client.seeds[0]
        self._capsys = capsys

    def run(self, *argv: object) -> tuple[int, str, str]:
        """Exit status, standard output and standard error."""
        self._capsys.readouterr()
        status = main([*map(str, argv), "--nimbus", self.seed])
        printed = self._capsys.readouterr()
        return status, printed.out, printed.err

    def __call__(self, *argv: object) -> str:
        status, out, err = self.run(*argv)
        assert status == 0, err
        return out

    def json(self, *argv: object) -> Any:
        return json.loads(self(*argv, "--json"))

    def lines(self, *argv: object) -> list[Any]:
        return [json.loads(line) for line in self(*argv, "--json").splitlines()]

    def refusal(self, *argv: object) -> str:
        """The one sentence that a wrong request gets."""
        status, out, err = self.run(*argv)
        assert (status, out) == (2, ""), (status, out, err)
        assert err.count("\n") == 1
        assert "Traceback" not in err
        return err


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    """A cluster that counts words on two workers."""
    with DevCluster(supervisors=1, slots=3, ackers=2) as cluster:
        conf = {"topology.workers": 2, "topology.max.spout.pending": 200}
        place = str(tmp_path_factory.mktemp("words"))
        cluster.client.submit("words", topology(1_000_000_000, place), conf, code=[ROOT / "examples"])
        wait_until(lambda: cluster.client.describe("words").summary.workers_ready == 2, 90)
        yield cluster


@pytest.fixture
def console(words: DevCluster, capsys: pytest.CaptureFixture[str]) -> Console:
    return Console(words, capsys)
