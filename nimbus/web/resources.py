"""Storm's fields of resources: what is asked for, assigned and left. All are 0 or empty under the even scheduler."""

from __future__ import annotations  # pure

from collections.abc import Sequence
from typing import Any, Final

from tupletree.v1 import topology_pb2 as pb

from ..cluster_view import ClusterView
from ..leader.scheduling import CPU_QUOTA, MEMORY_QUOTA

_NONE: Final = "N/A"


def cluster_fields(view: ClusterView) -> dict[str, Any]:
    """Return the fields of ``cluster/summary``."""
    total, left = view.resources.total_capacity(), view.resources.total_available()
    return {
        "schedulerDisplayResource": view.resources.is_on,
        "totalMem": total.memory_mb,
        "totalCpu": total.cpu_percent,
        "availMem": left.memory_mb,
        "availCpu": left.cpu_percent,
        "fragmentedMem": 0.0,
        "fragmentedCpu": 0.0,
        "memAssignedPercentUtil": _percent(total.memory_mb - left.memory_mb, total.memory_mb),
        "cpuAssignedPercentUtil": _percent(total.cpu_percent - left.cpu_percent, total.cpu_percent),
        "availGenerics": left.named_text,
        "totalGenerics": total.named_text,
    }


def supervisor_fields(view: ClusterView, supervisor_id: str) -> dict[str, Any]:
    """Return the fields of a supervisor."""
    resources = view.resources
    total, used, left = (one(supervisor_id) for one in (resources.capacity, resources.used, resources.available))
    return {
        "totalMem": total.memory_mb,
        "totalCpu": total.cpu_percent,
        "usedMem": used.memory_mb,
        "usedCpu": used.cpu_percent,
        "availMem": left.memory_mb,
        "availCpu": left.cpu_percent,
        "totalGenericResources": total.named_text,
        "usedGenericResources": used.named_text,
        "availGenericResources": left.named_text,
        "schedulerDisplayResource": resources.is_on,
    }


def topology_fields(view: ClusterView, record: pb.TopologyRecord) -> dict[str, Any]:
    """Return the fields of a topology. All memory counts as on the heap."""
    wanted, assigned = view.resources.requested(record), view.resources.assigned(record.id)
    return {
        "requestedMemOnHeap": wanted.memory_mb,
        "requestedMemOffHeap": 0.0,
        "requestedTotalMem": wanted.memory_mb,
        "requestedCpu": wanted.cpu_percent,
        "assignedMemOnHeap": assigned.memory_mb,
        "assignedMemOffHeap": 0.0,
        "assignedTotalMem": assigned.memory_mb,
        "assignedCpu": assigned.cpu_percent,
        "requestedGenericResources": wanted.named_text,
        "assignedGenericResources": assigned.named_text,
    }


def topology_page_fields(view: ClusterView, record: pb.TopologyRecord) -> dict[str, Any]:
    """Return the fields that only the page of a topology has."""
    return {
        "schedulerDisplayResource": view.resources.is_on,
        "requestedRegularOnHeapMem": view.resources.requested(record).memory_mb,
        "requestedSharedOnHeapMem": 0.0,
        "requestedRegularOffHeapMem": 0.0,
        "requestedSharedOffHeapMem": 0.0,
        "assignedRegularOnHeapMem": view.resources.assigned(record.id).memory_mb,
        "assignedSharedOnHeapMem": 0.0,
        "assignedRegularOffHeapMem": 0.0,
        "assignedSharedOffHeapMem": 0.0,
    }


def component_fields(view: ClusterView, record: pb.TopologyRecord, component_id: str) -> dict[str, Any]:
    """Return the fields of a component, which are what each executor needs."""
    each = view.resources.requested_each(record, component_id)
    return {
        "requestedMemOnHeap": each.memory_mb,
        "requestedMemOffHeap": 0.0,
        "requestedCpu": each.cpu_percent,
        "requestedGenericResourcesComp": each.named_text,
    }


def worker_fields(view: ClusterView, record: pb.TopologyRecord, worker: pb.WorkerAssignment) -> dict[str, Any]:
    """Return the fields of a worker."""
    given = view.resources.of_worker(record, worker)
    return {"assignedMemOnHeap": given.memory_mb, "assignedMemOffHeap": 0.0, "assignedCpu": given.cpu_percent}


def owner_fields(view: ClusterView, owner: str, records: Sequence[pb.TopologyRecord]) -> dict[str, Any]:
    """Return the fields of an owner. The guarantees are the quotas, of which nobody else's use takes a part."""
    resources = view.resources
    wanted = [resources.requested(one) for one in records]
    assigned = [resources.assigned(one.id) for one in records]
    memory_mb, cpu = sum(one.memory_mb for one in assigned), sum(one.cpu_percent for one in assigned)
    quota = view.leader_state.scheduling.quota(owner) if resources.is_on else {}
    pools = view.leader_state.scheduling.pools
    return {
        "totalMemoryUsage": memory_mb,
        "totalCpuUsage": cpu,
        "memoryGuarantee": _quota(quota.get(MEMORY_QUOTA)),
        "cpuGuarantee": _quota(quota.get(CPU_QUOTA)),
        "isolatedNodes": str(pools[owner]) if owner in pools else _NONE,
        "memoryGuaranteeRemaining": _quota(quota.get(MEMORY_QUOTA), memory_mb),
        "cpuGuaranteeRemaining": _quota(quota.get(CPU_QUOTA), cpu),
        "totalReqOnHeapMem": sum(one.memory_mb for one in wanted),
        "totalReqOffHeapMem": 0.0,
        "totalReqMem": sum(one.memory_mb for one in wanted),
        "totalReqCpu": sum(one.cpu_percent for one in wanted),
        "totalAssignedOnHeapMem": memory_mb,
        "totalAssignedOffHeapMem": 0.0,
        "schedulerDisplayResource": resources.is_on,
    }


def _quota(amount: float | None, used: float = 0.0) -> str:
    return _NONE if amount is None else f"{amount - used:g}"


def _percent(used: float, total: float) -> str:
    return f"{100 * used / total if total else 0.0:.1f}"
