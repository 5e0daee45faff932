"""Answers to questions about autoscaling: over gRPC, and in REST in the form that KEDA and people read. Pure."""

from __future__ import annotations

from typing import Any

from tupletree.v1 import nimbus_pb2 as rpc
from tupletree.v1 import topology_pb2 as pb

from .cluster_view import ClusterView
from .leader.autoscale_settings import BOUNDS, settings_of
from .leader.autoscaling import Change, Outlook, Scaling


def autoscaling(view: ClusterView, record: pb.TopologyRecord) -> rpc.DescribeAutoscalingReply:
    """Return what the leader would change of a topology, and why."""
    settings, found = settings_of(record.conf_json), _outlook(view, record)
    return rpc.DescribeAutoscalingReply(
        topology_id=record.id,
        components=[_scaling(one) for one in found.scalings],
        workers=found.workers,
        wanted_workers=found.wanted_workers,
        max_workers=settings.max_workers or 0 if settings is not None else 0,
        next=message_of(found.change) if found.change is not None else None,
        sentence=found.sentence,
        last=record.autoscaled if record.HasField("autoscaled") else None,
    )


def page(view: ClusterView, record: pb.TopologyRecord) -> dict[str, Any]:
    """``topology/{id}/autoscale``."""
    found = _outlook(view, record)
    return {
        "topologyId": record.id,
        "topologyName": record.name,
        "workers": found.workers,
        "wantedWorkers": found.wanted_workers,
        "components": {
            one.component: {
                "executors": one.executors,
                "wantedExecutors": one.wanted,
                "min": one.bounds.min,
                "max": one.bounds.max,
                "busy": round(one.busy, 3),
                "demand": round(one.demand, 3),
                "reason": one.reason,
            }
            for one in found.scalings
        },
        "sentence": found.sentence,
        "last": _change(record.autoscaled) if record.HasField("autoscaled") else None,
    }


def message_of(change: Change) -> pb.AutoscaleChange:
    """Return a change as it is stored and sent, without its time."""
    return pb.AutoscaleChange(
        component=change.component,
        executors_before=change.executors_before,
        executors=change.executors,
        workers_before=change.workers_before,
        workers=change.workers,
        reason=change.reason,
    )


def _outlook(view: ClusterView, record: pb.TopologyRecord) -> Outlook:
    if settings_of(record.conf_json) is None:
        sentence = f"nothing is changed: the topology has no {BOUNDS}"
    elif (found := view.leader_state.outlooks.get(record.id)) is not None:
        return found
    else:
        sentence = "nothing is changed: the leader has not looked at the topology yet"
    return Outlook((), record.workers, record.workers, None, sentence)


def _scaling(one: Scaling) -> rpc.ComponentScaling:
    return rpc.ComponentScaling(
        component=one.component,
        executors=one.executors,
        wanted=one.wanted,
        min=one.bounds.min,
        max=one.bounds.max,
        busy=one.busy,
        demand=one.demand,
        reason=one.reason,
    )


def _change(change: pb.AutoscaleChange) -> dict[str, Any]:
    return {
        "atUnixSeconds": change.at_unix_s,
        "component": change.component,
        "executorsBefore": change.executors_before,
        "executors": change.executors,
        "workersBefore": change.workers_before,
        "workers": change.workers,
        "reason": change.reason,
    }
