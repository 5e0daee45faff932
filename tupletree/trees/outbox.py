"""The updates of a client that its acker has not confirmed.

    waiting, one entry per tree -> taken for a message: in doubt -> confirmed

Updates of one tree that wait are combined by xor, and with the init of the tree if that waits as well. A message in
doubt when the stream breaks was possibly applied. It is never sent again, because the same xor twice cancels and could
hide a child that is open: the acker, if it is the same, is told to fail its trees. Pure.
"""

from __future__ import annotations  # pure

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeVar

from tupletree._wire.fail_reasons import MAX_BYTES

MAX_IN_DOUBT: Final = 16
_MAX_PART, _MAX_FAILS = 8_192, 2_000  # updates of a kind in a message; fails have reasons of up to 4 KiB

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Updates:
    """The updates of one message, by root. ``fails``: the reasons, which can be empty."""

    sequence: int
    begins: dict[int, int]
    acks: dict[int, int]
    fails: dict[int, bytes]


class Outbox:
    """Updates for one acker. Not thread-safe."""

    def __init__(self) -> None:
        self._begins: dict[int, int] = {}
        self._acks: dict[int, int] = {}
        self._fails: dict[int, bytes] = {}
        self._in_doubt: deque[Updates] = deque()
        self._sequence = 0

    def __len__(self) -> int:
        """Number of updates that wait to be sent."""
        return len(self._begins) + len(self._acks) + len(self._fails)

    @property
    def is_idle(self) -> bool:
        """True if everything is confirmed."""
        return not len(self) and not self._in_doubt

    @property
    def is_due(self) -> bool:
        """True if there is something to send, and not too much in doubt."""
        return len(self) > 0 and len(self._in_doubt) < MAX_IN_DOUBT

    def begin(self, root: int, value: int) -> None:
        """Begin a tree with an open edge."""
        self._begins[root] = value

    def ack(self, root: int, value: int) -> None:
        """Settle an edge: ``value`` is the edge xor those of its children."""
        kind = self._begins if root in self._begins else self._acks
        kind[root] = kind.get(root, 0) ^ value

    def fail(self, root: int, reason: str) -> None:
        """Fail a tree, with the first part of a reason."""
        self._fails[root] = reason.encode("utf-8", "replace")[:MAX_BYTES].decode("utf-8", "ignore").encode()

    def take(self) -> Updates:
        """Return the next message, which is then in doubt."""
        self._sequence += 1
        taken = Updates(
            self._sequence,
            _cut(self._begins, _MAX_PART),
            _cut(self._acks, _MAX_PART),
            _cut(self._fails, _MAX_FAILS),
        )
        self._in_doubt.append(taken)
        return taken

    def confirm(self, sequence: int) -> None:
        """Settle the messages up to a sequence."""
        while self._in_doubt and self._in_doubt[0].sequence <= sequence:
            self._in_doubt.popleft()

    def broke(self, lost: Iterable[int]) -> None:
        """Prepare for the next stream to the same acker: fail what is in doubt, and the trees that are ``lost``."""
        self._sequence = 0
        fails = set(lost)
        for updates in self._in_doubt:
            fails |= {*updates.begins, *updates.acks, *updates.fails}
        self._in_doubt.clear()
        for root in fails:
            self._begins.pop(root, None)
            self._acks.pop(root, None)
            self._fails.setdefault(root, b"")

    def forget(self) -> None:
        """Drop everything: the acker has ended, and with it all trees."""
        self.broke(())
        self._begins.clear()
        self._acks.clear()
        self._fails.clear()


def _cut(waiting: dict[int, Value], most: int) -> dict[int, Value]:
    """Remove and return the first entries."""
    if len(waiting) <= most:
        taken = waiting.copy()
        waiting.clear()
        return taken
    taken = dict(islice(waiting.items(), most))
    for root in taken:
        del waiting[root]
    return taken
