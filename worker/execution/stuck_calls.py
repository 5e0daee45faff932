"""Calls that do not end, in the log while they last."""

from __future__ import annotations

import logging
import math

from tupletree._log import event

from .executor import Executor

log = logging.getLogger(__name__)

HANGS_AGAIN_S = 60.0  # the log is silent of other calls in the same loop for so long


class HangLog:
    """What the log was told of the calls in one run loop."""

    def __init__(self) -> None:
        self._told_s = -math.inf
        self._told_step = 0

    def tell(self, executor: Executor, step: int, now_s: float, elapsed_s: float) -> None:
        """Log that a call does not end, once for each step. A spout that declares that it blocks may wait forever."""
        if executor.may_wait or self._told_step == step or now_s - self._told_s < HANGS_AGAIN_S:
            return
        self._told_step, self._told_s = step, now_s
        event(
            log,
            "executor.hangs",
            level=logging.WARNING,
            component=executor.component_id,
            task=executor.at_work.task_id,
            cause=f"one call of the component has not returned for {elapsed_s:.0f} s",
            remedy="tupletree profile NAME PORT --stacks shows where it is",
        )
