"""docs/performance.md is what bench/results says: make it with ``python -m bench.report``."""

from __future__ import annotations

from bench import report


def test_the_committed_page_is_made_from_the_committed_results() -> None:
    files = report.pages(report.newest(report.RESULTS))
    assert report.stale(files, report.ROOT) == []
