"""Executors: tasks of one component that are driven together, one step at a time.

An executor itself neither waits nor does I/O. A run loop calls ``step`` until it returns False (nothing to do now) and
``flush`` to hand over emitted tuples; ``due_s`` gives the latest time of the next step. Time comes from the
environment's clock, so that the same code runs in simulated time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence

from tupletree.component import remedy_of
from tupletree.errors import ProtocolError, UnregisteredTypeError
from tupletree.tuples import SYSTEM_COMPONENT, TICK_STREAM, Origin

from ..control_messages import Call, Control, ShardsLost, WorkerLost
from ..core.basic_bolt_task import BasicBoltTask
from ..core.batches import Batch, Rows, decode, roots_of
from ..core.bolt_task import BoltTask
from ..core.output_streams import OutBuffer
from ..core.task import Clock, Participant, SetUp, Task, TaskFailedError
from .idle_spouts import IdleWait
from .inbox import BACKLOG, Gate, Inbox, RemoteBatch, behind
from .outgoing_batches import RowsRefused
from .thread_splitting import SplitBackoff
from .tracer import Tracer
from .waiting_tuples import WaitingTuples

Deliver = Callable[[Origin, int, Rows], None]

SHORT_STEP_S, LONG_STEP_S = 0.002, 0.005
"""Target duration of a step: long enough to be efficient, short enough not to delay other executors."""
STEP_BYTES = 4 * 1024 * 1024
"""Most bytes that a step should emit: until the step ends, its output is neither handed over nor held at the gate."""

NO_ROWS = Rows.of([])
TICK_ORIGIN = Origin(SYSTEM_COMPONENT, -1, TICK_STREAM, ["interval_s"])


class Executor:
    """Base class of spout and bolt executors. ``is_source``: True if the executor works without input."""

    is_source = False

    def __init__(
        self, tasks: Sequence[Task], inbox: Inbox, gate: Gate, deliver: Deliver, clock: Clock, batch_size: int
    ) -> None:
        self.component_id = tasks[0].component_id
        self.inbox = inbox
        self.is_blocking = False  # declared or found blocking: has a run loop of its own
        self.is_found_blocking = False  # found blocking, not declared: temporary
        self.calm = SplitBackoff()
        self.set_up = SetUp()
        self.at_work: Task = tasks[0]  # the task whose component is being called, or was called last
        self.downstream: frozenset[str] = frozenset()  # for a source: the components that its tuples can reach
        self.turns_held = 0  # set by the run loop: consecutive turns, including this turn, in which a source must wait
        self.rest = IdleWait()  # for a source
        self.tree_tasks: Sequence[int] = ()  # the tasks that can begin trees
        self.tasks: Sequence[Task] = tasks
        self.tracer: Tracer | None = None  # set by any thread
        self._clock = clock
        self._gate = gate
        self._deliver = deliver
        self._batch_size = batch_size
        for task in tasks:
            task.set_up = self.set_up
        self._quantum = 1  # rows per step: grows while steps are short, since the cost of a row is unknown
        self._handed_bytes = 0  # approximate, since the last step
        self._has_held = False
        self._buffers = [buffer for task in tasks for buffer in task.buffers()]
        self._unreported = [buffer for buffer in self._buffers if not buffer.stream.is_report]
        self._limited: Sequence[Task] = ()  # the tasks that can be full
        self._participants = [task.participant for task in tasks if task.participant is not None]
        self.rank = 0  # position among the executors of the worker, in the order of the tuple flow
        self._feeds = frozenset(behind(one.task) if one.ignores_gate else one.task for one in self._buffers)

    def wait_for(self, tasks: frozenset[int]) -> None:
        """Wait for these tasks too, like for the tasks that this executor feeds: pause while one is closed."""
        self._feeds |= tasks

    def open(self) -> None:
        """Open the tasks that are not open yet. Raises TaskFailedError if a component raises."""
        for task in self.tasks:
            if not task.is_open:
                self.at_work = task
                try:
                    task.open()
                except (Exception, SystemExit) as error:
                    raise task.failure(error) from error

    def close(self) -> None:
        """Close all tasks. An exception of a component is reported, and the other tasks are still closed."""
        for task in self.tasks:
            for close in (task.close, *([task.participant.close] if task.participant is not None else [])):
                try:
                    close()
                except (Exception, SystemExit) as error:
                    task.report_error(error)

    def step(self) -> bool:
        """Do a few milliseconds of work. Return True if there was any.

        Raises:
            TaskFailedError: a component raised.
        """
        raise NotImplementedError

    def due_s(self) -> float:
        """Return the latest time of the next step if nothing arrives; infinity for never."""
        raise NotImplementedError

    @property
    def is_held(self) -> bool:
        """True while the gate closes a task that the executor waits for (``wait_for``), or one of its tasks is full."""
        closed = self._gate.closed
        is_closed = bool(closed) and not closed.isdisjoint(self._feeds)
        return is_closed or (bool(self._limited) and any(task.context.is_full() for task in self._limited))

    @property
    def has_work(self) -> bool:
        """True if the inbox has an item that a step would handle now."""
        return bool(self.inbox) and not self.is_held

    @property
    def is_ready(self) -> bool:
        """True if a step would do anything now."""
        return self.has_work

    @property
    def has_buffered(self) -> bool:
        """True if emitted rows wait to be handed over."""
        return any(self._buffers) or any(participant.channels for participant in self._participants)

    @property
    def can_flush(self) -> bool:
        """True if rows that the last flush held back can be handed over now."""
        closed = self._gate.closed
        return self._has_held and (
            any(buffer and buffer.task not in closed for buffer in self._buffers)
            or any(not participant.channels.keys() <= closed for participant in self._participants)
        )

    @property
    def has_held_back(self) -> bool:
        """True if tuples wait in the tasks for a step of a checkpoint."""
        return any(participant.has_held_back for participant in self._participants)

    def may_return(self, now_s: float) -> bool:
        """True if the executor no longer needs a run loop of its own."""
        is_fit = self.calm.is_over(now_s) if self.is_found_blocking else not self.is_blocking
        return is_fit and not self.set_up.is_on

    @property
    def may_wait(self) -> bool:
        """True if a call may last forever: a spout declared as blocking waits for its source."""
        return self.is_source and self.is_blocking and not self.is_found_blocking

    @property
    def progress(self) -> Hashable:
        """A value that changes when a call returns and the step continues, as far as observable. Any thread."""
        return self.at_work.task_id

    def hurry(self) -> None:
        """Ask the current step to end after its current row. Any thread."""
        for task in self.tasks:
            task.must_yield = True

    def flush(self) -> None:
        """Hand over all buffered rows whose receiving tasks are open.

        Batch reports and progress in event time are handed over only here, and their streams are declared last. So
        they cannot overtake the rows that they report.
        """
        self._has_held = False
        closed = self._gate.closed  # read once, so that all streams to a held task are held
        for participant in self._participants:
            self._flush_channels(participant, closed)
        for buffer in self._buffers:
            if buffer:
                self._hand_over(buffer, buffer.pop_all, closed)

    def flush_full(self) -> None:
        """Hand over full batches whose receiving tasks are open, except reports and progress."""
        closed = self._gate.closed
        for participant in self._participants:
            self._flush_channels(participant, closed)
        for buffer in self._unreported:
            if buffer.has_full:
                self._hand_over(buffer, buffer.pop_full, closed)

    def _flush_channels(self, participant: Participant, closed: frozenset[int]) -> None:
        """Hand over steps of checkpoints and the tuples before them, ahead of later tuples."""
        for target in [target for target in participant.channels if target not in closed]:
            for buffer, rows in participant.channels.pop(target):
                self._transfer(buffer, [rows])
        self._has_held |= bool(participant.channels)

    def _hand_over(self, buffer: OutBuffer, take: Callable[[], list[Rows]], closed: frozenset[int]) -> None:
        """Take rows from a buffer and deliver them, unless the receiving task is closed."""
        if buffer.task in closed and not buffer.ignores_gate:
            self._has_held = True
            return
        self._transfer(buffer, take())

    def _transfer(self, buffer: OutBuffer, batches: Sequence[Rows]) -> None:
        for rows in batches:
            buffer.stream.transferred += len(rows)
            self._handed_bytes += rows.size
            if self.tracer is not None:
                self.tracer.sent(buffer, rows)
            try:
                self._deliver(buffer.origin, buffer.task, rows)
            except RowsRefused as refused:
                self._refuse(buffer, refused)
            except UnregisteredTypeError as error:
                raise TaskFailedError(self.component_id, buffer.origin.task, error) from error

    def _refuse(self, buffer: OutBuffer, refused: RowsRefused) -> None:
        """Fail the trees of rows that could not be put in a message. All other rows have been delivered."""
        task = next(task for task in self.tasks if task.task_id == buffer.origin.task)
        task.fail_trees(refused.roots, refused.error)
        task.has_failed_tuples = True
        task.report_error(refused.error)

    def _adapt(self, elapsed_s: float) -> None:
        """Adapt the size of a step to the duration of the last step and to the bytes emitted."""
        handed, self._handed_bytes = self._handed_bytes, 0
        if elapsed_s > LONG_STEP_S or handed > STEP_BYTES:
            self._quantum = max(1, self._quantum // 2)
        elif elapsed_s < SHORT_STEP_S and self._quantum < self._batch_size and 2 * handed <= STEP_BYTES:
            self._quantum = min(self._batch_size, self._quantum * 2)


def call(item: Call, task: Task) -> None:
    """Make a call that a component requested, unless the component was replaced. Raises TaskFailedError."""
    if item.context is not task.context:
        return
    try:
        item.function()
    except TaskFailedError:
        raise
    except (Exception, SystemExit) as error:
        remedy = remedy_of(task.bolt) if isinstance(task, BoltTask) else ""
        raise task.failure(error, remedy) from error


class BoltExecutor(Executor):
    """Executor that runs bolt tasks on the batches of their inbox."""

    def __init__(
        self,
        tasks: Sequence[BasicBoltTask | BoltTask],
        inbox: Inbox,
        gate: Gate,
        deliver: Deliver,
        clock: Clock,
        batch_size: int,
        tick_interval_s: float | None,
    ) -> None:
        super().__init__(tasks, inbox, gate, deliver, clock, batch_size)
        self._feeds |= {BACKLOG}
        self._bolts = {task.task_id: task for task in tasks}
        self._rows = NO_ROWS
        self._at = 0
        self._origin = TICK_ORIGIN
        self._task = tasks[0]
        self._tick_interval_s = tick_interval_s
        self._next_tick_s = clock() + tick_interval_s if tick_interval_s else math.inf
        self._ticks_waiting = 0
        self._is_counted = True  # the current rows count in the inbox
        self._limited = [task for task in tasks if isinstance(task, BoltTask) and task.bolt.can_be_full]
        self._waiting = WaitingTuples(tasks, inbox, clock)
        self._trees = {task.task_id: task.trees for task in tasks if isinstance(task, BoltTask)}
        self.tree_tasks = sorted(self._trees)

    def step(self) -> bool:
        has_heard = self._handle_news()
        if self.is_held:
            if self._limited:
                self._waiting.keep_alive()
            return has_heard
        if self._at >= len(self._rows) and not self._next_batch():
            return has_heard
        if not len(self._rows):
            return True
        started_s = self._clock()
        self.at_work = self._task
        self._task.must_yield = False
        stop = len(self._rows) if self._task.takes_batches else min(len(self._rows), self._at + self._quantum)
        tracer = self.tracer
        if tracer is None:
            done = self._task.run(self._rows, self._at, stop, self._origin)
        else:
            done = tracer.run(self._task, self._rows, self._at, stop, self._origin)
        self._adapt(self._clock() - started_s)
        self._at += done
        if self._origin is TICK_ORIGIN:
            self._ticks_waiting -= done
        elif self._is_counted:
            self.inbox.done(done)
        return True

    def _handle_news(self) -> bool:
        """Handle ticks, messages, tree timeouts and waiting steps, even while held. True for a message or a step."""
        if self._next_tick_s != math.inf and self._clock() >= self._next_tick_s:
            self._tick()
        has_heard = self.inbox.has_news
        while (news := self.inbox.pop_news()) is not None:
            self._handle(news)
        for trees in self._trees.values():
            if trees.due_s != math.inf and self._clock() >= trees.due_s:
                trees.expire(self._clock())
        for participant in self._participants:
            has_heard |= participant.poll()
        return has_heard

    def due_s(self) -> float:
        dues = [trees.due_s for trees in self._trees.values()]
        return min(self._next_tick_s, *dues, *(participant.due_s for participant in self._participants), math.inf)

    @property
    def has_work(self) -> bool:
        # A batch begun before the gate closed is no longer in the inbox.
        waits = bool(self.inbox) or self._at < len(self._rows) or any(one.released for one in self._participants)
        return self.inbox.has_news or (waits and not self.is_held)

    def _next_batch(self) -> bool:
        """Make the next batch current: released batches first, then the inbox. Return False if there is none."""
        self._at = 0
        for participant in self._participants:
            if participant.released:
                self._origin, self._rows = participant.released.popleft()
                self._task = self._bolts[participant.task_id]
                self._is_counted = False
                return True
        self._is_counted = True
        item = self.inbox.pop()
        if item is None:
            self._rows = NO_ROWS
            return False
        if type(item) is Batch:
            self._rows, self._origin, target = item.rows, item.origin, item.target_task
        elif type(item) is Call:
            self._rows, target = NO_ROWS, item.task
            self.at_work = self._bolts[target]
            call(item, self._bolts[target])
        else:
            self._origin, target = item.origin, item.message.target_task
            self._rows = self._decoded(item, self._bolts[target])
        self._task = self._bolts[target]
        if self._task.participant is not None:
            self._admit(self._task.participant)
        return True

    def _admit(self, participant: Participant) -> None:
        """Keep the current rows only if the participant lets the task execute them now."""
        if not len(self._rows):
            return
        if self._origin is TICK_ORIGIN:
            if not participant.is_ready:
                self._ticks_waiting -= len(self._rows)
                self._rows = NO_ROWS
        elif not participant.admit(self._origin, self._rows):
            self.inbox.done(len(self._rows))
            self._rows = NO_ROWS

    def _handle(self, item: Control | Call) -> None:
        """Pass a verdict to the trees of its task, or a loss to the trees of all tasks; make a call."""
        if isinstance(item, Call):
            self.at_work = self._bolts[item.task]
            call(item, self.at_work)
            return
        for task, trees in self._trees.items():
            if isinstance(item, WorkerLost | ShardsLost) or item.task == task:
                trees.handle(item, self._clock())

    def _decoded(self, item: RemoteBatch, task: Task) -> Rows:
        """Decode the rows of a remote batch. If the batch is malformed, fail its trees and return no rows."""
        try:
            return decode(item.message, item.origin)
        except ProtocolError as error:
            task.report_error(error)
            task.fail_trees(roots_of(item.message), error)
            self.inbox.done(item.message.rows)
            return NO_ROWS

    def _tick(self) -> None:
        """Queue a tick for each task behind the waiting items. At most one tick per task waits at a time."""
        assert self._tick_interval_s is not None
        now_s = self._clock()
        while self._next_tick_s <= now_s:
            self._next_tick_s += self._tick_interval_s
        if self._ticks_waiting == 0:
            for task in self._bolts:
                self._ticks_waiting += 1
                self.inbox.put(Batch(TICK_ORIGIN, task, Rows.of([([self._tick_interval_s], 0, 0)])), 0)
