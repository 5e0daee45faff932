"""The checkpoint participant of a task: receives steps, holds tuples back, acts on steps and passes them on.

barriers.py has the rules; this module applies them. Everything runs on the task's own thread.

No step is acked before the task has acted on its round. If a task is restarted in the middle of a round, some sources
may have sent their steps to the old incarnation and others to the new incarnation. Acked on arrival, the steps' trees
would be complete although each incarnation still waits for missing steps and no incarnation has acted.

A step must not overtake tuples that its task emitted earlier, nor be overtaken by tuples emitted later. So at every
step the task's buffered tuples move into ``passed_on`` first, then the step itself. The executor hands these over
before its buffers.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Iterable, Sequence
from typing import ClassVar

from tupletree._checkpoints.steps import Action, Step
from tupletree._log import event
from tupletree.errors import AuthorityError, ProtocolError, TaskFailedError, TupletreeError
from tupletree.outputs import CHECKPOINT_STREAM
from tupletree.tuples import Origin, Tuple

from ..core.ack_updates import AckUpdates
from ..core.basic_bolt_task import BasicBoltTask
from ..core.batches import Rows
from ..core.bolt_task import BoltTask
from ..core.collectors import TaskBoltCollector
from ..core.output_streams import OutBuffer
from ..core.task import Environment, Task
from ..core.tree_tracker import TreeTracker
from .barriers import Arrival, Barriers, StepDecision
from .task_state import Refused, TaskState

log = logging.getLogger(__name__)

MAX_HELD_ROWS = 200_000
"""The most rows that a task holds. Held rows also take at most about ``topology.executor.receive.buffer.bytes``, though
a single batch may be larger. Beyond these limits, a task that waits for INITSTATE fails further tuples, which are then
replayed, and a task that waits for PREPARE on all inputs abandons the checkpoint."""

MAX_DRAIN_S = 10.0
"""The longest time that an aligned checkpoint waits for a bolt to ack its executed tuples."""


class Participant:
    """Participant of a task without state. Subclasses add the behaviour of stateful bolts and of spouts."""

    def __init__(self, task: Task, env: Environment, barriers: Barriers) -> None:
        self.task_id = task.task_id
        self.passed_on: deque[tuple[OutBuffer, Rows]] = deque()
        self.released: deque[tuple[Origin, Rows]] = deque()  # held before; to be executed before new batches
        self.barriers = barriers
        self.clock = env.clock
        self._drain_s = min(MAX_DRAIN_S, task.context.conf["topology.message.timeout.secs"] / 2)
        self._task = task
        self._held: deque[tuple[Origin, Rows]] = deque()
        self._held_rows = 0
        self._held_bytes = 0
        self._most_held_bytes: int = task.context.conf["topology.executor.receive.buffer.bytes"]
        self._has_begun = False  # an INITSTATE was acted on since the component was created
        self._waiting: tuple[Step, Tuple, float] | None = None  # the step to act on, and the deadline
        self._early: list[Tuple] = []  # steps of the present round from all sources but the last
        self._round = -1
        self._control = TaskBoltCollector(_Unseen(task), task.streams, env.ids())  # type: ignore[arg-type]
        self._steps = task.streams[CHECKPOINT_STREAM]
        self._data = [stream for name, stream in task.streams.items() if name != CHECKPOINT_STREAM]
        if not barriers.is_aligned:
            barriers.is_initialised = not self.has_state
        elif isinstance(task, BoltTask):
            task.unacked = set()

    has_state: ClassVar[bool] = False
    """True if no tuple may be executed before INITSTATE, in either mode."""

    @property
    def task_state(self) -> TaskState | None:
        """The state of the task; None if the component has none."""
        return None

    @property
    def is_ready(self) -> bool:
        """True if the task may execute tuples, be polled, and receive ticks."""
        return self.barriers.is_initialised

    @property
    def has_held_back(self) -> bool:
        """True if tuples wait here for a step, or a step waits for acks."""
        return bool(self._held or self.released or self._waiting)

    @property
    def due_s(self) -> float:
        """The latest time at which ``poll`` must be called; infinity if no step waits."""
        return math.inf if self._waiting is None else self._waiting[2]

    def admit(self, origin: Origin, rows: Rows) -> bool:
        """Return True if a batch is to be executed now; otherwise hold or drop it. Checkpoint steps are handled here.

        Raises:
            TaskFailedError: another worker has taken over the state of this task.
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
                self._buffer(origin, rows)
            case StepDecision.DROP:
                self._task.updates.fails.update(rows.all_roots())
        return False

    def poll(self) -> bool:
        """If a step waits for acks, and no ack is missing or the deadline has passed: act on the step, return True."""
        if self._waiting is None:
            return False
        step, tup, until_s = self._waiting
        if self.must_wait(step) and self.clock() < until_s:
            return False
        self._waiting = None
        self._act(step, tup)
        return True

    def must_wait(self, step: Step) -> bool:
        """True while the task cannot act yet, because tuples it has executed are unacked and not yet in its state."""
        if step.action is not Action.PREPARE or not self.barriers.is_aligned:
            return False
        return isinstance(self._task, BoltTask) and bool(self._task.unacked)

    def perform(self, step: Step) -> None:
        """Apply the step to the state of this task. Any exception fails the step."""
        if step.action is Action.PREPARE:
            self.check_fitness()
        elif step.action is Action.INITSTATE and self.barriers.is_aligned:
            self.begin_generation(step)

    def check_fitness(self) -> None:
        """Check that this task can take a checkpoint.

        Raises:
            Refused: the task is not initialised, or a tuple has failed since the last checkpoint (aligned mode).
            TupletreeError: a bolt holds unacked tuples (aligned mode).
        """
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
                f"with topology.state.checkpoint.aligned a checkpoint waits at most {self._drain_s:g} s for acks; "
                f"store the values in the bolt's state, and ack the tuples"
            )

    def begin_generation(self, step: Step) -> None:
        """Begin a new generation: roll back everything emitted so far."""
        task = self._task
        self.fail_unacked()
        if self._has_begun and isinstance(task, BoltTask | BasicBoltTask):
            task.renew()  # the component's memory belongs to the generation that is rolled back
        self._has_begun = False
        task.has_failed_tuples = False
        self.barriers.is_initialised = False  # until the whole step is done
        for stream in task.streams.values():
            stream.begin_generation(step.round)

    def fail_unacked(self) -> None:
        """Fail the tuples that were executed but neither acked nor failed."""
        task = self._task
        if isinstance(task, BoltTask) and task.unacked:
            task.updates.fails.update([root for tup in task.unacked for root, _ in tup.anchors])
            task.unacked.clear()

    def opened(self) -> None:
        """Called right after the spout of a spout task was opened."""

    def close(self) -> None:
        """Called after the component was closed."""

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
                self._control.fail(tup)  # usually nothing waits for this step; otherwise the step was not done

    def _give_up(self) -> None:
        """Fail the steps received in a round that this task will not act on."""
        if self._waiting is not None:
            self._early.append(self._waiting[1])
            self._waiting = None
        for tup in self._early:
            self._control.fail(tup)
        self._early.clear()

    def _act(self, step: Step, tup: Tuple) -> None:
        try:
            self.perform(step)
        except TaskFailedError:
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
        """Return the error to report. To errors of user hooks and states, add the component and the step."""
        if isinstance(error, TupletreeError):
            return error
        named = TupletreeError(
            f"component {self._task.component_id!r} raised in step {step.action.name} of a checkpoint: "
            f"{type(error).__name__}: {error}"
        )
        named.__cause__ = error
        return named

    def _pass_on(self, step: Step, anchor: Tuple) -> None:
        for target in self._steps.ports:
            sent = sum([stream.ports[target].sent for stream in self._data if target in stream.ports])
            self._control.emit_direct(target, step.row(sent), anchor, CHECKPOINT_STREAM)
        for stream in [*self._data, self._steps]:
            for buffer in stream.buffers():
                self.passed_on.extend((buffer, rows) for rows in buffer.pop_all())

    def _buffer(self, origin: Origin, rows: Rows) -> None:
        is_full = self._held_rows + len(rows) > MAX_HELD_ROWS
        is_full |= bool(self._held) and self._held_bytes + rows.size > self._most_held_bytes
        if is_full and (not self.barriers.is_initialised or rows.generation > self.barriers.generation):
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
        """Refuse the current checkpoint because too much is held. Nothing is dropped."""
        error = TupletreeError(
            f"component {self._task.component_id!r} holds back {self._held_rows} tuples (about {self._held_bytes} "
            f"bytes) of faster inputs until a checkpoint arrives on the slower inputs: the checkpoint is abandoned; "
            f"lower topology.max.spout.pending, or raise topology.executor.receive.buffer.bytes for large tuples"
        )
        event(log, "checkpoint.refused", task=self.task_id, cause=error)
        self._task.report_error(error)
        self.barriers.refuse(str(error))
        self._give_up()
        self._release()

    def _release(self) -> None:
        """Decide again for each held batch: run, hold or drop."""
        held, self._held, self._held_rows, self._held_bytes = self._held, deque(), 0, 0
        for origin, rows in held:
            match self.barriers.judge_held(origin.task, rows.generation):
                case StepDecision.RUN:
                    self.released.append((origin, rows))
                case StepDecision.HOLD:
                    self._keep(origin, rows)
                case StepDecision.DROP:
                    self._task.updates.fails.update(rows.all_roots())


class _Unseen(TreeTracker):
    """The task as the collector of steps sees it. Steps are excluded from the counts of the user's tuples."""

    def __init__(self, task: Task) -> None:
        self.is_tracked = True
        self._task = task
        self.component_id = task.component_id

    @property
    def updates(self) -> AckUpdates:
        return self._task.updates

    def add_ack(self, root: int, value: int) -> None:
        self._task.updates.add_ack(root, value)

    def fail_trees(self, roots: Iterable[int], error: BaseException | str | None) -> None:
        self._task.fail_trees(roots, error)

    def acked(self, tup: Tuple) -> None:
        """Ignore: steps are not counted."""

    def acked_many(self, tuples: Sequence[Tuple]) -> None:
        """Ignore: steps are not counted."""

    def failed(self, tup: Tuple) -> None:
        """Ignore: steps are not counted."""
