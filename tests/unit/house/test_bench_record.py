"""A recorded measurement says where it comes from."""

from __future__ import annotations

import json
from pathlib import Path

from bench._record import record


def test_a_record_is_written_and_returned_whole(tmp_path: Path) -> None:
    entry = record("word_count", {"workers": 2}, {"words_per_s": 1}, tmp_path)
    (file,) = tmp_path.iterdir()
    assert json.loads(file.read_text()) == entry
    assert file.name.startswith("word_count-")
    assert entry["config"] == {"workers": 2}
    assert entry["result"] == {"words_per_s": 1}
    assert entry["machine"]["cores"] >= 1
    assert entry["hot_path"].startswith(("compiled", "plain Python"))
    assert set(entry["commit"]) == {"id", "is_changed"}


def test_nothing_is_written_without_a_directory(tmp_path: Path) -> None:
    record("word_count", {}, {}, None)
    assert list(tmp_path.iterdir()) == []
