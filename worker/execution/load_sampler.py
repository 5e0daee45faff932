"""Loads of a worker's own tasks, sampled from their inboxes."""

from __future__ import annotations  # pure

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from .load_shares import LoadMeter

MIN_WAIT_S = 0.01
"""Shorter waits are not worth telling: the task is free."""


EARLY_S = 0.25
"""A load that ends so much earlier than was told is worth a message."""


class Waiting(Protocol):
    """The part of an inbox that is sampled."""

    @property
    def rows(self) -> int: ...
    @property
    def executed(self) -> int: ...
    @property
    def tasks(self) -> Iterable[int]: ...


class LoadSampler:
    """The loads of the executors of a worker, at the last sample.

    ``free_s``: when each loaded task has executed all that waits for it; replaced as a whole.
    """

    def __init__(self) -> None:
        self.free_s: Mapping[int, float] = {}
        self._meters: dict[Waiting, LoadMeter] = {}

    def sample(self, inboxes: Iterable[Waiting], now_s: float) -> Mapping[int, float]:
        """Sample these inboxes, and return ``free_s``."""
        meters: dict[Waiting, LoadMeter] = {}
        free_s: dict[int, float] = {}
        for inbox in inboxes:
            meters[inbox] = meter = self._meters.get(inbox) or LoadMeter(now_s)
            wait_s = meter.sample(inbox.rows, inbox.executed, now_s)
            if wait_s >= MIN_WAIT_S:
                free_s.update(dict.fromkeys(inbox.tasks, now_s + wait_s))
        self._meters = meters
        self.free_s = free_s
        return free_s


def by_wait(free_s: Mapping[int, float], now_s: float) -> list[tuple[Sequence[int], int]]:
    """Return the loads as other workers are told them: tasks with the same wait, and the wait in milliseconds."""
    tasks: dict[int, list[int]] = {}
    for task, at_s in free_s.items():
        wait_ms = round(1000 * (at_s - now_s))
        if wait_ms > 0:
            tasks.setdefault(wait_ms, []).append(task)
    return [(found, wait_ms) for wait_ms, found in tasks.items()]


def has_ended_early(told_s: Mapping[int, float], free_s: Mapping[int, float], now_s: float) -> bool:
    """True if a task that was told as loaded is, or will be, free much earlier. Others may give it a little to do."""
    return any(at_s - max(now_s, free_s.get(task, now_s)) > EARLY_S for task, at_s in told_s.items())
