"""Answers to requests that change a topology, and what ``topology.autoscale`` would change. Pure."""

from __future__ import annotations  # pure

from dataclasses import dataclass, field

from tupletree.client.results.autoscale import AutoscaleChange
from tupletree.client.results.conversion import Result
from tupletree.client.results.topology import TopologyRecord
from tupletree.v1 import nimbus_pb2


@dataclass(frozen=True, slots=True)
class TopologyUpdate(Result):
    """The answer to an update: the record, and what changes.

    Attributes:
        record: after the request; ``record.pending.update`` is what the topology goes on with. None there: the update
            changes nothing. If the update was only checked, the record as it would be.
        added: components that are new, ascending.
        removed: components that end, ascending.
        conf_keys: keys of the configuration with another value, ascending.
        migrated: components whose values are migrated, as their ``state_version`` is higher, ascending.
    """

    record: TopologyRecord
    added: tuple[str, ...]
    removed: tuple[str, ...]
    conf_keys: tuple[str, ...]
    migrated: tuple[str, ...]
    raw: nimbus_pb2.UpdateReply = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class ComponentScaling(Result):
    """One component that ``topology.autoscale`` names.

    Attributes:
        executors: the executors that it has.
        wanted: the executors that the load calls for, within the bounds.
        min: the lower bound; ``max``: the upper bound, at most its tasks.
        busy: the share of the time that the busiest thread with its executors was busy lately.
        demand: the number of threads that its work would have filled.
        reason: the reason for ``wanted``.
    """

    component: str
    executors: int
    wanted: int
    min: int
    max: int
    busy: float
    demand: float
    reason: str
    raw: nimbus_pb2.ComponentScaling = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Autoscaling(Result):
    """The view that the leader has of a topology's load, and what it would change now by ``topology.autoscale``.

    Attributes:
        components: those that ``topology.autoscale`` names, ascending.
        workers: the worker processes that the topology is to have at present.
        wanted_workers: the worker processes that the load calls for, however many slots are free.
        max_workers: the upper bound; 0: the number of workers stays as it is.
        next: the change that would be made now, or None.
        sentence: that change, or why there is none.
        last: the last change that was carried out, or None.
    """

    topology_id: str
    components: tuple[ComponentScaling, ...]
    workers: int
    wanted_workers: int
    max_workers: int
    next: AutoscaleChange | None
    sentence: str
    last: AutoscaleChange | None
    raw: nimbus_pb2.DescribeAutoscalingReply = field(repr=False, compare=False)
