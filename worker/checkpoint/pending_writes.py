"""Writes from outside that are in a task's state and in no committed checkpoint yet.

      add            prepared(t)                committed(t)
    ------> live ------------------> prepared ----------------> settled with t
              |                         |
              | rolled_back, reopened   | rolled_back(c): settled with t if t <= c, else ROLLED_BACK
              v                         | reopened: UNKNOWN
         ROLLED_BACK                    v

A state is reopened because another process may have had it open, which may have committed what was prepared here, or
rolled it back and prepared something else under the same number.
"""

from __future__ import annotations  # pure

import enum
from collections.abc import Callable


class Unsettled(enum.Enum):
    """The end of a write that no checkpoint is known to have."""

    ROLLED_BACK = "no checkpoint has it, and none will"
    UNKNOWN = "a checkpoint possibly has it"


Settle = Callable[[int | Unsettled], None]
"""Is called once, with the checkpoint that has the write, or with the reason why none is known. Must not raise."""


class PendingWrites:
    """The pending writes of one task. All calls come from its thread."""

    def __init__(self) -> None:
        self._live: list[Settle] = []
        self._prepared: list[tuple[int, Settle]] = []

    def add(self, settle: Settle) -> None:
        """Record a write that was just made."""
        self._live.append(settle)

    def prepared(self, txid: int) -> None:
        """The state has prepared a checkpoint, with all writes so far."""
        if self._live:
            self._prepared += [(txid, settle) for settle in self._live]
            self._live = []

    def committed(self, txid: int) -> None:
        """The state has committed the checkpoint that it had prepared."""
        waiting, self._prepared = self._prepared, []
        for prepared, settle in waiting:
            settle(prepared if prepared <= txid else Unsettled.UNKNOWN)

    def rolled_back(self, committed: int | None) -> None:
        """The state is at its last committed checkpoint: nothing else is in it, or in its store."""
        waiting, self._prepared = self._prepared, []
        for prepared, settle in waiting:
            settle(prepared if prepared <= (committed or 0) else Unsettled.ROLLED_BACK)
        self.reopened()

    def reopened(self) -> None:
        """The state is read from its store anew: what was not prepared is lost."""
        live, self._live = self._live, []
        for settle in live:
            settle(Unsettled.ROLLED_BACK)
        waiting, self._prepared = self._prepared, []
        for _, settle in waiting:
            settle(Unsettled.UNKNOWN)
