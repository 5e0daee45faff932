"""`python -m bench.peers` measures ours and tells which peers are not there, and why. No network."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.peers.__main__ import main
from bench.peers.rows import BASE


@pytest.mark.nightly
def test_a_peer_that_is_not_there_is_told_with_the_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["--only", "bytewax", "--venvs", str(tmp_path), "--rounds", "1", "--sentences", "200", "--json"])
    result = json.loads(capsys.readouterr().out)
    assert status == 0
    assert result["unavailable"] == {
        "bytewax": "the environment of bytewax is not set up or has other versions: "
        "run python -m bench.peers setup --only bytewax"
    }
    assert list(result["rows"]) == [BASE]
    assert result["rows"][BASE]["exact"]
