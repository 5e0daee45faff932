"""The log line about an executor that was found blocking."""

from __future__ import annotations

import logging

from tupletree._log import event

from .executor import Executor

log = logging.getLogger(__name__)


def log_blocking(executor: Executor) -> None:
    """Log that an executor was found blocking."""
    event(
        log,
        "executor.blocking",
        level=logging.WARNING,
        component=executor.component_id,
        tasks=",".join(str(task.task_id) for task in executor.tasks),
        remedy="the executor has its own run loop until it stops blocking; set blocking = True on the component if "
        "its calls usually wait",
    )
