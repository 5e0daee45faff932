"""Faults on standard error: each once, until it is over."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Final

NIMBUS: Final = "nimbus"
RECEIVER: Final = "receiver"
REJECTED: Final = "rejected"


class Notices:
    """The faults that were reported. ``say`` prints a sentence. Thread-safe."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._lock = threading.Lock()
        self._present: set[str] = set()

    def report(self, subject: str, sentence: str) -> None:
        """Report a fault of a subject, unless one was reported that is not over."""
        with self._lock:
            is_new = subject not in self._present
            self._present.add(subject)
        if is_new:
            self._say(sentence)

    def resolve(self, subject: str, sentence: str) -> None:
        """Report that the fault of a subject is over, if there was one."""
        with self._lock:
            was_present = subject in self._present
            self._present.discard(subject)
        if was_present:
            self._say(sentence)

    def forget_others(self, processes: Iterable[str]) -> None:
        """Forget the faults of all processes but these: the others are gone."""
        with self._lock:
            self._present &= {NIMBUS, RECEIVER, REJECTED, *processes}
