"""The participants of spouts, with aligned checkpoints.

A checkpoint contains the messages that a spout emitted before its PREPARE. A PREPARE passes a bolt only after the bolt
has executed and acked all earlier tuples. So when all tasks have prepared, the trees of these messages are complete,
even if their verdicts have not arrived yet. The spout's ``ack`` is called at the commit. Recovery returns a positioned
spout to its saved position. For any other spout, recovery fails all messages that are in no committed checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from tupletree._checkpoints.steps import Action, Step
from tupletree._wire.codec import decode_value, encode_value
from tupletree._wire.fail_reasons import FailReason
from tupletree.component import Spout
from tupletree.errors import FailedException, UnavailableError, UsageError

from ..core.spout_task import SpoutTask
from ..core.task import Environment
from .barriers import Barriers
from .participant import Participant
from .task_state import Refused, TaskState


class SpoutParticipant(Participant):
    """Participant of a spout task, in aligned mode. ``state`` is None unless the spout is positioned."""

    has_state: ClassVar[bool] = True

    def __init__(
        self, task: SpoutTask, spout: Spout, env: Environment, barriers: Barriers, state: TaskState | None
    ) -> None:
        super().__init__(task, env, barriers)
        self._spout = spout
        self._spout_task = task
        self._state = state
        self._initial = b""  # the position right after open, encoded: the spout may change the object
        self._must_restore = False  # restore the position as soon as the spout is open
        self._acked: list[Any] = []  # message ids that are in no prepared checkpoint
        self._prepared: list[Any] = []
        self._failed: list[Any] = []
        self._has_told = False  # of a failed message, since the last recovery
        task.tell_acked = self._acked_later
        task.tell_failed = self._failed_now

    @property
    def task_state(self) -> TaskState | None:
        return self._state

    def perform(self, step: Step) -> None:
        if self._state is not None:
            self._state.at(step)
        match step.action:
            case Action.PREPARE:
                self.check_fitness()
                if self._state is not None:
                    if self._task.is_open:
                        self._state.state.put(POSITION, self._spout.checkpoint_state())
                    self._state.prepare(step.txid)
                self._move_all()
                self._count()
            case Action.COMMIT:
                self._commit(step)
            case Action.ROLLBACK:
                if self._state is not None:
                    self._state.settle(step)
                    self._state.rollback()
                self.barriers.is_initialised = False
            case Action.INITSTATE:
                self._initialise(step)

    @property
    def is_ready(self) -> bool:
        return super().is_ready and not (self._must_restore and self._task.is_open)

    def check_fitness(self) -> None:
        super().check_fitness()
        if self._must_restore and self._task.is_open:
            raise Refused("the spout's position differs from the last checkpoint")

    def opened(self) -> None:
        if self._spout_task.collector.emits:
            raise UsageError(
                f"spout {self._task.component_id!r} has emitted in open: with topology.state.checkpoint.aligned "
                f"nothing may be emitted before next_tuple"
            )
        if self._state is not None:
            self._initial = encode_value(self._spout.checkpoint_state())
        if self._must_restore:
            try:
                self._restore()
            except UnavailableError as error:  # the next PREPARE is refused, and recovery tries again
                self._task.report_error(error)

    def close(self) -> None:
        if self._state is not None:
            self._state.close()

    def _initialise(self, step: Step) -> None:
        if self._state is not None:
            if not self._state.is_at(step.txid):
                self._state.forget()
            self._state.settle(step)
            self._state.rollback()
            self._state.check(step, is_unused=True)
        self.begin_generation(step)
        taken_back = [*self._prepared, *self._acked, *self._failed, *self._spout_task.pop_pending()]
        self._prepared, self._acked, self._failed = [], [], []
        self._has_told = False
        self._count()
        if self._state is None:
            self._notify(self._spout.fail, taken_back)
        self._must_restore = True
        if self._task.is_open:
            self._restore()

    def _move_all(self) -> None:
        """Move all messages emitted so far into the checkpoint that is being prepared."""
        pending = self._spout_task.pop_as_acked()
        self._prepared += [*self._acked, *pending]
        self._acked = []

    def _commit(self, step: Step) -> None:
        if self._state is not None:
            if not self._state.knows(step):
                self._state.forget()
                self.barriers.is_initialised = False
            self._state.commit(step)
        done, self._prepared = self._prepared, []
        self._count()
        self._notify(self._spout.ack, done)

    def _restore(self) -> None:
        if self._state is not None:
            position = self._state.state.get(POSITION, UNKNOWN)
            self._spout.restore_state(decode_value(self._initial) if position is UNKNOWN else position)
        self._must_restore = False

    def _acked_later(self, msg_id: Any) -> None:
        self._acked.append(msg_id)
        self._count()

    def _failed_now(self, msg_id: Any, reason: FailReason | None) -> None:
        """Record a failed message. The spout's ``fail`` is not called now: recovery rolls back the whole topology.

        The first failure is reported, since the same tuple may fail each time. ``reason``: None if a process was lost.
        """
        self._task.has_failed_tuples = True
        self._failed.append(msg_id)
        if reason is not None and not self._has_told:
            self._has_told = True
            what = f"component {reason.component!r} failed a tuple" if reason.component else "a tuple failed"
            self._task.report_error(
                FailedException(
                    f"{what}: {reason.error or 'it gave no reason'}; with aligned checkpoints everything since the "
                    f"last one is processed again, however often this happens: let the bolt leave out what can never "
                    f"succeed"
                )
            )

    def _count(self) -> None:
        """Count completed but uncommitted messages as pending. Otherwise they would pile up while the store is down."""
        self._spout_task.uncommitted = len(self._acked) + len(self._prepared)

    def _notify(self, call: Callable[[Any], None], msg_ids: Iterable[Any]) -> None:
        """Call the spout for each message. If the spout raises, raise TaskFailedError and skip the rest."""
        try:
            for msg_id in msg_ids:
                call(msg_id)
        except (Exception, SystemExit) as error:
            raise self._task.failure(error) from error


POSITION = "position"
UNKNOWN: Any = object()
