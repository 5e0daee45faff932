"""Which topologies that wait for a kill or a rebalance have nothing left to finish, from their workers' reports. Pure.

A report is quiet if the worker's spouts are deactivated and nothing of the topology is under way in the worker: no tree
of a spout or bolt is pending or waits for a checkpoint, no tuple waits. A topology is drained when each of its workers
sends quiet reports only, and each has sent one since the last of them became quiet:

    worker a   busy   quiet   quiet   quiet
    worker b   busy   busy    quiet   quiet     drained: what b sent to a before it was quiet, a has processed
                              ^ b became quiet      ^ a and b reported after that

Pending trees are what the spouts know, so nothing that is tracked is cut off. Seconds of a monotonic clock.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from tupletree.v1 import nimbus_pb2 as rpc

from .scheduler import Slot

FRESH_S: Final = 5.0  # an older report says nothing of the present


@dataclass(frozen=True, slots=True)
class _Quiet:
    since_s: float
    last_s: float


class Draining:
    """The quiet workers of the topologies that wait."""

    def __init__(self) -> None:
        self._waiting: frozenset[str] = frozenset()
        self._quiet: dict[tuple[str, Slot], _Quiet] = {}

    def waiting(self, topology_ids: Collection[str]) -> None:
        """Only these topologies wait for a kill or a rebalance. Reports from before they did are not counted."""
        self._waiting = frozenset(topology_ids)
        self._quiet = {key: one for key, one in self._quiet.items() if key[0] in self._waiting}

    def report(self, report: rpc.WorkerReport, slot: Slot, now_s: float) -> None:
        """Take a worker's report in."""
        key = report.topology_id, slot
        if report.topology_id not in self._waiting:
            return
        if not report.paused or report.unfinished:
            self._quiet.pop(key, None)
            return
        before = self._quiet.get(key)
        self._quiet[key] = _Quiet(before.since_s if before is not None else now_s, now_s)

    def forget(self, topology_id: str) -> None:
        """The topology's wait is over."""
        self.waiting(self._waiting - {topology_id})

    def drained(self, slots: Mapping[str, Collection[Slot]], now_s: float) -> frozenset[str]:
        """Of the topologies that wait, those that are drained. ``slots``: where their workers are."""
        return frozenset(one for one in self._waiting if self._is_drained(one, slots.get(one, ()), now_s))

    def _is_drained(self, topology_id: str, slots: Collection[Slot], now_s: float) -> bool:
        found = [self._quiet.get((topology_id, slot)) for slot in slots]
        quiet = [one for one in found if one is not None and now_s - one.last_s <= FRESH_S]
        if len(quiet) < len(found):
            return False
        return not quiet or min(one.last_s for one in quiet) > max(one.since_s for one in quiet)
