"""A change of the number of executors and workers by the measured load, as a client sees it. Pure."""

from __future__ import annotations  # pure

from dataclasses import dataclass, field

from tupletree.client.results.conversion import Result
from tupletree.v1 import topology_pb2


@dataclass(frozen=True, slots=True)
class AutoscaleChange(Result):
    """A rebalance that the leader decides on by measured load: of one component, and of the workers if they change too.

    Attributes:
        at_unix_s: the time of the decision; 0 for one that is not made yet.
        reason: what was measured.
    """

    at_unix_s: float
    component: str
    executors_before: int
    executors: int
    workers_before: int
    workers: int
    reason: str
    raw: topology_pb2.AutoscaleChange = field(repr=False, compare=False)
