"""Topologies whose changes cannot be written: each is left as it is for a while, and the others go on.

The first failure of a topology that is its own holds it back for a second, the next for two, up to a minute. An error
that may be everybody's counts only when it comes again and again: ZooKeeper away at the moment of a write, or somebody
else's change in between. Times are seconds of a monotonic clock.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tupletree.errors import ConflictError, UnavailableError

_FIRST_PAUSE_S = 1.0
_MAX_PAUSE_S = 60.0
_CONFLICTS = 10  # in a row, until they are the topology's own
_ABSENCES = 2  # likewise; the look before each of them reached ZooKeeper

_TOLERATED: dict[type[Exception], int] = {ConflictError: _CONFLICTS, UnavailableError: _ABSENCES}


@dataclass
class _Trouble:
    failures: int = 0  # in a row
    pauses: int = 0
    until_s: float = 0.0
    reason: str = ""


class FailedWrites:
    """What could not be written, by topology id."""

    def __init__(self) -> None:
        self._failed_writes: dict[str, _Trouble] = {}

    def failed(self, topology_id: str, error: Exception, now_s: float) -> bool:
        """Note a failure. True if the topology is held back now, False if the error may be everybody's."""
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
        """A change of the topology was written: its trouble is over."""
        self._failed_writes.pop(topology_id, None)

    def again(self, topology_id: str) -> None:
        """An operator has changed the topology: try it now."""
        if topology_id in self._failed_writes:
            self._failed_writes[topology_id].until_s = 0.0

    def settled(self, changed: Collection[str], now_s: float) -> None:
        """Forget what is over: nothing is to be changed any more for a topology that was not held back."""
        for one in [
            one for one, trouble in self._failed_writes.items() if trouble.until_s <= now_s and one not in changed
        ]:
            del self._failed_writes[one]

    def held(self, now_s: float) -> frozenset[str]:
        """The topologies to leave as they are."""
        return frozenset(one for one, trouble in self._failed_writes.items() if trouble.until_s > now_s)

    def next_s(self, now_s: float) -> float | None:
        """When the next topology is to be tried again."""
        return min((one.until_s for one in self._failed_writes.values() if one.until_s > now_s), default=None)

    def reason(self, topology_id: str) -> str:
        """Why a topology is not as it should be, in a sentence; empty if it has no trouble."""
        one = self._failed_writes.get(topology_id)
        if one is None or not one.reason:
            return ""
        return f"Its last change could not be written and is tried again at least once a minute: {one.reason}"
