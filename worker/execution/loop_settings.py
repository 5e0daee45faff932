"""Settings of run loops (run_loop.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tupletree.errors import TaskFailedError

from ..core.ack_updates import AckUpdates
from ..core.task import Clock
from .executor import Executor

Heir = Callable[[Sequence[Executor]], bool]  # takes over the executors that a loop gives up, or returns False


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """Settings that all run loops of a worker share."""

    clock: Clock
    batch_size: int
    flush_interval_s: float
    post: Callable[[AckUpdates], None]
    on_failure: Callable[[TaskFailedError], None]
    on_split: Callable[[Executor, Sequence[Executor]], None]  # (the one that blocks or is set up, those to move)
    on_divide: Callable[[Executor], Executor]  # has an executor replaced by its parts, and returns the first
