"""Topologies that were removed, as a client sees them."""

from __future__ import annotations  # pure

from dataclasses import dataclass, field

from tupletree.client.results.conversion import Result
from tupletree.client.results.topology import ComponentError, WorkerAssignment
from tupletree.v1 import topology_pb2


@dataclass(frozen=True, slots=True)
class PastComponent(Result):
    """The counts of a component of a removed topology, in all, without system streams."""

    component_id: str
    tasks: int
    emitted: int
    executed: int
    acked: int
    failed: int
    raw: topology_pb2.PastComponent = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class PastTopology(Result):
    """A topology that was removed. ``history()`` without a name leaves the tuples empty.

    Attributes:
        users: ``topology.users`` when it was removed; they, the owner and ``readers`` may read the entry and the logs.
        readers: ``topology.readonly.users`` when it was removed.
        killed_by: the user who asked for the kill; "": tokens are disabled.
        version: the version of the code that ran last; 0: as submitted.
        components: their counts, by id.
        errors: the last ones, newest first.
        workers: those that ran at the end; ``executors`` is empty.
        is_shortened: True if some of the tuples, or some tracebacks, did not fit.
    """

    id: str
    name: str
    owner: str
    users: tuple[str, ...]
    readers: tuple[str, ...]
    submitted_unix_s: float
    removed_unix_s: float
    killed_by: str
    version: int
    components: tuple[PastComponent, ...]
    errors: tuple[ComponentError, ...]
    workers: tuple[WorkerAssignment, ...]
    is_shortened: bool
    raw: topology_pb2.PastTopology = field(repr=False, compare=False)
