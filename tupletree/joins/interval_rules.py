"""The rules of interval joins: which tuples of one key are joined when, and how long each is kept.

A left tuple of time ``t`` and a right tuple are *partners* if the time of the right one is from ``t - before`` to
``t + after``. They are joined when the second of them arrives, so each pair is joined once. The last time at which a
partner of a left tuple can lie is ``t + after``, of a right tuple ``t + before``. Once the watermark is above that
time, no partner can come any more: the tuple is removed, and is joined with None if it had no partner and its side is
*reported* (the left side of a left join, both sides of an outer join).

The record of a key is [left timeline, right timeline, timer]: the timer is the watermark at which ``expire`` is due.
"""

from __future__ import annotations  # pure

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from tupletree.joins.timeline import MAX_CHUNK, Timeline, new_record
from tupletree.state.contract import KeyValueState

Pair = tuple[Any, Any]
"""What is joined: what is kept of the left and of the right tuple; None where there is no partner."""


@dataclass(frozen=True, slots=True)
class IntervalRules:
    """The settings of one interval join. ``reported``: left, right."""

    before_ms: int
    after_ms: int
    reported: tuple[bool, bool]
    max_chunk: int = MAX_CHUNK

    @property
    def longest_wait_ms(self) -> int:
        """The longest time, by the watermark, after which a tuple may be joined with None; 0 if none is."""
        waits = zip((self.after_ms, self.before_ms), self.reported, strict=True)
        return max([0, *(wait_ms for wait_ms, is_reported in waits if is_reported)])


class IntervalBuffer:
    """Both sides of one key. ``side``: 0 is left, 1 is right.

    Attributes:
        record: changed in place; the caller saves it.
        due: the watermark at which ``expire`` is due; None if no tuple is kept.
        has_changed: True if the record, or what is stored beside it, has changed.
    """

    __slots__ = ("_rules", "_sides", "due", "has_changed", "record")

    def __init__(
        self, rules: IntervalRules, record: list[Any] | None, state: KeyValueState[Any, Any], key: Hashable
    ) -> None:
        """``record``: None for a key without tuples."""
        self._rules = rules
        self.record: list[Any] = [new_record(), new_record(), None] if record is None else record
        self.due: int | None = self.record[2]
        self.has_changed = False
        self._sides = (
            Timeline(self.record[0], state, "$left", key, rules.max_chunk),
            Timeline(self.record[1], state, "$right", key, rules.max_chunk),
        )

    def pairs(self, side: int, time: int, value: Any, watermark: int) -> list[Pair]:
        """Return the pairs of an arriving tuple. Changes nothing."""
        first, last = self._partner_times(side, time)
        found = self._sides[1 - side].between(first, last)
        if not found and last < watermark and self._rules.reported[side]:
            found = [None]
        return [(value, other) for other in found] if side == 0 else [(other, value) for other in found]

    def add(self, side: int, time: int, value: Any, has_partner: bool, watermark: int) -> None:
        """Keep an arriving tuple as long as a partner can come, and mark its partners.

        ``has_partner``: True if ``pairs`` has returned any.
        """
        first, last = self._partner_times(side, time)
        reported = self._rules.reported
        own, other = self._sides[side], self._sides[1 - side]
        if has_partner and reported[1 - side]:
            other.mark(first, last)
            self.has_changed = True
        if last < watermark:
            return
        if not reported[side]:
            own.drop_before(watermark - (last - time))
        own.add(time, value, has_partner)
        self.due = last + 1 if self.due is None else min(self.due, last + 1)
        self.has_changed = True

    def expire(self, watermark: int) -> list[Pair]:
        """Remove the tuples whose partners cannot come any more, and return the pairs of those to report."""
        pairs: list[Pair] = []
        for side, own in enumerate(self._sides):
            end = watermark - self._wait_ms(side)
            if not self._rules.reported[side]:
                own.drop_before(end)
                continue
            alone = (value for _, value, has_partner in own.take_before(end) if not has_partner)
            pairs += ((value, None) if side == 0 else (None, value) for value in alone)
        self.due = self._next_due()
        self.has_changed = True
        return pairs

    @property
    def is_empty(self) -> bool:
        """True if no tuple is kept."""
        return self.due is None

    def _next_due(self) -> int | None:
        dues = []
        for side, own in enumerate(self._sides):
            time = own.due(unmarked=self._rules.reported[side])
            if time is not None:
                dues.append(time + self._wait_ms(side) + 1)
        return min(dues, default=None)

    def _wait_ms(self, side: int) -> int:
        return self._rules.before_ms if side else self._rules.after_ms

    def _partner_times(self, side: int, time: int) -> tuple[int, int]:
        """Return the first and the last time at which a partner can lie."""
        return time - self._wait_ms(1 - side), time + self._wait_ms(side)
