"""The messages of a spout's task until each is processed: in flight, waiting to be emitted again, done.

    begin ----> in flight ----> done
                  |    ^
           failed |    | pop_due, when its pause is over
                  v    |
                 waiting          (given up after the last attempt: the caller decides, and calls ``done``)

**Positions.** Messages end in any order. ``position`` is the position up to which all messages are done: a reader that
resumes after ``position`` repeats some messages and loses none.

**Generations.** ``reset`` begins a new generation, for example after a reconnect to the source, which then delivers
again all messages that are not done. Acks and fails of messages of an older generation are ignored.

A message is in the table before it is emitted, as its ack may come while ``emit`` runs (a topology without ackers).
"""

from __future__ import annotations  # pure

import heapq
import math
from collections import deque
from collections.abc import Sequence
from typing import Any

from tupletree._wire.fail_reasons import FailReason
from tupletree.backoff import Backoff


class Pending:
    """A message that is not done. ``attempts``: the number that failed. ``target``: the task of a direct emit."""

    __slots__ = ("attempts", "generation", "id", "number", "reason", "row", "stream", "target")

    def __init__(self, number: int, generation: int, row: Sequence[Any] | None, stream: str, id: Any) -> None:
        self.target: int | None = None
        self.number = number
        self.generation = generation
        self.row = row
        self.stream = stream
        self.id = id
        self.attempts = 0
        self.reason: FailReason | None = None

    def __repr__(self) -> str:
        return repr(self.id)


class Replay:
    """The messages of one task."""

    def __init__(self, retry: Backoff) -> None:
        self.retry = retry
        self.position: Any = None
        self.finished = 0
        """The number of messages in the prefix that is done, in this generation."""
        self.due_s = math.inf
        """When the next message is to be emitted again; infinity if none waits."""
        self._begun = 0
        self._generation = 0
        self._live: set[int] = set()  # numbers of messages that are not done
        self._positions: deque[Any] = deque()  # from the first message not done; cheap for the garbage collector
        self._waiting: list[tuple[float, int, Pending]] = []

    def __len__(self) -> int:
        """The number of messages from the oldest that is not done up to the newest."""
        return len(self._positions)

    def begin(self, row: Sequence[Any], stream: str, id: Any = None, position: Any = None) -> Pending:
        """Add a message that is about to be emitted. Without an id, the message gets its number, from 0, as id."""
        number = self._begun
        self._begun += 1
        pending = Pending(number, self._generation, row, stream, number if id is None else id)
        self._live.add(number)
        self._positions.append(position)
        return pending

    def done(self, pending: Pending) -> bool:
        """Record that a message is processed. Return false if it was done already, or is of an older generation."""
        if not self._is_live(pending):
            return False
        pending.row = None
        self._live.remove(pending.number)
        while self._positions and self.finished not in self._live:
            position = self._positions.popleft()
            self.finished += 1
            if position is not None:
                self.position = position
        return True

    def failed(self, pending: Pending, reason: FailReason | None, now_s: float) -> bool:
        """Record a failed attempt. Return true if the message is to be given up, and false otherwise.

        ``reason``: None if the tree was lost with a worker or an acker. Such a loss is not counted as an attempt,
        however often it happens: the message is emitted again after the pause for its failed attempts, or the first.
        """
        if not self._is_live(pending):
            return False
        if self.count_attempt(pending, reason):
            return True
        self.wait(pending, now_s)
        return False

    def count_attempt(self, pending: Pending, reason: FailReason | None) -> bool:
        """Count a failed attempt, unless there is no reason. Return true if it was the last one."""
        if reason is None:
            return False
        pending.attempts += 1
        pending.reason = reason
        return reason.is_final or self.retry.is_last(pending.attempts)

    def wait(self, pending: Pending, now_s: float) -> None:
        """Queue a message, to be emitted again after its pause."""
        pause_s = self.retry.pause_s(max(1, pending.attempts))
        heapq.heappush(self._waiting, (now_s + pause_s, pending.number, pending))
        self.due_s = self._waiting[0][0]

    def pop_due(self, now_s: float) -> Pending | None:
        """Remove and return a message whose pause is over."""
        while self.due_s <= now_s:
            _, _, pending = heapq.heappop(self._waiting)
            self.due_s = self._waiting[0][0] if self._waiting else math.inf
            if self._is_live(pending):
                return pending
        return None

    def _is_live(self, pending: Pending) -> bool:
        """True if a message is of this generation and not done."""
        return pending.generation == self._generation and pending.number in self._live

    @property
    def waiting(self) -> int:
        """The number of messages that wait to be emitted again."""
        return len(self._waiting)

    def reset(self, position: Any = None) -> None:
        """Forget all messages, and ignore their acks and fails. The next messages are those after ``position``."""
        self._generation += 1
        self.position = position
        self._begun = self.finished = 0
        self._live.clear()
        self._positions.clear()
        self._waiting.clear()
        self.due_s = math.inf
