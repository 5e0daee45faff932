"""Trials of updates: an update holds when all its workers are ready, and is taken back if one of them cannot start."""

from __future__ import annotations  # pure

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from tupletree.v1 import topology_pb2 as pb

from .lifecycle import failed_update, is_waiting

MAX_TRIAL_S: Final = 600.0
"""An update whose workers are not ready after this time is taken back. A first start may install requirements.

Without a place no worker can start: the time begins anew when all have places again.
"""
GRACE_S: Final = 10.0
"""A new leader takes no update back before its workers have had this time to report."""


@dataclass(frozen=True)
class Outcome:
    """The end of a trial: the record after it, and why the update is taken back ("": it holds)."""

    record: pb.TopologyRecord
    fault: str


class PlacedSince:
    """Since when topologies on trial have had a place for each executor, as this leader has seen it.

    A topology loses its places to a more important one, or with a machine. That is no fault of the update.
    """

    def __init__(self) -> None:
        self._unplaced_unix_s: dict[str, float] = {}  # when a topology was seen without

    def keep(self, on_trial: Collection[str]) -> None:
        """Forget all topologies but these."""
        for gone in self._unplaced_unix_s.keys() - set(on_trial):
            del self._unplaced_unix_s[gone]

    def look(self, topology_id: str, is_placed: bool, now_unix_s: float, leads_since_unix_s: float) -> float:
        """Return since when, at the earliest since when the leader leads; ``now_unix_s`` for one without places."""
        if not is_placed:
            self._unplaced_unix_s[topology_id] = now_unix_s
        return max(leads_since_unix_s, self._unplaced_unix_s.get(topology_id, 0.0))


def outcome(
    record: pb.TopologyRecord,
    is_ready: bool,
    errors: Iterable[pb.ComponentError],
    now_unix_s: float,
    since_unix_s: float = 0.0,
) -> Outcome | None:
    """Return the end of a topology's trial; None while it goes on.

    ``is_ready``: all workers of the new version run, and their spouts have opened. ``errors``: of the topology, in any
    order. ``since_unix_s``: since when this leader leads, and has seen a place for each executor.
    """
    if is_waiting(record):  # killed, or on its way to another version
        return None
    if is_ready:
        after = pb.TopologyRecord()
        after.CopyFrom(record)
        after.trial_began_unix_s = 0.0
        after.ClearField("earlier")
        return Outcome(after, "")
    if now_unix_s - since_unix_s < GRACE_S:
        return None
    fault = next((_sentence(one) for one in sorted(errors, key=_time) if _ends(record, one)), "")
    if not fault and now_unix_s - max(record.trial_began_unix_s, since_unix_s) > MAX_TRIAL_S:
        fault = f"its workers were not ready after {MAX_TRIAL_S:.0f} s"
    return Outcome(failed_update(record, now_unix_s), fault) if fault else None


def _ends(record: pb.TopologyRecord, error: pb.ComponentError) -> bool:
    """True if a worker of the update ended with this error, or could not be started.

    Task ids are never used again, so the first one tells the update from what ran before.
    """
    return error.ended_worker and error.first_task == record.first_task


def _time(error: pb.ComponentError) -> float:
    return error.at_unix_s


def _sentence(error: pb.ComponentError) -> str:
    where = f"{error.host}:{error.port}"
    return f"{error.component_id} at {where}: {error.message}" if error.component_id else f"{where}: {error.message}"
