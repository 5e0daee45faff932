"""Whether a neighbour topology keeps acking while something else is going on."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Self

from tupletree.testing import wait_until

SILENCE_S = 5.0
"""The longest that a steady topology may go without an ack, whatever others do."""
_LOOK_S = 0.05


class Neighbour:
    """Looks at the file that grows with every ack; a thread notes the longest time in which it did not."""

    def __init__(self, acks: Path) -> None:
        self._acks = acks
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="neighbour", daemon=True)
        self.longest_s = 0.0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def must_go_on(self, during: str) -> None:
        """Wait for another ack. Raises TimeoutError, which names ``during``, if there is none within SILENCE_S."""
        before = self._size()
        wait_until(lambda: self._size() > before, SILENCE_S, what=f"the steady topology acks during {during}")

    def _size(self) -> int:
        return self._acks.stat().st_size

    def _watch(self) -> None:
        size, since_s = self._size(), time.monotonic()
        while not self._ended.wait(_LOOK_S):
            now, now_s = self._size(), time.monotonic()
            self.longest_s = max(self.longest_s, now_s - since_s)
            if now != size:
                size, since_s = now, now_s
