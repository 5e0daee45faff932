"""Transactional words with kill -9 of everything: both databases are exact, by a truth of this test's own."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

from test_demo import ROOT, cluster_directory, living

SECONDS = 15
SEED = 10


def table(file: Path, name: str) -> dict[str, int]:
    """What a database holds, read past everything that is under test."""
    with closing(sqlite3.connect(file)) as connection:
        return {key: int(value) for key, value in connection.execute(f"SELECT key, value FROM {name}")}


def test_two_databases_are_exact_after_kills_of_every_kind_of_process(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    command = [sys.executable, "-m", "bench.crashes", "transactions", "--json", "--directory", str(kept)]
    command += ["--seconds", str(SECONDS), "--seed", str(SEED), "--rate", "1500"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=170, check=False)
    said = run.stderr + run.stdout

    counts: Counter[str] = Counter()
    for file in (kept / "lines").iterdir():
        counts.update(re.findall("[a-z]+", file.read_text().lower()))
    tens = Counter(count // 10 for count in counts.values())
    words, buckets = (
        table(kept / "databases" / "words.db", "words"),
        table(kept / "databases" / "buckets.db", "buckets"),
    )
    assert words == counts, said
    assert {name: number for name, number in buckets.items() if number} == {
        f"{ten}0-{ten}9" if ten else "0-9": number for ten, number in tens.items()
    }, said

    assert run.returncode == 0, said
    result = json.loads(run.stdout)
    assert result["held"] and result["faults"] == []
    assert result["words"] == counts.total()
    assert set(result["kills"]) == {"worker", "acker", "supervisor", "nimbus", "zookeeper"}, said
    directory = cluster_directory(said)
    assert not directory.exists()
    assert living(directory) == []
