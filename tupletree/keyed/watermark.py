"""The watermark of one task: the event time before which no tuple is expected any more.

Tuples of one sending task can be out of order, but by at most ``max_lag``: after a tuple of time ``t`` the sender is
expected to send none before ``t - max_lag``, its *bound*. The watermark is the smallest bound over all senders. It
exists once every sender has brought a tuple, and never goes back.

A silent sender holds the watermark back. With an idle timeout, a sender that has brought nothing for that long is
*idle*, and only the bounds of the others count. If all senders are idle, the largest bound is the watermark, so that
the result does not depend on the order in which they fell silent. A sender that brings a tuple is not idle any more;
its tuples can be late then. Senders may have timeouts of their own, or none. A sender that says so itself is idle at
once, with or without a timeout: it is *absent* until it says otherwise.
"""

from __future__ import annotations  # pure

import math
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

BEFORE_ALL: Final = -(1 << 62)
"""The value of a watermark that does not exist yet: before every time."""

ABSENT: Final = BEFORE_ALL - 1
"""The progress of a sender that has nothing to bring, such as a source's task without partitions: see ``leave``."""

ALIVE: Final = ABSENT - 1
"""The progress of a sender that brings tuples, but has come no further, as it knows of older ones: see ``alive``."""

ANEW: Final = ALIVE - 1
"""The progress of a sender that may bring older tuples than it has told: see ``begin_anew``."""


class Watermark:
    """The watermark of one task over its sending tasks. Times are whole milliseconds.

    ``senders``: the tasks that can send; tasks that are not among them are added when they bring a tuple.
    ``now_ms``: the processing time, from which silence is counted. ``timeouts_ms``: the idle timeouts of senders that
    have one of their own, or None of those that are never idle; that of the others is ``idle_timeout_ms``.

    Attributes:
        value: the watermark, or BEFORE_ALL.
        newest: the newest event time of each sender that has brought a tuple.
    """

    __slots__ = (
        "_absent",
        "_has_timeouts",
        "_heard",
        "_idle",
        "_idle_timeout_ms",
        "_max_lag_ms",
        "_next_slowest_ms",
        "_silent_ms",
        "_slowest",
        "_ticked_ms",
        "_timeouts_ms",
        "newest",
        "value",
    )

    def __init__(
        self,
        senders: Iterable[int],
        max_lag_ms: int,
        idle_timeout_ms: int | None,
        now_ms: int,
        timeouts_ms: Mapping[int, int | None] = MappingProxyType({}),
    ) -> None:
        self.value = BEFORE_ALL
        self.newest: dict[int, int] = {}
        self._max_lag_ms = max_lag_ms
        self._idle_timeout_ms = idle_timeout_ms
        self._timeouts_ms = timeouts_ms
        self._has_timeouts = any(timeout_ms is not None for timeout_ms in (idle_timeout_ms, *timeouts_ms.values()))
        self._silent_ms = dict.fromkeys(senders, 0)  # at the last tick
        self._ticked_ms = now_ms
        self._heard: set[int] = set()  # senders of tuples since the last tick
        self._idle: set[int] = set()
        self._absent: set[int] = set()
        self._slowest: int | None = None  # only a tuple of this sender can raise the watermark; None: any tuple
        self._next_slowest_ms: float = 0  # up to this time, the slowest sender stays the slowest

    def restore(self, value: int, newest: Mapping[int, int]) -> None:
        """Continue from a checkpoint. No sender is idle at first."""
        self.value = value
        self.newest = dict(newest)
        self._absent.clear()
        self._slowest = None

    def leave(self, sender: int) -> None:
        """Record that a sender has nothing to bring until it is ``back``, and raise the watermark if that allows it."""
        if sender not in self._absent:
            self._absent.add(sender)
            self._silent_ms.setdefault(sender, 0)
            self._raise()

    def back(self, sender: int) -> None:
        """Record that a sender holds the watermark back again, if it was absent."""
        if sender in self._absent:
            self._absent.discard(sender)
            self._slowest = None

    def begin_anew(self, sender: int) -> None:
        """Forget how far a sender has come. The watermark does not go back, and waits for the sender."""
        self.newest.pop(sender, None)
        self._absent.discard(sender)
        self._slowest = None

    @property
    def is_alone(self) -> bool:
        """True if all senders are absent."""
        return self._absent.issuperset(self._silent_ms)

    def alive(self, sender: int) -> None:
        """Record that a sender is not silent."""
        if self._has_timeouts:
            self._heard.add(sender)
            if sender in self._idle:
                self._idle.discard(sender)
                self._slowest = None

    def came(self, sender: int, at_ms: int) -> None:
        """Record a tuple, late or not, and raise the watermark if the tuple allows it."""
        if self._has_timeouts:
            self.alive(sender)
        newest = self.newest.get(sender)
        if newest is None:
            self._silent_ms.setdefault(sender, 0)
            self._slowest = None
        if newest is None or at_ms > newest:
            self.newest[sender] = at_ms
            if self._slowest == sender and at_ms <= self._next_slowest_ms:
                self.value = max(self.value, at_ms - self._max_lag_ms)
            elif self._slowest is None or self._slowest == sender:
                self._raise()

    def tick(self, now_ms: int) -> None:
        """Find the idle senders, and raise the watermark if they allow it.

        A task that itself stood still cannot know who was silent meanwhile: no more than half of the idle timeout is
        counted between two ticks.
        """
        if not self._has_timeouts:
            return
        elapsed_ms, self._ticked_ms = now_ms - self._ticked_ms, now_ms
        idle = set()
        for sender, silent_ms in self._silent_ms.items():
            timeout_ms = self._timeouts_ms.get(sender, self._idle_timeout_ms)
            if timeout_ms is None:
                continue
            counted_ms = min(elapsed_ms, max(1, timeout_ms // 2))
            silence_ms = self._silent_ms[sender] = 0 if sender in self._heard else silent_ms + counted_ms
            if silence_ms >= timeout_ms:
                idle.add(sender)
        self._heard.clear()
        if idle != self._idle:
            self._idle = idle
            self._raise()

    def _raise(self) -> None:
        newest, self._slowest = self.newest, None
        resting = self._idle | self._absent
        active = [sender for sender in self._silent_ms if sender not in resting]
        if active:
            self._slowest = next((sender for sender in active if sender not in newest), None)
            if self._slowest is not None:
                self._next_slowest_ms = -math.inf
                return
            self._slowest = min(active, key=newest.__getitem__)
            bound_ms = newest[self._slowest]
            others_ms = (newest[sender] for sender in active if sender != self._slowest)
            self._next_slowest_ms = min(others_ms, default=math.inf)
        elif newest:
            bound_ms = max(newest.values())
        else:
            return
        self.value = max(self.value, bound_ms - self._max_lag_ms)
