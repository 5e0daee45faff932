"""Readiness: checks, reasons, and who is told."""

from __future__ import annotations

from tupletree._daemon.health import Readiness


def test_ready_when_every_check_is_fine() -> None:
    readiness = Readiness()
    assert readiness.ready
    readiness.set("zookeeper", "connecting")
    readiness.set("ledger", "over its limit")
    assert not readiness.ready
    assert readiness.reasons == ["ledger: over its limit", "zookeeper: connecting"]
    readiness.set("zookeeper", None)
    readiness.set("ledger", None)
    assert readiness.ready
    assert readiness.reasons == []


def test_callbacks_see_changes_only() -> None:
    readiness = Readiness()
    seen: list[list[str]] = []
    cancel = readiness.on_change(lambda: seen.append(readiness.reasons))
    readiness.set("a", "x")
    readiness.set("a", "x")
    readiness.set("b", None)
    readiness.set("a", "y")
    readiness.set("a", None)
    cancel()
    readiness.set("a", "z")
    assert seen == [["a: x"], ["a: y"], []]
