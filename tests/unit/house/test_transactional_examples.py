"""The examples of transactional topologies do what they say, and their judge knows wrong from right."""

from __future__ import annotations

from pathlib import Path

from examples import global_count
from tupletree.testing import LocalCluster
from tupletree.transactional import SqliteDatabase, TransactionalMap

CONF = {"topology.max.spout.pending": 4}


def test_global_count_counts_every_word_once_also_in_two_runs(tmp_path: Path) -> None:
    totals = TransactionalMap(SqliteDatabase(tmp_path / "totals.db"), "totals")
    words = len(global_count.WORDS)
    with LocalCluster() as cluster:
        for enough in (words // 3, words):
            cluster.submit("global-count", global_count.topology(str(tmp_path)), CONF)
            cluster.wait_until(lambda enough=enough: totals.get_one("words", 0) >= enough, 60)
            cluster.kill("global-count")
    assert totals.items() == {"words": words}
