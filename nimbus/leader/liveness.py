"""Liveness of workers, judged by their reports.

A worker is alive while one of these holds:

* it reported less than its timeout ago (``nimbus.task.timeout.secs``, or the topology's own if that is longer);
* it was assigned less than ``nimbus.task.launch.secs`` ago and has not reported since: it is still starting;
* this leadership began less than its timeout ago: earlier reports went to the previous leader.

Silence counts only while nimbus itself is listening. A separate clock steps every second, whatever else nimbus is
doing. After a gap of more than five seconds between two steps (the process was stopped or starved), the timeouts of all
workers start again. The time that reading the cluster takes does not matter.

Times are seconds of a monotonic clock.
"""

from __future__ import annotations  # pure

from collections.abc import Mapping
from dataclasses import dataclass

from .scheduler import Executor, Slot

_MAX_GAP_S = 5.0

Placements = Mapping[str, Mapping[Slot, tuple[Executor, ...]]]  # by topology id


@dataclass
class _Life:
    """Known state of the worker that an assignment puts into a slot."""

    executors: tuple[Executor, ...]
    assigned_at_s: float | None  # None: before this leadership began
    reported_at_s: float | None = None


class Liveness:
    """Liveness of all assigned workers, for one leadership."""

    def __init__(self, timeout_s: float, launch_s: float, now_s: float) -> None:
        self._timeout_s = timeout_s
        self._launch_s = launch_s
        self._began_s = now_s
        self._stepped_s = now_s
        self._placements: Placements = {}
        self._lives: dict[str, dict[Slot, _Life]] = {}  # by topology id
        self._workers = 0
        self._inherits = True  # until the first assignments are seen

    @property
    def workers(self) -> int:
        """Number of assigned workers."""
        return self._workers

    def step(self, now_s: float) -> None:
        """Record that nimbus is listening. Called only by the separate clock."""
        if now_s - self._stepped_s > _MAX_GAP_S:
            self._began_s = now_s
        self._stepped_s = now_s

    def assigned(self, placements: Placements, now_s: float) -> None:
        """Apply the stored assignments. A worker whose executors changed counts as newly assigned.

        A placement that is the same object as before is not looked at again: do not change it.
        """
        lives = {}
        for topology_id, placement in placements.items():
            before = self._lives.get(topology_id, {})
            if placement is not self._placements.get(topology_id):
                before = self._changed(before, placement, now_s)
            lives[topology_id] = before
        self._placements, self._lives = dict(placements), lives
        self._workers = sum(map(len, lives.values()))
        self._inherits = False

    def _changed(
        self, before: Mapping[Slot, _Life], placement: Mapping[Slot, tuple[Executor, ...]], now_s: float
    ) -> dict[Slot, _Life]:
        """Return the workers of a topology in its new placement."""
        lives = {}
        for slot, executors in placement.items():
            one = before.get(slot)
            if one is None or one.executors != executors:
                one = _Life(executors, None if self._inherits else now_s)
            lives[slot] = one
        return lives

    def on_report(self, topology_id: str, slot: Slot, now_s: float) -> bool:
        """Record a worker's report. False if no worker is assigned to the slot."""
        life = self._lives.get(topology_id, {}).get(slot)
        if life is None:
            return False
        life.reported_at_s = now_s
        return True

    def dead(self, timeouts_s: Mapping[str, float], now_s: float) -> frozenset[tuple[str, Slot]]:
        """Return the assigned workers that are not alive. ``timeouts_s``: longer timeouts of some topologies, by id.

        Empty while the clock is late: the process has just been resumed and has not been listening.
        """
        if now_s - self._stepped_s > _MAX_GAP_S:
            return frozenset()
        return frozenset(key for key, at_s in self._deadlines(timeouts_s) if at_s <= now_s)

    def next_deadline_s(self, timeouts_s: Mapping[str, float], now_s: float) -> float | None:
        """Return the time at which the next worker counts as dead unless it reports before."""
        return min((at_s for _, at_s in self._deadlines(timeouts_s) if at_s > now_s), default=None)

    def _deadlines(self, timeouts_s: Mapping[str, float]) -> list[tuple[tuple[str, Slot], float]]:
        deadlines = []
        for topology_id, lives in self._lives.items():
            timeout_s = max(self._timeout_s, timeouts_s.get(topology_id, 0.0))
            for slot, life in lives.items():
                at_s = self._began_s + timeout_s
                if life.reported_at_s is not None:
                    at_s = max(at_s, life.reported_at_s + timeout_s)
                elif life.assigned_at_s is not None:
                    at_s = max(at_s, life.assigned_at_s + self._launch_s)
                deadlines.append(((topology_id, slot), at_s))
        return deadlines
