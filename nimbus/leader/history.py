"""History of topologies that were removed: what an entry holds, its bounds, and the order of entries.

    planner.py        the entry, from the record and the last assignment
    reconciler.py     + the counts of components, which only the leader has in memory
    cluster_state.py  + the errors, read from ZooKeeper; bounded; created in the transaction that begins the removal

A removal is one transaction, unless the topology has many nodes. Then the first transaction creates the entry and the
last one deletes the record: the entry is shown as soon as there is no record.
"""

from __future__ import annotations  # pure

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from tupletree._coord.forms import encode
from tupletree._limits import is_encodable
from tupletree._security.rights import acl_of
from tupletree.errors import NotFoundError
from tupletree.v1 import topology_pb2 as pb

from ..statistics.counters import Figures, scalars_of
from ..statistics.topology_statistics import TopologyStatistics

MAX_ENTRY_BYTES: Final = 32 * 1024  # as stored
MAX_ERRORS: Final = 10
MAX_LISTED: Final = 200  # components, workers, users and readers
_MAX_TRACEBACK: Final = 2000  # characters; the end says most
_LISTS: Final = ("errors", "workers", "components", "readers", "users")
_DETAILS: Final = (*_LISTS, "is_shortened")


def past_topology(
    record: pb.TopologyRecord, assignment: pb.Assignment | None, removed_unix_s: float
) -> pb.PastTopology:
    """Return the entry of a topology that is about to be removed, without errors and counts."""
    acl = acl_of(record)
    workers = assignment.workers if assignment is not None else ()
    return pb.PastTopology(
        id=record.id,
        name=record.name,
        owner=record.owner,
        users=_storable(acl.users),
        readers=_storable(acl.readers),
        submitted_unix_s=record.submitted_unix_s,
        removed_unix_s=removed_unix_s,
        killed_by=record.pending.asked_by,
        version=record.version,
        components=[pb.PastComponent(component_id=one, tasks=count) for one, count in sorted(record.tasks.items())],
        workers=[pb.WorkerAssignment(supervisor_id=one.supervisor_id, host=one.host, port=one.port) for one in workers],
    )


def add_counts(entry: pb.PastTopology, statistics: TopologyStatistics) -> None:
    """Set the counts of each component, since the topology was submitted."""
    for one in entry.components:
        figures = Figures(scalars_of(statistics.component(one.component_id)))
        one.emitted = figures.emitted()
        one.executed, one.acked, one.failed = map(figures.count, ("executed", "acked", "failed"))


def bounded(
    entry: pb.PastTopology, errors: Sequence[pb.ComponentError], max_bytes: int = MAX_ENTRY_BYTES
) -> pb.PastTopology:
    """Return the entry with the newest errors, at most ``max_bytes`` as stored.

    ``errors``: newest first. What does not fit is left out: tracebacks first, then the second half of the longest list.
    A user who is left out may not read the entry.
    """
    found = pb.PastTopology()
    found.CopyFrom(entry)
    found.errors.extend(errors[: MAX_ERRORS + 1])
    for one in found.errors:
        if len(one.traceback) > _MAX_TRACEBACK:
            one.traceback = one.traceback[-_MAX_TRACEBACK:]
            found.is_shortened = True
    for name in _LISTS:
        _keep(found, name, MAX_ERRORS if name == "errors" else MAX_LISTED)
    while len(encode(found)) > max_bytes and any(getattr(found, name) for name in _LISTS):
        found.is_shortened = True
        if any(one.traceback for one in found.errors):
            for one in found.errors:
                one.traceback = ""
        else:
            longest = max(_LISTS, key=lambda name: _bytes(found, name))
            _keep(found, longest, len(getattr(found, longest)) // 2)
    return found


def oldest(removed_unix_s: Mapping[str, float], number: int) -> list[str]:
    """Return the ids of the ``number`` topologies that were removed first, given when each was removed."""
    return sorted(removed_unix_s, key=lambda one: (removed_unix_s[one], one))[: max(0, number)]


def last_first(entries: Iterable[pb.PastTopology]) -> list[pb.PastTopology]:
    """Return the entries in the order in which they are shown: the last topology removed first."""
    return sorted(entries, key=lambda one: (-one.removed_unix_s, one.id))


def with_id(entries: Iterable[pb.PastTopology], topology_id: str) -> pb.PastTopology:
    """Return the entry with an id. Raises NotFoundError."""
    for one in entries:
        if one.id == topology_id:
            return one
    raise NotFoundError(f"there is no topology with the id '{topology_id[:200]}', and none in the history")


def with_name(entries: Iterable[pb.PastTopology], name: str) -> list[pb.PastTopology]:
    """Return the entries with a name or an id, in their order. Raises NotFoundError if there is none."""
    found = [one for one in entries if name in (one.name, one.id)]
    if not found:
        raise NotFoundError(
            f"no removed topology with the name or id '{name[:200]}' is remembered; 'tupletree history' lists them"
        )
    return found


def in_short(entry: pb.PastTopology) -> pb.PastTopology:
    """Return the entry without its lists."""
    found = pb.PastTopology()
    found.CopyFrom(entry)
    for name in _DETAILS:
        found.ClearField(name)
    return found


def _storable(names: Collection[object]) -> list[str]:
    """Return the names in order, without what is no text: a strange configuration does not keep a removal back."""
    return sorted(one for one in names if isinstance(one, str) and is_encodable(one))


def _keep(entry: pb.PastTopology, name: str, number: int) -> None:
    """Keep the first items of a list."""
    if len(getattr(entry, name)) > number:
        entry.is_shortened = True
        del getattr(entry, name)[number:]


def _bytes(entry: pb.PastTopology, name: str) -> int:
    return sum(len(one) if isinstance(one, str) else one.ByteSize() for one in getattr(entry, name))
