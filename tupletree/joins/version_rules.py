"""The rules of joins with a versioned table: which version of a row a tuple is joined with, and how long both are kept.

A row of the table is valid from its own event time on, until the next row of the key. A tuple of time ``t`` is joined
with the version that is valid at ``t``. It waits until the watermark is above ``t``: until then another version can
come. Later tuples are never before the watermark, so the versions before the one valid at the watermark are removed.

A deletion is a version without a row. It is removed once it is the version valid at the watermark.

The record of a key is [waiting tuples, versions, timer]: the timer is the watermark at which ``ready`` is due.
"""

from __future__ import annotations  # pure

from collections.abc import Hashable
from typing import Any

from tupletree.joins.timeline import MAX_CHUNK, Timeline, new_record
from tupletree.state.contract import KeyValueState

Joined = tuple[Any, Any]
"""What is kept of a tuple and of a row; None in place of the row if there was none."""


class VersionBuffer:
    """The waiting tuples and the versions of one key.

    Attributes:
        record: changed in place; the caller saves it.
        due: the watermark at which ``ready`` is due; None if it is not.
    """

    __slots__ = ("_versions", "_waiting", "due", "record")

    def __init__(
        self,
        record: list[Any] | None,
        state: KeyValueState[Any, Any],
        key: Hashable,
        max_chunk: int = MAX_CHUNK,
    ) -> None:
        """``record``: None for a key without tuples and rows."""
        self.record: list[Any] = [new_record(), new_record(), None] if record is None else record
        self.due: int | None = self.record[2]
        self._waiting = Timeline(self.record[0], state, "$waiting", key, max_chunk)
        self._versions = Timeline(self.record[1], state, "$versions", key, max_chunk)

    def wait(self, time: int, value: Any) -> None:
        """Keep a tuple until the watermark is above its time."""
        self._waiting.add(time, value)
        self.due = time + 1 if self.due is None else min(self.due, time + 1)

    def put(self, time: int, row: Any, watermark: int) -> None:
        """Add a version; None is a deletion. A row of the same time as another one replaces it."""
        self._versions.replace(time, row)
        self._remove_outdated(watermark)
        self.due = self._next_due()

    def ready(self, watermark: int) -> list[Joined]:
        """Remove the tuples before the watermark, and return them in order, each with its version."""
        joined = []
        for time, value, _ in self._waiting.take_before(watermark):
            version = self._versions.newest_until(time)
            joined.append((value, None if version is None else version[1]))
        self._remove_outdated(watermark)
        self.due = self._next_due()
        return joined

    @property
    def is_empty(self) -> bool:
        """True if there are neither tuples nor versions."""
        return not self._waiting and not self._versions

    def _next_due(self) -> int | None:
        dues = []
        if (time := self._waiting.due(unmarked=True)) is not None:
            dues.append(time + 1)
        oldest = self._versions.oldest(2)
        if oldest and oldest[0][1] is None:
            dues.append(oldest[0][0])
        elif len(oldest) > 1:
            dues.append(oldest[1][0])
        return min(dues, default=None)

    def _remove_outdated(self, watermark: int) -> None:
        """Remove the versions before the one that is valid at the watermark; that one, too, if it is a deletion."""
        valid = self._versions.newest_until(watermark)
        if valid is not None:
            time, row = valid
            self._versions.take_before(time + 1 if row is None else time)
