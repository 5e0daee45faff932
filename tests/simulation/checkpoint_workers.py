"""Workers of the simulated stateful topology: the rules to be broken, and what is simulated around their tasks."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from checkpoint_nouns import ID
from checkpoint_sinks import Write
from checkpoint_stores import open_state
from transaction_stores import SimulatedStore

from tupletree._checkpoints.record import stored_checkpoint
from tupletree._checkpoints.spout import CheckpointSpout
from tupletree._checkpoints.steps import Step
from tupletree.testing.simulation import workers
from tupletree.worker.checkpoint.participant import Participant
from tupletree.worker.checkpoint.spout_participant import SpoutParticipant
from tupletree.worker.checkpoint.stateful_participant import StatefulParticipant
from tupletree.worker.core.task import Task

if TYPE_CHECKING:
    from checkpoint_world import World


class Worker(workers.Worker):
    """One life of the worker of a slot."""

    world: World

    def dress(self, task: Task) -> None:
        """Give a task what is simulated around it, and the rules that are to be broken in it."""
        rules = self.world.rules
        component = task.spout if hasattr(task, "spout") else task.bolt
        self._adopt(component)
        task.remake = functools.partial(self._remade, task.remake)
        if isinstance(component, CheckpointSpout):
            component._open_store = lambda conf: SimulatedStore(self.world, self)
            component.__class__ = rules.checkpoint_spout
            component._send = functools.partial(self._send_step, component._send)  # type: ignore[method-assign]
            return
        participant: Any = task.participant
        if participant is None:
            return
        kinds = {Participant: rules.participant, StatefulParticipant: rules.stateful, SpoutParticipant: rules.spout}
        participant.__class__ = kinds[type(participant)]
        participant.barriers.__class__ = rules.barriers
        if getattr(participant, "_state", None) is not None:
            participant._state._open_state = functools.partial(open_state, self, task)
            participant._state._newest_round = lambda: stored_checkpoint(self.world.store, ID).round

    def _remade(self, remake: Callable[[], Any]) -> Any:
        component = remake()
        self._adopt(component)
        return component

    def _adopt(self, component: Any) -> None:
        if isinstance(component, Write):
            component.live_in(self)
        component.worker = self

    def _send_step(self, send: Callable[[Step], None], step: Step) -> None:
        self.world.counts[f"sent {step.action.name.lower()}"] += 1
        self.world.tell(f"{self} sends {step}")
        send(step)
