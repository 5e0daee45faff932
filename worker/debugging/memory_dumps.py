"""Dumps of this worker's memory: a census in a thread of its own, one at a time, as text."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Final

from tupletree._process_table import HAS_PROC, resident_bytes
from tupletree.errors import ConflictError

from .memory_census import take_census
from .memory_report import report

BUDGET_S: Final = 30.0


class MemoryDumps:
    """Takes a census when asked."""

    def __init__(self, topology_id: str, worker_id: str) -> None:
        self._topology_id = topology_id
        self._worker_id = worker_id
        self._is_busy = False

    async def text(self) -> str:
        """Return what is in this worker's memory. Raises ConflictError while another call counts."""
        if self._is_busy:
            raise ConflictError("the memory of this worker is being dumped already; try again later")
        self._is_busy = True
        try:
            return await asyncio.to_thread(self._take)
        finally:
            self._is_busy = False

    def _take(self) -> str:
        pid, now = os.getpid(), time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
        title = f"Memory of worker {self._worker_id} of topology {self._topology_id}, process {pid}, at {now} UTC"
        resident = resident_bytes({pid}).get(pid) if HAS_PROC else None
        return report(title, take_census(BUDGET_S), resident)
