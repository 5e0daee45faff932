"""Holding of checkpoints, asked of the worker that runs the checkpoint spout (Worker.HoldCheckpoints)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, cast

from tupletree._checkpoints.steps import CHECKPOINT_SPOUT
from tupletree._limits import shown
from tupletree.errors import NotFoundError, UnavailableError, UsageError
from tupletree.v1 import worker_pb2

from ..core.spout_task import SpoutTask
from ..core.task import Task
from .on_task import on_task

if TYPE_CHECKING:
    from tupletree._checkpoints.spout import CheckpointSpout  # imports ZooKeeper's client

MAX_HOLD_S: Final = 60.0
_ANSWER_S: Final = 5.0


class Holding:
    """The checkpoint spout of a worker, if it runs there, for those who want checkpoints held."""

    def __init__(self, topology_id: str, tasks: Iterable[Task]) -> None:
        self._topology_id = topology_id
        spouts = (one for one in tasks if isinstance(one, SpoutTask) and one.component_id == CHECKPOINT_SPOUT)
        self._task = next(spouts, None)

    async def hold(self, request: worker_pb2.HoldTaskCheckpointsRequest) -> worker_pb2.HoldTaskCheckpointsReply:
        """Hold the checkpoints of the topology for a while.

        Raises:
            NotFoundError: this is a worker of another topology.
            UsageError: the time is none, or too long.
            UnavailableError: the checkpoint spout does not run here, is not open yet, or does not come to it in time.
        """
        if request.topology_id != self._topology_id:
            raise NotFoundError(
                f"this is a worker of topology {self._topology_id}, not of {shown(request.topology_id)}"
            )
        check_hold(request.hold_s)
        task = self._task
        if task is None:
            raise UnavailableError("the checkpoint spout does not run in this worker")
        spout = cast("CheckpointSpout", task.spout)
        if not task.is_open:
            raise UnavailableError("the checkpoint spout is not open yet; try again")
        held = await on_task(task, lambda: spout.hold(request.hold_s), _ANSWER_S, "try again")
        if isinstance(held, BaseException):
            raise UnavailableError(f"the checkpoint spout raised {type(held).__name__}: {held}")
        return worker_pb2.HoldTaskCheckpointsReply(held=held)


def check_hold(hold_s: float) -> None:
    """Check for how long checkpoints are to be held. Raises UsageError."""
    if not (math.isfinite(hold_s) and 0 <= hold_s <= MAX_HOLD_S):
        raise UsageError(f"checkpoints can be held for 0 to {MAX_HOLD_S:g} seconds, not {hold_s:g}")
