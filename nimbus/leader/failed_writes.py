"""Backoff for topologies whose changes cannot be written. The other topologies are not held up.

A topology's first failure holds it back for one second, the next for two, and so on up to a minute. Two errors can be
unrelated to the topology: ZooKeeper was unavailable during the write, or another writer's change came first. These two
count only when they repeat. Times are seconds of a monotonic clock.
"""

from __future__ import annotations  # pure

from collections.abc import Collection
from dataclasses import dataclass

from tupletree.errors import ConflictError, UnavailableError

_FIRST_PAUSE_S = 1.0
_MAX_PAUSE_S = 60.0
_CONFLICTS = 10  # conflicts in a row that are attributed to the topology
_ABSENCES = 2  # the same for writes during which ZooKeeper was unavailable; before each of them, a read succeeded

_TOLERATED: dict[type[Exception], int] = {ConflictError: _CONFLICTS, UnavailableError: _ABSENCES}


@dataclass
class _Trouble:
    failures: int = 0  # in a row
    pauses: int = 0
    until_s: float = 0.0
    reason: str = ""


class FailedWrites:
    """Topologies with failed writes, by id."""

    def __init__(self) -> None:
        self._failed_writes: dict[str, _Trouble] = {}

    def failed(self, topology_id: str, error: Exception, now_s: float) -> bool:
        """Record a failed write. True if the topology is now held back, False if the error can be unrelated to it."""
        one = self._failed_writes.setdefault(topology_id, _Trouble())
        one.failures += 1
        tolerated = _TOLERATED.get(type(error), 1)
        if one.failures < tolerated:
            return False
        one.until_s = now_s + min(_MAX_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** min(one.pauses, 10))
        one.pauses += 1
        one.reason = str(error) or type(error).__name__
        return True

    def written(self, topology_id: str) -> None:
        """Clear the topology's failures: a change was written."""
        self._failed_writes.pop(topology_id, None)

    def again(self, topology_id: str) -> None:
        """Retry the topology now: an operator has changed it, or it can be read again."""
        if topology_id in self._failed_writes:
            self._failed_writes[topology_id].until_s = 0.0

    def forget_finished(self, changed: Collection[str], now_s: float) -> None:
        """Forget topologies that are not held back and have no change left to write."""
        for one in [
            one for one, trouble in self._failed_writes.items() if trouble.until_s <= now_s and one not in changed
        ]:
            del self._failed_writes[one]

    def held(self, now_s: float) -> frozenset[str]:
        """Return the topologies that are held back now."""
        return frozenset(one for one, trouble in self._failed_writes.items() if trouble.until_s > now_s)

    def next_s(self, now_s: float) -> float | None:
        """Return the time of the next retry; None if no topology is held back."""
        return min((one.until_s for one in self._failed_writes.values() if one.until_s > now_s), default=None)

    def reason(self, topology_id: str) -> str:
        """Explain in one sentence why a topology is out of date; empty if none of its writes failed."""
        one = self._failed_writes.get(topology_id)
        if one is None or not one.reason:
            return ""
        return f"Its last change could not be written and is tried again at least once a minute: {one.reason}"
