"""What operators ask for over HTTP, as requests of the topology's life. What makes no sense is a UsageError."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tupletree.errors import UsageError

from ..lifecycle import Kill, Rebalance, Request
from .calls import Call


def kill(call: Call) -> Request:
    return Kill(call.seconds("wait"))


def rebalance(call: Call) -> Request:
    """``{"rebalanceOptions": {"numWorkers": 2, "executors": {"split": 4}}}``, each part optional."""
    options = _mapping(_mapping(call.body or {}, "the body").get("rebalanceOptions") or {}, "rebalanceOptions")
    unknown = sorted(options.keys() - {"numWorkers", "executors"})
    if unknown:
        raise UsageError(f"rebalanceOptions has numWorkers and executors, not {unknown[0][:100]!r}")
    workers = _count(options.get("numWorkers"), "numWorkers", 0)
    asked = _mapping(options.get("executors") or {}, "executors")
    executors = {component: _count(count, f"executors of '{component[:200]}'", 1) for component, count in asked.items()}
    return Rebalance(call.seconds("wait"), workers, executors)


def done(call: Call, operation: str) -> dict[str, Any]:
    """What Storm answers."""
    return {"topologyOperation": operation, "topologyId": call.path["id"], "status": "success"}


def _mapping(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"{what} is a JSON object")
    return value


def _count(value: Any, what: str, least: int) -> int:
    """A whole number, also as text, as Storm's own page sends it."""
    if value is None and least == 0:
        return 0
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value < 2**31:
        raise UsageError(f"{what} is a whole number from {least}")
    return value
