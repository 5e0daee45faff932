"""Known loads of tasks, shared by the threads of a worker: its own, and those that other workers tell."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Mapping


class Loads:
    """The time at which each loaded task has executed all that waits for it, as far as known.

    ``free_s`` is replaced as a whole, so that readers need no lock. It has only the tasks of which a load was told: all
    others are free. Nobody takes a past time for a load, so what is not told again ends by itself.
    """

    def __init__(self) -> None:
        self.free_s: Mapping[int, float] = {}
        self._by_source: dict[Hashable, Mapping[int, float]] = {}
        self._lock = threading.Lock()

    def set(self, source: Hashable, free_s: Mapping[int, float]) -> None:
        """Replace what ``source`` has told: the time by task. Any thread."""
        with self._lock:
            if not (free_s or source in self._by_source):
                return
            if free_s:
                self._by_source[source] = free_s
            else:
                del self._by_source[source]
            merged: dict[int, float] = {}
            for told in self._by_source.values():
                merged.update(told)
            self.free_s = merged

    def waits_s(self, now_s: float) -> Mapping[int, float]:
        """Return how long a tuple that is sent now waits, for each loaded task. Any thread."""
        return {task: free_s - now_s for task, free_s in self.free_s.items() if free_s > now_s}
