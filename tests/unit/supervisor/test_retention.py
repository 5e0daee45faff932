"""Which bundles and worker directories go, and when."""

from __future__ import annotations

from tupletree.supervisor.retention import BundleAges, abandoned_workers, old_logs


def test_a_bundle_goes_when_nobody_has_needed_it_for_the_delay() -> None:
    ages, stale = BundleAges().observe({"a", "b"}, {"a"}, now_s=100, delay_s=10)
    assert stale == []
    ages, stale = ages.observe({"a", "b"}, {"a"}, now_s=109, delay_s=10)
    assert stale == []
    ages, stale = ages.observe({"a", "b"}, {"a"}, now_s=110, delay_s=10)
    assert stale == ["b"]
    assert ages.idle_since_s == {}


def test_a_bundle_that_is_needed_again_starts_anew() -> None:
    ages, _ = BundleAges().observe({"a"}, set(), now_s=0, delay_s=10)
    ages, _ = ages.observe({"a"}, {"a"}, now_s=9, delay_s=10)
    ages, stale = ages.observe({"a"}, set(), now_s=11, delay_s=10)
    assert stale == []
    assert ages.idle_since_s == {"a": 11}


def test_a_second_look_at_the_same_time_finds_nothing_new() -> None:
    ages, _ = BundleAges().observe({"a"}, set(), now_s=0, delay_s=10)
    assert ages.observe({"a"}, set(), now_s=0, delay_s=10) == (ages, [])


def test_a_worker_directory_without_a_worker_is_abandoned() -> None:
    assert abandoned_workers(["a", "b", "c"], {"b", "d"}) == ["a", "c"]


def test_logs_go_when_their_topology_is_gone_and_nothing_was_written_for_the_retention() -> None:
    written = {"gone-1-1": 0.0, "late-2-2": 95.0, "living-3-3": 0.0}
    assert old_logs(written, {"living-3-3"}, now_unix_s=100.0, retention_s=10.0) == ["gone-1-1"]
    assert old_logs(written, {"living-3-3"}, now_unix_s=105.0, retention_s=10.0) == ["gone-1-1", "late-2-2"]
