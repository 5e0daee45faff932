"""Log entries for calls that do not return, written while the calls last."""

from __future__ import annotations

import logging
import math

from tupletree._log import event

from .executor import Executor

log = logging.getLogger(__name__)

HANGS_AGAIN_S = 60.0  # minimum time between two log entries about one loop


class HangLog:
    """State of the log about hanging calls of one run loop."""

    def __init__(self) -> None:
        self._told_s = -math.inf
        self._told_step = 0

    def log_call(self, executor: Executor, step: int, now_s: float, elapsed_s: float) -> None:
        """Log that a call does not return, once per step. A spout declared as blocking may wait forever."""
        if executor.may_wait or self._told_step == step or now_s - self._told_s < HANGS_AGAIN_S:
            return
        self._told_step, self._told_s = step, now_s
        event(
            log,
            "executor.hangs",
            level=logging.WARNING,
            component=executor.component_id,
            task=executor.present_task.task_id,
            cause=f"one call of the component has not returned for {elapsed_s:.0f} s",
            remedy="tupletree profile NAME PORT --stacks shows where it is",
        )
