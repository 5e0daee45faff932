"""Early end of the wait before a kill or rebalance: detects drained topologies from worker reports. Pure.

A report is quiet if the worker's spouts are deactivated and nothing is in flight in the worker: no tree of a spout or
bolt is pending or waits for a checkpoint, and no tuple is queued. A topology is drained when every worker sends only
quiet reports, and each has sent a report since the last worker became quiet:

    worker a   busy   quiet   quiet   quiet
    worker b   busy   busy    quiet   quiet     drained: a has processed all that b sent before b was quiet
                              ^ b became quiet      ^ a and b reported after that

Spouts know every pending tree, so no tracked tuple is cut off. Times are seconds of a monotonic clock.
"""

from __future__ import annotations  # pure

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from tupletree.v1 import nimbus_pb2 as rpc

from .scheduler import Slot

FRESH_S: Final = 5.0  # an older report says nothing about the present


@dataclass(frozen=True, slots=True)
class _Quiet:
    since_s: float
    last_s: float


class Draining:
    """Quiet workers of the topologies that wait for a kill or a rebalance."""

    def __init__(self) -> None:
        self._waiting: frozenset[str] = frozenset()
        self._quiet: dict[tuple[str, Slot], _Quiet] = {}

    def waiting(self, topology_ids: Collection[str]) -> None:
        """Set the topologies that wait for a kill or a rebalance. Reports from before the wait do not count."""
        self._waiting = frozenset(topology_ids)
        self._quiet = {key: one for key, one in self._quiet.items() if key[0] in self._waiting}

    def is_waiting(self, topology_id: str) -> bool:
        """True if the topology waits for a kill or a rebalance."""
        return topology_id in self._waiting

    def report(self, report: rpc.WorkerReport, slot: Slot, now_s: float) -> None:
        """Record a worker's report."""
        key = report.topology_id, slot
        if report.topology_id not in self._waiting:
            return
        if not report.paused or report.unfinished:
            self._quiet.pop(key, None)
            return
        before = self._quiet.get(key)
        self._quiet[key] = _Quiet(before.since_s if before is not None else now_s, now_s)

    def forget(self, topology_id: str) -> None:
        """End the topology's wait."""
        self.waiting(self._waiting - {topology_id})

    def drained(self, slots: Mapping[str, Collection[Slot]], now_s: float) -> frozenset[str]:
        """Return the waiting topologies that are drained. ``slots``: the slots of their workers, by topology id."""
        return frozenset(one for one in self._waiting if self._is_drained(one, slots.get(one, ()), now_s))

    def _is_drained(self, topology_id: str, slots: Collection[Slot], now_s: float) -> bool:
        found = [self._quiet.get((topology_id, slot)) for slot in slots]
        quiet = [one for one in found if one is not None and now_s - one.last_s <= FRESH_S]
        if len(quiet) < len(found):
            return False
        return not quiet or min(one.last_s for one in quiet) > max(one.since_s for one in quiet)
