"""The participants that have a state: stateful bolts, and in aligned mode spouts with their positions.

**A stateful bolt in default mode** reports no ack before the checkpoint is committed that has the tuple's effect:

    executed, acked by the bolt  --PREPARE-->  prepared, with the state  --COMMIT-->  reported to the ackers
            |                                      |
            +--------------- ROLLBACK -------------+-->  all of their trees are failed, and those of unacked tuples too

**In aligned mode** bolts report their acks at once, and spouts hear of them with the commit: a spout's message whose
tree was complete before the spout's PREPARE is in the checkpoint. Recovery takes every state back to what is committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, cast

from tupletree.component import Spout, StatefulBolt
from tupletree.errors import ConflictError
from tupletree.state.contract import KeyValueState, StateProvider
from tupletree.state.steps import Action, Step

from .barriers import Barriers
from .participant import Participant, Refused
from .spout_task import SpoutTask
from .tasks import BoltTask, Environment
from .tracking import Updates

Opened = tuple[StateProvider, KeyValueState[Any, Any]]
OpenState = Callable[[], Opened]


class TaskState:
    """The state of one task, opened when it is first needed: the store may be away when the worker starts."""

    def __init__(self, component: str, open_state: OpenState) -> None:
        self._component = component
        self._open_state = open_state
        self._opened: Opened | None = None

    @property
    def state(self) -> KeyValueState[Any, Any]:
        """Errors as of StateProvider.new_state."""
        return self._open()[1]

    def _open(self) -> Opened:
        if self._opened is None:
            self._opened = self._open_state()
        return self._opened

    def knows(self, txid: int) -> bool:
        """Whether a checkpoint is prepared or committed as far as is known here."""
        provider, state = self._open()
        return not provider.is_durable or txid in (state.prepared, state.committed)

    def is_at(self, txid: int) -> bool:
        """Whether a checkpoint is the last one committed as far as is known here."""
        provider, state = self._open()
        return not provider.is_durable or (state.committed or 0) == txid

    def forget(self) -> None:
        """Have it opened anew when it is needed next: what is known here may be out of date, since another may have had
        it open in the meantime (a worker that was replaced before it had opened its states, and did so later)."""
        opened, self._opened = self._opened, None
        if opened is not None:
            opened[1].close()

    def prepare(self, txid: int) -> None:
        """Errors as of KeyValueState.prepare_commit."""
        self.state.prepare_commit(txid)

    def commit(self, txid: int) -> None:
        """Commit, unless this state is new and was not part of the checkpoint. Errors as of KeyValueState.commit."""
        provider, state = self._open()
        if state.prepared is None and state.committed is None and provider.is_durable:
            return  # a state that was lost is found at INITSTATE, which follows
        state.commit(txid)

    def rollback(self) -> None:
        """Errors as of KeyValueState.rollback."""
        self.state.rollback()

    def check(self, step: Step, *, is_unused: bool) -> None:
        """See at INITSTATE that the state is that of the committed checkpoint.

        Of a component that is new it is emptied, if it ``is_unused``: nothing was executed on it since it was opened or
        rolled back.

        Raises:
            ConflictError: it is of another checkpoint.
        """
        provider, state = self._open()
        committed = state.committed
        if not provider.is_durable or committed == step.txid:
            return
        if committed is not None and committed > step.txid:
            raise ConflictError(
                f"the state of component {self._component!r} was committed with checkpoint {committed}, and the last "
                f"of the topology is {step.txid}: the state is another topology's, or the checkpoint's record was "
                f"removed; choose another topology.state.id"
            )
        if self._component in step.fresh:
            if is_unused:  # what is there was left by a component of that name, which was gone meanwhile
                for key in [key for key, _ in state.items()]:
                    state.delete(key)
        elif step.txid > 0:
            found = "is empty" if committed is None else f"was last committed with checkpoint {committed}"
            raise ConflictError(
                f"the state of component {self._component!r} {found}, and the last checkpoint of the topology is "
                f"{step.txid}: the store has lost what was committed, or is not the one that was written to (a file "
                f"must be reachable from every machine); restore it, or choose another topology.state.id to begin anew"
            )

    def close(self) -> None:
        """Close the state, if it was opened."""
        if self._opened is not None:
            self._opened[1].close()


class StatefulParticipant(Participant):
    """Takes part for a task of a stateful bolt."""

    has_state: ClassVar[bool] = True

    def __init__(self, task: BoltTask, env: Environment, barriers: Barriers, state: TaskState) -> None:
        super().__init__(task, env, barriers)
        self._bolt_task = task
        self._state = state
        self._needs_init = True
        self._prepared_acks = Updates()
        task.unacked = set()
        if not barriers.is_aligned:
            task.defers_acks = True
            task.ack_updates = Updates()

    @property
    def _bolt(self) -> StatefulBolt:
        return cast(StatefulBolt, self._bolt_task.bolt)  # another one after a recovery

    def perform(self, step: Step) -> None:
        match step.action:
            case Action.PREPARE:
                self.check_fitness()
                self._bolt.pre_prepare(step.txid)
                self._state.prepare(step.txid)
                self._acks_prepared()
            case Action.COMMIT:
                if not self._state.knows(step.txid):
                    self._begin_anew()
                if self.barriers.is_initialised:
                    self._bolt.pre_commit(step.txid)
                self._state.commit(step.txid)
                self._acks_committed()
            case Action.ROLLBACK:
                self._roll_back()
            case Action.INITSTATE:
                self._initialise(step)

    def close(self) -> None:
        self._state.close()

    def _initialise(self, step: Step) -> None:
        if self.barriers.is_aligned:
            self._roll_back()
            self.begin_generation(step)
        if not self._state.is_at(step.txid):
            self._begin_anew()
        self._state.check(step, is_unused=not self.barriers.is_initialised)
        if self._needs_init:
            self._bolt.init_state(self._state.state)
            self._needs_init = False

    def _roll_back(self) -> None:
        if self.barriers.is_initialised:
            self._bolt.pre_rollback()
        self._state.rollback()
        self._take_back()

    def _begin_anew(self) -> None:
        """Have the state opened anew, without what is not saved."""
        self._state.forget()
        self._take_back()

    def _take_back(self) -> None:
        """The effects of tuples are gone: fail their trees. Until INITSTATE nothing is executed."""
        self._needs_init = True
        self.barriers.is_initialised = False
        self.fail_unacked()
        if self._task.defers_acks:
            for told_never in (self._task.ack_updates, self._prepared_acks):
                self._task.updates.fails.update(told_never.roots())
            self._task.ack_updates, self._prepared_acks = Updates(), Updates()

    def _acks_prepared(self) -> None:
        if self._task.defers_acks:
            self._prepared_acks.add_acks(self._task.ack_updates)
            self._task.ack_updates = Updates()

    def _acks_committed(self) -> None:
        self._task.updates.add_acks(self._prepared_acks)
        self._prepared_acks = Updates()


class SpoutParticipant(Participant):
    """Takes part for a task of a spout, in aligned mode. ``state`` is that of a positioned spout, None of another."""

    has_state: ClassVar[bool] = True

    def __init__(
        self, task: SpoutTask, spout: Spout, env: Environment, barriers: Barriers, state: TaskState | None
    ) -> None:
        super().__init__(task, env, barriers)
        self._spout = spout
        self._spout_task = task
        self._state = state
        self._initial: Any = None  # the position right after open
        self._must_restore = False  # as soon as the spout is open
        self._acked: list[Any] = []  # message ids that no prepared checkpoint has
        self._prepared: list[Any] = []
        self._failed: list[Any] = []
        task.tell_acked = self._acked_later
        task.tell_failed = self._failed_now

    def perform(self, step: Step) -> None:
        match step.action:
            case Action.PREPARE:
                self.check_fitness()
                if self._state is not None:
                    if self._task.is_open:
                        self._state.state.put(POSITION, self._spout.checkpoint_state())
                    self._state.prepare(step.txid)
                self._prepared += self._acked
                self._acked = []
            case Action.COMMIT:
                self._commit(step)
            case Action.ROLLBACK:
                if self._state is not None:
                    self._state.rollback()
                self.barriers.is_initialised = False
            case Action.INITSTATE:
                self._initialise(step)

    def check_fitness(self) -> None:
        super().check_fitness()
        if self._must_restore and self._task.is_open:
            raise Refused("the spout is not where the last checkpoint left it")

    def opened(self) -> None:
        if self._state is not None:
            self._initial = self._spout.checkpoint_state()
        if self._must_restore:
            self._restore()

    def close(self) -> None:
        if self._state is not None:
            self._state.close()

    def _initialise(self, step: Step) -> None:
        if self._state is not None:
            if not self._state.is_at(step.txid):
                self._state.forget()
            self._state.rollback()
            self._state.check(step, is_unused=True)
        self.begin_generation(step)
        taken_back = [*self._prepared, *self._acked, *self._failed, *self._spout_task.take_pending()]
        self._prepared, self._acked, self._failed = [], [], []
        if self._state is None:
            self._fail_all(taken_back)
        self._must_restore = True
        if self._task.is_open:
            self._restore()

    def _commit(self, step: Step) -> None:
        if self._state is not None:
            if not self._state.knows(step.txid):
                self._state.forget()
                self.barriers.is_initialised = False
            self._state.commit(step.txid)
        done, self._prepared = self._prepared, []
        for msg_id in done:
            self._spout.ack(msg_id)

    def _restore(self) -> None:
        if self._state is not None:
            position = self._state.state.get(POSITION, UNKNOWN)
            self._spout.restore_state(self._initial if position is UNKNOWN else position)
        self._must_restore = False

    def _acked_later(self, msg_id: Any) -> None:
        self._acked.append(msg_id)

    def _failed_now(self, msg_id: Any) -> None:
        """Nothing is replayed by itself: all of the topology goes back, and the spout with it."""
        self._task.has_failed_tuples = True
        self._failed.append(msg_id)

    def _fail_all(self, msg_ids: Iterable[Any]) -> None:
        for msg_id in msg_ids:
            self._spout.fail(msg_id)


POSITION = "position"
UNKNOWN: Any = object()
