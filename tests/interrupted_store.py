"""A StateStore that is away for one operation, whose effect comes at once, late or never."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

import pytest

from tupletree._stores.nodes import Node, StateStore, Write
from tupletree.errors import ConflictError, UnavailableError

NEVER = -1
LATENESSES = (NEVER, 0, 1, 2, 3, 4, 5)


class InterruptedStore:
    """``store``, but its operation number ``at`` raises UnavailableError.

    If that is a write, the store comes to it all the same after ``lateness`` further operations, and makes it or not
    as things are then; NEVER: it does not come to it. ``interrupted`` tells whether it came to an interruption.
    """

    def __init__(self, store: StateStore, at: int, lateness: int = NEVER) -> None:
        self.store = store
        self.interrupted = False
        self._operation = -1
        self._at = at
        self._lateness = lateness
        self._late: Sequence[Write] = ()

    def get(self, path: str) -> Node | None:
        self._operate()
        return self.store.get(path)

    def children(self, path: str) -> list[str]:
        self._operate()
        return self.store.children(path)

    def write(self, writes: Sequence[Write]) -> None:
        self._operate(writes)
        self.store.write(writes)

    def close(self) -> None:
        self.store.close()

    def _operate(self, writes: Sequence[Write] = ()) -> None:
        self._operation += 1
        if self._operation == self._at:
            self.interrupted = True
            self._late = writes
        if self._lateness != NEVER and self._operation == self._at + self._lateness:
            with suppress(ConflictError):
                self.store.write(self._late)
        if self._operation == self._at:
            raise UnavailableError("the store is away")


def interruptions(limit: int = 1000) -> Iterator[tuple[int, int]]:
    """(at, lateness) for every operation of a scenario, which ends the loop itself once nothing interrupts it."""
    for at in range(limit):
        for lateness in LATENESSES:
            yield at, lateness
    pytest.fail(f"the scenario takes more than {limit} operations")
