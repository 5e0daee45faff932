"""The verdict on the cluster, as shown by ``tupletree health``. An addition to Storm's API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tupletree._health.assessment import Fault, Verdict


def page(verdict: Verdict) -> dict[str, Any]:
    """``cluster/health``."""
    return {"verdict": verdict.status, "faults": _reasons(verdict.faults), "notes": _reasons(verdict.notes)}


def _reasons(found: Sequence[Fault]) -> list[dict[str, str]]:
    return [
        {
            "severity": one.severity,
            "kind": one.kind,
            "subject": one.subject,
            "sentence": one.sentence,
            "command": one.command,
            "topologyId": one.topology_id,
            "component": one.component,
        }
        for one in found
    ]
