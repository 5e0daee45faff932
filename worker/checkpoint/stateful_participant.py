"""The participants of stateful bolts.

**In default mode** an ack is reported only after the checkpoint with the tuple's effect is committed:

    executed, acked by the bolt  --PREPARE-->  prepared, with the state  --COMMIT-->  reported to the ackers
            |                                      |
            +--------------- ROLLBACK -------------+-->  the trees of these and of all unacked tuples are failed

**In aligned mode** acks are reported at once. A spout's ``ack`` is called at the commit (spout_participant.py).
Recovery rolls every state back to the last commit.
"""

from __future__ import annotations

from typing import Any, ClassVar, cast

from tupletree._checkpoints.steps import Action, Step
from tupletree.component import StatefulBolt
from tupletree.state import KeyValueState

from ..core.ack_updates import AckUpdates
from ..core.bolt_task import BoltTask
from ..core.task import Environment
from .barriers import Barriers
from .participant import Participant
from .task_state import TaskState


class StatefulParticipant(Participant):
    """Participant of a stateful bolt's task."""

    has_state: ClassVar[bool] = True

    def __init__(self, task: BoltTask, env: Environment, barriers: Barriers, state: TaskState) -> None:
        super().__init__(task, env, barriers)
        self._bolt_task = task
        self._state = state
        self._needs_init = True
        self._prepared_acks = AckUpdates()
        task.unacked = set()
        if not barriers.is_aligned:
            task.defers_acks = True
            task.ack_updates = AckUpdates()

    @property
    def task_state(self) -> TaskState:
        return self._state

    @property
    def _bolt(self) -> StatefulBolt:
        return cast(StatefulBolt, self._bolt_task.bolt)  # recovery may replace the bolt

    @property
    def state(self) -> KeyValueState[Any, Any]:
        """The state of the bolt."""
        return self._state.state

    def perform(self, step: Step) -> None:
        self._state.at(step)
        match step.action:
            case Action.PREPARE:
                self.check_fitness()
                self._bolt.pre_prepare(step.txid)
                self._state.prepare(step.txid)
                self._acks_prepared()
            case Action.COMMIT:
                if not self._state.knows(step):
                    self._begin_anew()
                if self.barriers.is_initialised:
                    self._bolt.pre_commit(step.txid)
                self._state.commit(step)
                if not self._state.is_new(step):
                    self._bolt.post_commit(step.txid, self._state.state)
                self._acks_committed()
            case Action.ROLLBACK:
                self._state.settle(step)
                self._roll_back()
            case Action.INITSTATE:
                self._initialise(step)

    def close(self) -> None:
        self._state.close()

    def _initialise(self, step: Step) -> None:
        if self.barriers.is_aligned:
            if self._has_begun:
                self._roll_back()
            self.begin_generation(step)
        if not self._state.is_at(step.txid):
            self._begin_anew()
        self._state.settle(step)
        self._state.check(step, is_unused=not self.barriers.is_initialised)
        if self._needs_init:
            state = self._state.state
            state.default_factory = self._bolt.default_factory
            state.topology_checkpoint = step.txid
            with self._task.set_up:
                self._state.migrate(step, self._bolt)
                self._bolt.init_state(state)
            self._needs_init = False

    def _roll_back(self) -> None:
        if self.barriers.is_initialised:
            self._bolt.pre_rollback()
        self._state.rollback()
        self._fail_rolled_back()

    def _begin_anew(self) -> None:
        """Reopen the state, discarding everything that is not saved."""
        self._state.forget()
        self._fail_rolled_back()

    def _fail_rolled_back(self) -> None:
        """Fail the trees of tuples whose effects were rolled back. Nothing is executed until INITSTATE."""
        self._needs_init = True
        self.barriers.is_initialised = False
        self.fail_unacked()
        if self._task.defers_acks:
            for told_never in (self._task.ack_updates, self._prepared_acks):
                self._task.updates.fails.update(told_never.roots())
            self._task.ack_updates, self._prepared_acks = AckUpdates(), AckUpdates()

    def _acks_prepared(self) -> None:
        if self._task.defers_acks:
            self._prepared_acks.add_acks(self._task.ack_updates)
            self._task.ack_updates = AckUpdates()

    def _acks_committed(self) -> None:
        self._task.updates.add_acks(self._prepared_acks)
        self._prepared_acks = AckUpdates()
