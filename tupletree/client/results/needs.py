"""The resources that executors need, as a client sees them. Pure."""

from __future__ import annotations  # pure

from collections.abc import Mapping
from dataclasses import dataclass, field

from tupletree.client.results.conversion import Result
from tupletree.v1 import topology_pb2


@dataclass(frozen=True, slots=True)
class ComponentNeeds(Result):
    """The resources that one executor of a component needs; processor time in percent of a processor."""

    cpu_percent: float
    memory_mb: float
    resources: Mapping[str, float] = field(hash=False)
    raw: topology_pb2.ComponentNeeds = field(repr=False, compare=False)
