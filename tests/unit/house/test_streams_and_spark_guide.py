"""The examples of docs/guides/streams-and-spark.md run, with what their pipelines would have written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tupletree.attempt import TransactionAttempt
from tupletree.spark.sinks.directory_batches import BatchDirectories

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "streams-and-spark.md"


def commit(path: Path, txid: int, columns: dict[str, Any], positions: dict[str, int]) -> None:
    """Commit a batch as a pipeline does."""
    batches, attempt = BatchDirectories(str(path), "parquet"), TransactionAttempt(txid, 1)
    batches.open("guide")
    folder = Path(batches.begin(attempt))
    folder.mkdir()
    pq.write_table(pa.table(columns), folder / "part-0.parquet")
    batches.seal(attempt, positions)
    batches.commit(attempt, is_opaque=False)


def test_every_block_of_the_guide_on_streams_and_spark_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    commit(tmp_path / "clicks-so-far", 1, {"user": ["ann", "bob"], "count": [3, 1]}, {"clicks/0": 3, "clicks/1": 1})
    commit(tmp_path / "clicks-so-far", 2, {"user": ["ann"], "count": [2]}, {"clicks/0": 5})
    commit(tmp_path / "error-rates", 1, {"service": ["api", "web"], "errors": [70, 3]}, {})
    commit(tmp_path / "error-rates", 2, {"service": ["api"], "errors": [50]}, {})
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert len(blocks) == 5
    names: dict[str, Any] = {"__name__": "guide"}
    for block in blocks:
        exec(compile(block, str(GUIDE), "exec"), names)
    assert names["history"].positions == {"clicks/0": 5, "clicks/1": 1}
    assert list(names["history"].rows()) == [("ann", 3), ("bob", 1), ("ann", 2)]
    commit(tmp_path / "clicks-so-far", 3, {"user": ["ann"], "count": [9]}, {"clicks/0": 14})
    assert len(list(names["history"].rows())) == 3, "what is committed later is no part of it"
