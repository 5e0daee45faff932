"""What takes part in checkpoints for one task: it gets the steps, holds tuples back, acts, and passes the steps on.

The rules are those of barriers.py; here they are carried out. Everything runs on the task's own thread.

No step is acked before the task has acted on its round: the sources of a task that was started anew in the middle of a
round may have sent their steps to one incarnation each, and neither has all of them. Both would be waiting for the
rest, the trees would be complete, and nobody would have acted.

A step must not overtake what its task has emitted before, nor be overtaken by what it emits after. So at every step
what lies in the task's buffers goes into ``channels`` first, by receiving task, then the step itself; the executor
hands the channels over before its buffers.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Sequence
from typing import ClassVar

from tupletree._log import event
from tupletree.errors import AuthorityError, ProtocolError, TupletreeError
from tupletree.outputs import CHECKPOINT_STREAM
from tupletree.state.steps import Action, Step
from tupletree.tuples import Origin, Tuple

from ..core.ack_updates import AckUpdates
from ..core.batches import Rows
from ..core.collectors import TaskBoltCollector
from ..core.output_streams import OutBuffer
from ..core.tasks import BasicBoltTask, BoltTask, Environment, Task, TaskFailure
from .barriers import Arrival, Barriers, StepDecision
from .task_state import Refused

log = logging.getLogger(__name__)

MAX_HELD_ROWS = 200_000
"""That a task holds, in at most about ``topology.executor.receive.buffer.bytes``; a single batch may be larger. What
comes beyond while it is not initialised is failed, and comes again; what comes beyond while it waits for a checkpoint
on all inputs makes it give the checkpoint up."""

MAX_DRAIN_S = 10.0
"""How long an aligned checkpoint waits for a bolt to ack what it has executed."""


class Participant:
    """Takes part for a task without a state. What tasks with states and spouts do beside that is in subclasses."""

    def __init__(self, task: Task, env: Environment, barriers: Barriers) -> None:
        self.task_id = task.task_id
        self.channels: dict[int, deque[tuple[OutBuffer, Rows]]] = {}  # by receiving task
        self.released: deque[tuple[Origin, Rows]] = deque()  # was held and is to be executed before anything new
        self.barriers = barriers
        self.clock = env.clock
        self._drain_s = min(MAX_DRAIN_S, task.context.conf["topology.message.timeout.secs"] / 2)
        self._task = task
        self._held: deque[tuple[Origin, Rows]] = deque()
        self._held_rows = 0
        self._held_bytes = 0
        self._most_held_bytes: int = task.context.conf["topology.executor.receive.buffer.bytes"]
        self._has_begun = False  # since the component was made
        self._waiting: tuple[Step, Tuple, float] | None = None  # to be acted on, and until when
        self._early: list[Tuple] = []  # of the present round, from sources that were not the last
        self._round = -1
        self._control = TaskBoltCollector(_Unseen(task), task.streams, env.ids())  # type: ignore[arg-type]
        self._steps = task.streams[CHECKPOINT_STREAM].buffers
        self._data = {
            target: [stream.buffers[target] for name, stream in task.streams.items()
                     if name != CHECKPOINT_STREAM and target in stream.buffers]
            for target in self._steps
        }  # fmt: skip
        if not barriers.is_aligned:
            barriers.is_initialised = not self.has_state
        elif isinstance(task, BoltTask):
            task.unacked = set()

    has_state: ClassVar[bool] = False
    """Whether nothing may be executed before INITSTATE, in every mode."""

    @property
    def is_ready(self) -> bool:
        """Whether the task may execute, be polled, and get ticks."""
        return self.barriers.is_initialised

    @property
    def has_held_back(self) -> bool:
        """Whether tuples wait here for a step."""
        return bool(self._held or self.released or self._waiting)

    @property
    def due_s(self) -> float:
        """When ``poll`` has something to do at the latest."""
        return math.inf if self._waiting is None else self._waiting[2]

    def take(self, origin: Origin, rows: Rows) -> bool:
        """Judge a batch; True if it is to be executed now. Steps are acted on at once.

        Raises:
            TaskFailure: another has taken this task's state over.
        """
        if origin.stream == CHECKPOINT_STREAM:
            columns = rows.columns
            for at in range(len(rows)):
                values = [column[at] for column in columns]
                tup = Tuple(values, rows.roots[at], rows.edges[at], origin, rows.pairs.get(at))
                try:
                    step, sent = Step.of(values)
                except ProtocolError as error:
                    self._task.report_error(error)
                    self._control.fail(tup)
                else:
                    self._arrive(origin.task, step, sent, tup)
            return False
        match self.barriers.admit(origin.task, rows.generation, len(rows)):
            case StepDecision.RUN:
                return True
            case StepDecision.HOLD:
                self._hold(origin, rows)
            case StepDecision.DROP:
                self._task.updates.fails.update(rows.all_roots())
        return False

    def poll(self) -> bool:
        """Act on a step that has waited for acks, if it need not wait any longer; whether it did."""
        if self._waiting is None:
            return False
        step, tup, until_s = self._waiting
        if self.must_wait(step) and self.clock() < until_s:
            return False
        self._waiting = None
        self._act(step, tup)
        return True

    def must_wait(self, step: Step) -> bool:
        """Whether the task cannot act yet: its state lacks effects of tuples that it has executed."""
        if step.action is not Action.PREPARE or not self.barriers.is_aligned:
            return False
        return isinstance(self._task, BoltTask) and bool(self._task.unacked)

    def perform(self, step: Step) -> None:
        """Do with this task's state what the step asks for. What is raised fails the step."""
        if step.action is Action.PREPARE:
            self.check_fitness()
        elif step.action is Action.INITSTATE and self.barriers.is_aligned:
            self.begin_generation(step)

    def check_fitness(self) -> None:
        """Raise Refused if no checkpoint can be taken of this task."""
        if not self.barriers.is_initialised:
            raise Refused("the task is not initialised")
        if not self.barriers.is_aligned:
            return
        if self._task.has_failed_tuples:
            raise Refused("a tuple has failed since the last checkpoint")
        unacked = self._task.unacked if isinstance(self._task, BoltTask) else None
        if unacked:
            raise TupletreeError(
                f"component {self._task.component_id!r} holds {len(unacked)} tuples that it neither acks nor fails: "
                f"with topology.state.checkpoint.aligned a checkpoint waits {self._drain_s:g} s for that; what it "
                f"keeps belongs into its state"
            )

    def begin_generation(self, step: Step) -> None:
        """What was emitted so far is taken back."""
        task = self._task
        self.fail_unacked()
        if self._has_begun and isinstance(task, BoltTask | BasicBoltTask):
            task.renew()  # what it keeps is of the generation that is taken back
        self._has_begun = False
        task.has_failed_tuples = False
        self.barriers.is_initialised = False  # until all of the step is done
        for stream in task.streams.values():
            stream.begin_generation(step.round)

    def fail_unacked(self) -> None:
        """Fail the tuples that were executed, and neither acked nor failed since."""
        task = self._task
        if isinstance(task, BoltTask) and task.unacked:
            task.updates.fails.update([root for tup in task.unacked for root, _ in tup.anchors])
            task.unacked.clear()

    def opened(self) -> None:
        """The component was opened just now."""

    def close(self) -> None:
        """The component was closed."""

    def _arrive(self, source: int, step: Step, sent: int, tup: Tuple) -> None:
        if step.round > self._round and source in self.barriers.sources:
            self._round = step.round
            self._give_up()
        match self.barriers.arrive(source, step, sent):
            case Arrival.EARLY:
                self._early.append(tup)
            case Arrival.LAST:
                if self.must_wait(step):
                    self._waiting = (step, tup, self.clock() + self._drain_s)
                else:
                    self._act(step, tup)
            case Arrival.WRONG:
                event(log, "checkpoint.refused", task=self.task_id, step=step, cause=self.barriers.fault)
                self._give_up()
                self._control.fail(tup)
                self._release()
            case Arrival.AGAIN:
                self._control.ack(tup)
            case Arrival.OVER:
                self._control.fail(tup)  # nobody waits for it; and if somebody does, it has not been done

    def _give_up(self) -> None:
        """Fail what has come of a round that this task will not act on."""
        if self._waiting is not None:
            self._early.append(self._waiting[1])
            self._waiting = None
        for tup in self._early:
            self._control.fail(tup)
        self._early.clear()

    def _act(self, step: Step, tup: Tuple) -> None:
        try:
            self.perform(step)
        except TaskFailure:
            raise
        except AuthorityError as error:
            raise self._task.failure(error) from error
        except (Exception, SystemExit) as error:
            event(log, "checkpoint.refused", task=self.task_id, step=step, cause=error)
            if not isinstance(error, Refused):
                self._task.report_error(self._named(step, error))
            self.barriers.refuse(str(error))
            self._give_up()
            self._control.fail(tup)
        else:
            self._pass_on(step, tup)
            self._control.ack_many([*self._early, tup])
            self._early.clear()
            self.barriers.acted(step)
            self._has_begun |= step.action is Action.INITSTATE
        self._release()

    def _named(self, step: Step, error: BaseException) -> Exception:
        """An error of ours says what it is about; one of a hook or a state of the user's is told when it was raised."""
        if isinstance(error, TupletreeError):
            return error
        named = TupletreeError(
            f"component {self._task.component_id!r} raised in step {step.action.name} of a checkpoint: "
            f"{type(error).__name__}: {error}"
        )
        named.__cause__ = error
        return named

    def _pass_on(self, step: Step, anchor: Tuple) -> None:
        for target, buffer in self._steps.items():
            data = self._data[target]
            sent = sum([one.sent for one in data])
            self._control.emit_direct(target, step.row(sent), anchor, CHECKPOINT_STREAM)
            channel = self.channels.setdefault(target, deque())
            for one in [*data, buffer]:
                channel.extend((one, rows) for rows in one.take())

    def _hold(self, origin: Origin, rows: Rows) -> None:
        is_full = self._held_rows + len(rows) > MAX_HELD_ROWS
        is_full |= bool(self._held) and self._held_bytes + rows.size > self._most_held_bytes
        if is_full and not self.barriers.is_initialised:
            self._task.updates.fails.update(rows.all_roots())
            self.barriers.lost(origin.task, rows.generation, len(rows))
            return
        self._keep(origin, rows)
        if is_full and self.barriers.is_blocking:
            self._refuse_for_space()

    def _keep(self, origin: Origin, rows: Rows) -> None:
        self._held.append((origin, rows))
        self._held_rows += len(rows)
        self._held_bytes += rows.size

    def _refuse_for_space(self) -> None:
        """Nothing is dropped, but this checkpoint is not taken."""
        error = TupletreeError(
            f"component {self._task.component_id!r} holds back {self._held_rows} tuples (about {self._held_bytes} "
            f"bytes) of its faster inputs until a checkpoint has come on the slower ones: the checkpoint is given up; "
            f"lower topology.max.spout.pending, or raise topology.executor.receive.buffer.bytes for large tuples"
        )
        event(log, "checkpoint.refused", task=self.task_id, cause=error)
        self._task.report_error(error)
        self.barriers.refuse(str(error))
        self._give_up()
        self._release()

    def _release(self) -> None:
        """Judge what is held again."""
        held, self._held, self._held_rows, self._held_bytes = self._held, deque(), 0, 0
        for origin, rows in held:
            match self.barriers.judge_held(origin.task, rows.generation):
                case StepDecision.RUN:
                    self.released.append((origin, rows))
                case StepDecision.HOLD:
                    self._keep(origin, rows)
                case StepDecision.DROP:
                    self._task.updates.fails.update(rows.all_roots())


class _Unseen:
    """The task as the collector of steps sees it: steps are not counted among the user's tuples."""

    is_tracked = True

    def __init__(self, task: Task) -> None:
        self._task = task
        self.component_id = task.component_id

    @property
    def updates(self) -> AckUpdates:
        return self._task.updates

    @property
    def ack_updates(self) -> AckUpdates:
        return self._task.updates

    def acked(self, tup: Tuple) -> None:
        """Nobody counts it."""

    def acked_many(self, tuples: Sequence[Tuple]) -> None:
        """Nobody counts them."""

    def failed(self, tup: Tuple) -> None:
        """Nobody counts it."""
