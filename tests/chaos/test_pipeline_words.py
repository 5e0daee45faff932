"""Word count on Spark with kill -9 of everything: the table is exact, by a truth of this test's own."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from test_demo import ROOT, cluster_directory, living

from tupletree.testing import wait_until

SECONDS = 16
SEED = 12


@pytest.mark.timeout(420)
def test_the_table_is_exact_after_kills_of_spark_and_of_the_cluster(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    command = [sys.executable, "-m", "bench.crashes", "pipeline", "--json", "--directory", str(kept)]
    command += ["--seconds", str(SECONDS), "--seed", str(SEED), "--rate", "500"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=400, check=False)
    said = run.stderr + run.stdout

    truth: Counter[str] = Counter()
    files = list((kept / "lines").glob("*/*.txt"))
    for file in files:
        truth.update(re.findall("[a-z]+", file.read_text().lower()))
    with closing(sqlite3.connect(kept / "words.db")) as connection:
        assert dict(connection.execute("SELECT word, count FROM words")) == truth, said
    assert len({file.parent for file in files}) > 2, "the directory gained files"

    assert run.returncode == 0, said
    result = json.loads(run.stdout)
    assert result["held"] and result["faults"] == []
    assert result["words"] == truth.total()
    assert set(result["kills"]) == {"driver", "task", "acker", "nimbus"}, said
    directory = cluster_directory(said)
    assert not directory.exists()
    wait_until(lambda: not living(directory), 30, what="every process has ended")
