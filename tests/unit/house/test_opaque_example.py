"""The example of opaque partitions tells the story that it promises, and counts every number once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from examples import opaque_partitions
from tupletree.testing import LocalCluster


def test_the_replayed_batch_is_smaller_and_every_number_counts_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    totals = opaque_partitions.totals(str(tmp_path))
    with LocalCluster() as cluster:
        cluster.submit("queues", opaque_partitions.topology(str(tmp_path)), {"topology.max.spout.pending": 2})
        cluster.wait_until(lambda: totals.items() == opaque_partitions.expected(), timeout=60)
        cluster.wait_quiet()
        assert totals.items() == opaque_partitions.expected()
    told = capsys.readouterr().out
    assert re.search(r"^transaction 2 \(.*\): queue 1 emits 51 to 100$", told, re.M)
    assert re.search(r"^transaction 2 \(.*\): adds 150 numbers\n +but fails, and queue 1 can be read up", told, re.M)
    after = told[told.index("but fails") :]
    assert re.search(r"^transaction 2 \(.*\): queue 1 emits 51 to 90$", after, re.M)
    assert re.search(r"^transaction 2 \(.*\): adds 140 numbers$", after, re.M)
    assert re.search(r"^transaction 3 \(.*\): queue 1 emits nothing$", after, re.M)
    assert re.search(r"^transaction [56] \(.*\): queue 1 emits 91 to 140$", after, re.M)
