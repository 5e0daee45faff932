"""Watch over the memory of the workers: reads what they use, once a second, and reports those beyond their limits.

A worker's memory is the resident memory of its process and of all processes that it has started. It is read from /proc,
so there are no limits on systems without one. Nothing is read while no worker has a limit.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

from tupletree._log import event
from tupletree._process_table import HAS_PROC, resident_bytes

from .faults import reason
from .memory_limits import MemoryLimit
from .slot import Slot, live_worker
from .slot_events import MemoryExceeded
from .slots import Slots

log = logging.getLogger(__name__)

_PERIOD_S: Final = 1.0
_MB: Final = 1024 * 1024


class MemoryWatch:
    """The limits of this supervisor's workers, and the loop that enforces them."""

    def __init__(self, slots: Slots, margin_mb: float) -> None:
        self._slots = slots
        self._margin_mb = margin_mb
        self._limits: Mapping[int, MemoryLimit] = {}

    def set_limits(self, limits: Mapping[int, MemoryLimit]) -> None:
        """Replace all limits."""
        if limits and not HAS_PROC and not self._limits:
            event(log, "memory.unlimited", level=logging.WARNING, cause="this system has no /proc")
        self._limits = limits

    async def keep(self) -> None:
        """End workers beyond their limits, forever."""
        while True:
            if HAS_PROC and (watched := self._watched()):
                try:
                    used = await asyncio.to_thread(resident_bytes, {pid for pid, _ in watched.values()})
                except Exception as error:
                    reason(log, "memory.unread", error)
                else:
                    self._judge(watched, used)
            await asyncio.sleep(_PERIOD_S)

    def _watched(self) -> dict[int, tuple[int, str]]:
        """Return the process and the id of each live worker with a limit, by port."""
        return {slot.port: found for slot in self._slots if (found := self._worker_of(slot)) is not None}

    def _worker_of(self, slot: Slot) -> tuple[int, str] | None:
        limit, worker = self._limits.get(slot.port), live_worker(slot)
        if limit is None or worker is None or slot.desired is None or slot.desired.topology_id != limit.topology_id:
            return None
        return worker.pid, worker.worker_id

    def _judge(self, watched: Mapping[int, tuple[int, str]], used: Mapping[int, int]) -> None:
        for port, (pid, worker_id) in watched.items():
            limit = self._limits.get(port)
            used_mb = used.get(pid, 0) / _MB
            if limit is not None and limit.is_exceeded(used_mb, self._margin_mb):
                self._slots.dispatch(port, MemoryExceeded(worker_id, limit.sentence(used_mb, self._margin_mb)))
