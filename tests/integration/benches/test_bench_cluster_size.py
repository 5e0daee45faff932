"""The bench of the control plane comes to its end with a few simulated machines, and every step finds its figure."""

from __future__ import annotations

from argparse import Namespace

import pytest

from bench import cluster_size


@pytest.mark.nightly
def test_a_small_cluster_is_measured() -> None:
    given = Namespace(
        supervisors=6, slots=4, topologies=3, workers=4, executors=2, busy=1.0, large=20, large_workers=5, seconds=2.0
    )
    result = cluster_size.measure(Namespace(**vars(given), processes=2, task_timeout=5, json=True))
    assert result["reports_per_s"] > 0
    assert result["moved_workers"] >= 3
    assert None not in result.values()
    assert result["assignment_bytes"] < 1_000_000
