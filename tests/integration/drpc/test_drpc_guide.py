"""The examples of the guide to DRPC run as a reader pastes them, and print what the guide says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from document_blocks import DOCS, blocks_of, run_python

from tupletree.drpc import DRPCClient
from tupletree.errors import TupletreeError
from tupletree.testing import DevCluster, wait_until

GUIDE = DOCS / "guides" / "drpc.md"


def test_the_guide_runs(capsys: pytest.CaptureFixture[str]) -> None:
    run_python(GUIDE)
    assert capsys.readouterr().out.strip() in GUIDE.read_text()
    assert len(list(blocks_of(GUIDE))) >= 2


@pytest.mark.long
def test_the_function_of_the_guide_on_a_cluster(tmp_path: Path) -> None:
    text = next(iter(blocks_of(GUIDE))).text
    program = text[: text.index("with LocalDRPC")] + "topology = scoring()\n"
    (tmp_path / "scoring.py").write_text(program)
    with DevCluster(slots=1, drpc_servers=1) as cluster:
        seeds = ",".join(cluster.conf["nimbus.seeds"])
        command = [sys.executable, "-m", "tupletree.cli.main", "submit", "--nimbus", seeds, "scoring.py"]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=60)
        with DRPCClient(conf=cluster.conf) as client:

            def answer() -> object:
                try:
                    return client.execute("score", {"age": 41}, timeout_s=2)
                except TupletreeError:
                    return None

            wait_until(lambda: answer() == 0.41, 60, what="the topology answers")
