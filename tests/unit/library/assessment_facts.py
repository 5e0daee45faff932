"""Facts of a cluster that is well, and the verdict on it."""

from __future__ import annotations

import json
from typing import Any

from tupletree._health.assessment import Verdict, judge
from tupletree._health.facts import AckerFacts, ComponentFacts, SupervisorFacts, TopologyFacts
from tupletree.v1 import nimbus_pb2
from tupletree.v1 import topology_pb2 as pb

ACKERS = (AckerFacts("a0", "h:6640"), AckerFacts("a1", "h:6641"))
SUPERVISORS = (SupervisorFacts("s0", "h", "h:6628"),)


def topology(ready: int = 2, used: int = 2, **fields: Any) -> TopologyFacts:
    given: dict[str, Any] = {"status": pb.TOPOLOGY_STATUS_ACTIVE, "uptime_s": 100.0, "statuses": [], "conf": {}}
    given |= fields
    return TopologyFacts(
        record=pb.TopologyRecord(
            id="words-1", name="words", status=given["status"], conf_json=json.dumps(given["conf"])
        ),
        uptime_s=given["uptime_s"],
        workers_used=used,
        workers_ready=ready,
        unscheduled=given.get("unscheduled", ""),
        components=[
            ComponentFacts(
                "c",
                statuses=[
                    nimbus_pb2.TaskStatus(task_id=3, status_json=s if isinstance(s, str) else json.dumps(s))
                    for s in given["statuses"]
                ],
                **given.get("figures", {}),
            )
        ],
        complaints=given.get("complaints", []),
    )


def verdict(
    *topologies: TopologyFacts,
    ackers: tuple[AckerFacts, ...] = ACKERS,
    supervisors: tuple[SupervisorFacts, ...] = SUPERVISORS,
    absent: tuple[str, ...] = (),
) -> Verdict:
    return judge(ackers, supervisors, topologies, absent)


def kinds(found: Verdict) -> list[str]:
    return [fault.kind for fault in found.faults]
