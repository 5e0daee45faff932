"""Progress of batches, pipelines, checkpoints and sources, from the statuses of tasks and the state in ZooKeeper.

User code of any version may have written a status. The status is passed on unchanged, and missing fields stay missing.
"""

from __future__ import annotations  # pure

from collections.abc import Mapping, Sequence
from typing import Any

from tupletree._wire.statuses import committed_by, decode_status, lag_of, source_of

from .topology import Topology


def statuses(topology: Topology, kind: str = "", components: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return the current statuses of a topology's tasks: of one kind or of all, of some components or of all."""
    shown = []
    for component_id in components or sorted(topology.record.tasks):
        for one in topology.statistics.statuses(topology.tasks(component_id), topology.view.now_s):
            status = decode_status(one.status_json) or {}
            if not kind or status.get("kind") == kind:
                shown.append(
                    {
                        "component": component_id,
                        "task": one.task_id,
                        "ageSeconds": round(one.age_s, 3),
                        "kind": str(status.get("kind", "")),
                        "status": status,
                    }
                )
    return shown


def lag(topology: Topology) -> dict[str, Any]:
    """``topology/{id}/lag``: the lag of coordinators, pipelines and sources, in the form of Storm's spout lag."""
    found: dict[str, Any] = {}
    sources: dict[str, list[Mapping[str, Any]]] = {}
    for one in statuses(topology):
        status = one["status"]
        if one["kind"] == "coordinator" and isinstance(status.get("lag"), dict):
            found[one["component"]] = _lag(one, "TRANSACTIONAL", status["lag"])
        elif one["kind"] == "pipeline":
            batches = _objects(status, "batches")
            found[one["component"]] = _lag(
                one, "PIPELINE", {"batches": len(batches), "oldestSeconds": _oldest(batches)}
            )
        elif one["kind"] in ("queue", "log"):
            tasks = sources.setdefault(one["component"], [])
            tasks.append(status)
            found[one["component"]] = _lag(one, one["kind"].upper(), _of_source(tasks, one["kind"]))
    return found


def connections(topology: Topology, component_id: str) -> list[dict[str, Any]]:
    """Return the connections of a spout's tasks to their queue, log or stream."""
    return [
        {
            "task": one["task"],
            "ageSeconds": one["ageSeconds"],
            "source": source_of(one["status"]),
            "connected": one["status"].get("connected"),
            "outstanding": one["status"].get("outstanding"),
            "lag": one["status"].get("lag"),
            "lagUnit": _lag_unit(one["status"]),
            "error": one["status"].get("error"),
        }
        for one in statuses(topology, "", [component_id])
        if source_of(one["status"])
    ]


def pipelines(topology: Topology) -> dict[str, Any]:
    """``pipeline/{id}``."""
    shown = []
    committed = {one["component"]: one["status"].get("committed") for one in statuses(topology, "coordinator")}
    for one in statuses(topology, "pipeline"):
        status = one["status"]
        batches = _objects(status, "batches")
        shown.append(
            {
                **one,
                "state": status.get("state"),
                "reason": status.get("reason"),
                "committedTxid": committed_by(one["component"], status, committed),
                "batchesInFlight": len(batches),
                "oldestBatchSeconds": _oldest(batches),
                "rowsPerSecond": status.get("rows_per_s"),
                "rowsTotal": status.get("rows_total"),
                "batchesTotal": status.get("batches_total"),
                "batchSeconds": status.get("batch_s"),
                "batches": batches,
                "spark": status.get("spark"),
            }
        )
    return {**_of(topology), "pipelines": shown}


def transactions(topology: Topology, stored: Mapping[str, Mapping[str, Any]], why_not: str) -> dict[str, Any]:
    """``transactions/{id}``. ``stored``: by transactional id. ``why_not``: the reason for missing entries."""
    shown = []
    for one in statuses(topology, "coordinator"):
        status = one["status"]
        active = _objects(status, "active")
        shown.append(
            {
                **one,
                "transactionalId": status.get("transactional_id"),
                "state": status.get("state"),
                "committedTxid": status.get("committed"),
                "batchesInFlight": len(active),
                "oldestBatchSeconds": _oldest(active),
                "batches": active,
                "failures": status.get("failures"),
                "lag": status.get("lag"),
                "stored": stored.get(str(status.get("transactional_id"))),
            }
        )
    return {**_of(topology), "coordinators": shown, "storedUnavailable": why_not}


def checkpoints(topology: Topology, stored: Mapping[str, Mapping[str, Any]], why_not: str) -> dict[str, Any]:
    """``checkpoints/{id}``. ``stored``: by state id."""
    shown = []
    for one in statuses(topology, "checkpoint"):
        status = one["status"]
        shown.append(
            {
                **one,
                "stateId": status.get("state_id"),
                "state": status.get("state"),
                "txid": status.get("txid"),
                "phase": status.get("phase"),
                "isRecovering": status.get("is_recovering"),
                "step": status.get("step"),
                "stepSeconds": status.get("step_age_s"),
                "lastCheckpointSeconds": status.get("last_checkpoint_s"),
                "failures": status.get("failures"),
                "stored": stored.get(str(status.get("state_id"))),
            }
        )
    return {**_of(topology), "checkpoints": shown, "storedUnavailable": why_not}


def ids_of(topology: Topology, kind: str, key: str) -> list[str]:
    """Return the ids under which tasks of a kind store their progress, according to their statuses."""
    found = {one["status"].get(key) for one in statuses(topology, kind)}
    return sorted(one for one in found if isinstance(one, str) and one)


def _of(topology: Topology) -> dict[str, Any]:
    return {"topologyId": topology.record.id, "topologyName": topology.record.name}


def _lag(one: Mapping[str, Any], kind: str, result: Mapping[str, Any]) -> dict[str, Any]:
    return {"spoutId": one["component"], "spoutType": kind, "spoutLagResult": dict(result)}


def _of_source(tasks: Sequence[Mapping[str, Any]], kind: str) -> dict[str, Any]:
    """Return the lag of one source, as its tasks report it: of the same queue, or of their partitions of a log."""
    outstanding = [one.get("outstanding") for one in tasks]
    return {
        "source": source_of(tasks[0]),
        "lag": lag_of(kind, tasks),
        "lagUnit": _lag_unit(tasks[0]),
        "outstanding": sum(number for number in outstanding if isinstance(number, int)),
        "connectedTasks": sum(one.get("connected") is True for one in tasks),
        "tasks": len(tasks),
    }


def _lag_unit(status: Mapping[str, Any]) -> str:
    return "bytes" if status.get("lag_unit") == "bytes" else "messages"


def _objects(status: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    found = status.get(key)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _oldest(batches: Sequence[Mapping[str, Any]]) -> float | None:
    ages = [one.get("age_s") for one in batches]
    return max((age for age in ages if isinstance(age, int | float)), default=None)
