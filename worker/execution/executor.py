"""Executors: tasks of one component that are driven together, one step at a time.

An executor itself neither waits nor does I/O. A run loop calls ``step`` until it returns False (nothing to do now) and
``flush`` to hand over emitted tuples; ``due_s`` gives the latest time of the next step. Time comes from the
environment's clock, so that the same code runs in simulated time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from tupletree.component import remedy_of
from tupletree.errors import TaskFailedError, UnregisteredTypeError
from tupletree.tuples import Origin

from ..control_messages import Call
from ..core.batches import Rows
from ..core.bolt_task import BoltTask
from ..core.output_streams import OutBuffer, join
from ..core.task import Clock, SetUp, Task
from .balancer import Balancer
from .idle_spouts import IdleWait
from .inbox import Gate, Inbox, behind
from .outgoing_batches import RowsRefused
from .thread_splitting import SplitBackoff
from .tracer import Tracer

Deliver = Callable[[Origin, int, Rows, frozenset[int]], None]
"""Takes rows for one task, or MIXED rows, and the tasks among which theirs are."""

SHORT_STEP_S, LONG_STEP_S = 0.002, 0.005
"""Target duration of a step: long enough to be efficient, short enough not to delay other executors."""
STEP_BYTES = 4 * 1024 * 1024
"""Most bytes that a step should emit: until the step ends, its output is neither handed over nor held at the gate."""


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
        self.follow_conf: Callable[[Mapping[str, Any]], None] = _ignore  # adopts keys, on the executor's thread
        self._clock = clock
        self._gate = gate
        self._deliver = deliver
        self._batch_size = batch_size
        for task in tasks:
            task.set_up = self.set_up
        self._quantum = 1  # rows per step: grows while steps are short, since the cost of a row is unknown
        self._handed_bytes = 0  # approximate, since the last step
        self._has_held = False
        self._held_rows: dict[
            int, deque[tuple[OutBuffer, Rows]]
        ] = {}  # by closed task: rows to hand over before all others
        join_outputs(tasks)
        streams = [task.streams[name] for name in tasks[0].streams for task in tasks]
        self._buffers = list(dict.fromkeys(buffer for stream in streams for buffer in stream.buffers()))
        self._unreported = [buffer for buffer in self._buffers if not buffer.stream.is_report]
        self._limited: Sequence[Task] = ()  # the tasks that can be full
        self._balancer: Balancer | None = None
        self._choices: Sequence[frozenset[int]] = ()  # of each of these, a task must be open
        self._participants = [task.participant for task in tasks if task.participant is not None]
        self.rank = 0  # position among the executors of the worker, in the order of the tuple flow
        self._feeds = frozenset(
            behind(task) if buffer.ignores_gate else task for buffer in self._buffers for task in buffer.tasks
        )

    @property
    def can_be_divided(self) -> bool:
        """True if other executors can take over the parts of this one."""
        return False

    def wait_for(self, tasks: frozenset[int]) -> None:
        """Wait for these tasks too, like for the tasks that this executor feeds: pause while one is closed."""
        self._feeds |= tasks

    def balance(self, balancer: Balancer, passable: frozenset[int]) -> None:
        """Let shuffles follow the loads, and pause for ``passable`` tasks only where none of a shuffle's is open.

        An unreachable task still makes the executor pause. Call after ``wait_for``.
        """
        self._balancer = balancer if balancer.is_needed else None
        self._choices = [tasks for tasks in balancer.choices if tasks <= passable]
        reached = frozenset[int]().union(*self._choices)
        self._feeds = (self._feeds - passable) | {behind(task) for task in passable & reached}

    def open(self) -> None:
        """Open the tasks that are not open yet. Raises TaskFailedError if a component raises."""
        for task in self.tasks:
            if not task.is_open:
                self.at_work = task
                try:
                    task.context.begin_hooks()
                    task.open()
                except (Exception, SystemExit) as error:
                    raise task.failure(error) from error

    def close(self) -> None:
        """Close all tasks. An exception of a component is reported, and the other tasks are still closed."""
        for task in self.tasks:
            closes = [task.close, *([task.participant.close] if task.participant is not None else [])]
            for close in (*closes, task.context.end_hooks):
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
        if closed and (not closed.isdisjoint(self._feeds) or any(tasks <= closed for tasks in self._choices)):
            return True
        return bool(self._limited) and any(task.context.is_full() for task in self._limited)

    def _follow_loads(self) -> None:
        """Set the shares of the shuffles. Called before components are, so that none chooses a closed task."""
        if self._balancer is not None:
            self._balancer.refresh(self._gate.closed)

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
        return bool(self._held_rows) or any(self._buffers) or any(one.passed_on for one in self._participants)

    @property
    def can_flush(self) -> bool:
        """True if rows that the last flush held back can be handed over now."""
        closed = self._gate.closed
        return self._has_held and (
            not self._held_rows.keys() <= closed
            or any(buffer and not buffer.tasks <= closed for buffer in self._buffers)
            or any(not buffer.tasks <= closed for one in self._participants for buffer, _ in one.passed_on)
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
        return self.present_task.task_id

    @property
    def present_task(self) -> Task:
        """The task whose component is being called, or was called last. Any thread."""
        return self.at_work

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
        if self._held_rows or self._participants:
            self._hand_over_old(closed)
        for buffer in self._buffers:
            if buffer:
                self._give(buffer, buffer.pop_all, closed)

    def flush_full(self) -> None:
        """Hand over full batches whose receiving tasks are open, except reports and progress."""
        closed = self._gate.closed
        if self._held_rows or self._participants:
            self._hand_over_old(closed)
        for buffer in self._unreported:
            if buffer.has_full:
                self._give(buffer, buffer.pop_full, closed)

    def _hand_over_old(self, closed: frozenset[int]) -> None:
        """Hand over rows held before, then steps of checkpoints and the tuples before them, ahead of later tuples."""
        for target in [target for target in self._held_rows if target not in closed]:
            for buffer, rows in self._held_rows.pop(target):
                self._transfer(buffer, target, rows)
        self._has_held |= bool(self._held_rows)
        for participant in self._participants:
            waiting = [participant.passed_on.popleft() for _ in range(len(participant.passed_on))]
            for buffer, rows in waiting:
                if not self._give(buffer, lambda rows=rows: [rows], closed):  # type: ignore[misc]
                    participant.passed_on.append((buffer, rows))

    def _give(self, buffer: OutBuffer, take: Callable[[], Sequence[Rows]], closed: frozenset[int]) -> bool:
        """Take rows of a buffer and deliver them, unless all of its tasks are closed: then return False.

        Rows of single tasks that are closed, or for which rows are held, are held.
        """
        if not buffer.ignores_gate and closed and buffer.tasks <= closed:
            self._has_held = True
            return False
        is_open = closed.isdisjoint(buffer.tasks) and self._held_rows.keys().isdisjoint(buffer.tasks)
        for rows in take():
            if is_open or buffer.ignores_gate or self._are_open(rows, closed):
                self._transfer(buffer, buffer.target, rows)
                continue
            for target, part in [(buffer.target, rows)] if rows.targets is None else rows.by_target():
                if target in closed or target in self._held_rows:
                    self.hold(target, buffer, part)
                else:
                    self._transfer(buffer, target, part)
        return True

    def _are_open(self, rows: Rows, closed: frozenset[int]) -> bool:
        """True if rows are for several tasks, and all of these are open: shuffles pass over the closed ones."""
        if rows.targets is None:
            return False
        tasks = frozenset(rows.targets)
        return closed.isdisjoint(tasks) and self._held_rows.keys().isdisjoint(tasks)

    def hold(self, target: int, buffer: OutBuffer, rows: Rows) -> None:
        """Keep rows of a buffer until their task is open again."""
        self._held_rows.setdefault(target, deque()).append((buffer, rows))
        self._has_held = True

    def _transfer(self, buffer: OutBuffer, target: int, rows: Rows) -> None:
        buffer.count_out(rows)
        self._handed_bytes += rows.size
        if self.tracer is not None:
            self.tracer.sent(buffer.origin, target, rows)
        tasks = buffer.tasks if target == buffer.target else frozenset([target])
        try:
            self._deliver(buffer.origin, target, rows, tasks)
        except RowsRefused as refused:
            self._refuse(buffer, refused)
        except UnregisteredTypeError as error:
            raise TaskFailedError(self.component_id, buffer.origin.task, error) from error

    def _refuse(self, buffer: OutBuffer, refused: RowsRefused) -> None:
        """Fail the trees of rows that could not be put in a message. All other rows have been delivered."""
        task = next((task for task in self.tasks if task.task_id == buffer.source), self.tasks[0])
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


def _ignore(changes: Mapping[str, Any]) -> None:
    pass


def join_outputs(tasks: Sequence[Task]) -> None:
    """Let the tasks of an executor fill the same buffers, except those that take part in checkpoints.

    Barriers count the rows that each of these has emitted.
    """
    free = [task for task in tasks if task.participant is None]
    groups = [[task] for task in tasks if task.participant is not None] + ([free] if free else [])
    for group in groups:
        for name in group[0].streams:
            join([task.streams[name] for task in group])


def call(item: Call, task: Task) -> None:
    """Make a call, unless the component that requested it was replaced. Raises TaskFailedError."""
    if item.context is not None and item.context is not task.context:
        return
    try:
        item.function()
    except TaskFailedError:
        raise
    except (Exception, SystemExit) as error:
        remedy = remedy_of(task.bolt) if isinstance(task, BoltTask) else ""
        raise task.failure(error, remedy) from error


def unexpected(error: BaseException, executor: Executor | None) -> TaskFailedError:
    """Return the failure of a run loop. ``executor``: the one in a step, if any.

    What is no Exception, such as a panic in Rust, is of the component that is being called; an Exception is a bug here.
    """
    if executor is None or isinstance(error, Exception):
        return TaskFailedError("__system", -1, error)
    return executor.present_task.failure(error)
