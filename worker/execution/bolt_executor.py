"""Executors of bolts: they run the batches of their inbox.

A worker drives all bolts of a component by one executor, unless they may block or be full. So a batch with rows for
many of them is one item of one inbox, and basic bolts take turns within a call (core/basic_bolt_task.py). If the
component is found blocking, its executor is divided into those that the scheduler has assigned.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence

from tupletree.errors import ProtocolError
from tupletree.tuples import SYSTEM_COMPONENT, TICK_STREAM, Origin

from ..control_messages import Call, ConfChanged, Control, ShardsLost, WorkerLost
from ..core.basic_bolt_task import BasicBoltRows, BasicBoltTask
from ..core.batches import Batch, Rows, roots_of
from ..core.bolt_task import BoltTask
from ..core.task import Clock, Participant, Task
from .executor import Deliver, Executor, call
from .inbox import BACKLOG, Gate, Inbox, RemoteBatch
from .waiting_tuples import WaitingTuples

NO_ROWS = Rows.of([])
TICK_ORIGIN = Origin(SYSTEM_COMPONENT, -1, TICK_STREAM, ["interval_s"])


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
        self._task: BasicBoltTask | BoltTask = tasks[0]
        self._parts_origin = TICK_ORIGIN
        self.parts: Sequence[Sequence[Task]] = ()  # the executors that were assigned, if there are several
        self.make: Callable[[Sequence[Task]], Executor] | None = None
        self._is_hurried = True  # the executor that these tasks had before can have been
        self._parts: deque[tuple[int, Rows]] = deque()  # of the same batch, for other tasks
        basic = [task for task in tasks if isinstance(task, BasicBoltTask) and task.participant is None]
        self._mixed = BasicBoltRows(basic) if len(basic) == len(tasks) > 1 else None  # runs rows for several tasks
        self._tick_interval_s = tick_interval_s
        self._next_tick_s = clock() + tick_interval_s if tick_interval_s else math.inf
        self._ticks_waiting = 0
        self._is_counted = True  # the current rows count in the inbox
        self._limited = [task for task in tasks if isinstance(task, BoltTask) and task.bolt.can_be_full]
        self._waiting = WaitingTuples(tasks, inbox, clock)
        self._trees = {task.task_id: task.trees for task in tasks if isinstance(task, BoltTask)}
        self.tree_tasks = sorted(self._trees)

    def step(self) -> bool:
        self._follow_loads()  # also before calls, which can emit
        has_heard = self._handle_news()
        if self.is_held:
            if self._limited:
                self._waiting.keep_alive()
            return has_heard
        if self._at >= len(self._rows) and not self._next_batch():
            return has_heard
        started_s = self._clock()
        count = self._run_rows(self._quantum)
        while self._parts and count < self._quantum and self._at == len(self._rows):
            if self._next_batch():
                count += self._run_rows(self._quantum - count)
        if count:
            self._adapt(self._clock() - started_s)
        return True

    def set_tick_interval(self, interval_s: float | None) -> None:
        """Let the tasks tick in another interval from now on; None: not at all. The owning thread only."""
        if interval_s != self._tick_interval_s:
            self._tick_interval_s = interval_s
            self._next_tick_s = self._clock() + interval_s if interval_s else math.inf

    def tick_now(self) -> None:
        """Let the tasks tick now, if they tick at all, and then in their interval. The owning thread only."""
        if self._tick_interval_s:
            self._next_tick_s = self._clock()

    def hurry(self) -> None:
        super().hurry()
        self._is_hurried = True

    @property
    def present_task(self) -> Task:
        if self._rows.targets is not None and self._mixed is not None:
            return self._mixed.current
        return self.at_work

    def _run_rows(self, limit: int) -> int:
        """Run the current rows, but not more than about ``limit``. Return the number of rows that were run."""
        rows, at, task = self._rows, self._at, self._task
        if not len(rows):
            return 0
        stop = len(rows) if task.takes_batches else min(len(rows), at + limit)
        tracer = self.tracer
        if self._is_hurried:
            self._is_hurried = False
            for one in self.tasks:
                one.must_yield = False
        if rows.targets is not None and self._mixed is not None:
            done = self._mixed.run(rows, at, stop, self._origin)
        else:
            self.at_work = task
            done = (
                task.run(rows, at, stop, self._origin)
                if tracer is None
                else tracer.run(task, rows, at, stop, self._origin)
            )
        self._at += done
        if self._origin is TICK_ORIGIN:
            self._ticks_waiting -= done
        else:
            self.inbox.done(done if self._is_counted else 0, executed=done)
        return done

    @property
    def can_be_divided(self) -> bool:
        return len(self.parts) > 1

    def divided(self, now_s: float) -> list[Executor]:
        """Return an executor for each of ``parts``, with the rows that this one has begun. On the owning thread.

        They count as found blocking. Only rows for closed tasks are left here: held, before steps, or in buffers.
        """
        assert self.make is not None
        left = [(target, buffer, rows) for target, waiting in self._held_rows.items() for buffer, rows in waiting]
        for participant in self._participants:
            left += [(buffer.target, buffer, rows) for buffer, rows in participant.passed_on]
            participant.passed_on.clear()
        left += [(buffer.target, buffer, rows) for buffer in self._buffers for rows in buffer.pop_all()]
        made = [self.make(part) for part in self.parts]
        by_task: dict[int, Executor] = {task.task_id: executor for executor in made for task in executor.tasks}
        for executor in made:
            executor.rank, executor.tracer = self.rank, self.tracer
            executor.is_blocking = executor.is_found_blocking = True
            executor.calm.parted(now_s)
        for target, buffer, rows in left:
            for source, part in [(buffer.source, rows)] if rows.sources is None else rows.by_source():
                for task, few in [(target, part)] if part.targets is None else part.by_target():
                    by_task[source].hold(task, buffer, few)
        begun = [(self._origin, *part) for part in self._rest()]
        begun += [(self._parts_origin, *part) for part in self._parts]
        for origin, task, rows in begun:
            by_task[task].inbox.put(Batch(origin, task, rows), len(rows), rows.size)
        return made

    def _rest(self) -> list[tuple[int, Rows]]:
        """Return the rows of the current batch that were not run yet, by task."""
        if self._at >= len(self._rows) or self._origin is TICK_ORIGIN:
            return []
        rest = self._rows.slice(self._at, len(self._rows))
        if rest.targets is not None:
            return rest.by_target()
        if self._task.participant is not None:  # admitted before, which must not be counted again
            self._task.participant.released.appendleft((self._origin, rest))
            return []
        return [(self._task.task_id, rest)]

    def _handle_news(self) -> bool:
        """Handle ticks, messages, tree timeouts and waiting steps, even while held. True for a message or a step."""
        if self._next_tick_s != math.inf and self._clock() >= self._next_tick_s:
            self._tick()
        inbox = self.inbox
        has_heard = bool(inbox.news)
        while inbox.news and (news := inbox.pop_news()) is not None:
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
        if self.inbox.news:
            return True
        # A batch begun before the gate closed is no longer in the inbox.
        is_begun = self._at < len(self._rows) or bool(self._parts)
        waits = is_begun or bool(self.inbox) or (bool(self._participants) and self._has_released)
        return waits and not self.is_held

    @property
    def _has_released(self) -> bool:
        return any(one.released for one in self._participants)

    def _next_batch(self) -> bool:
        """Make the next batch current: released ones first, then parts of the last, then the inbox. False: none."""
        self._at = 0
        for participant in self._participants:
            if participant.released:
                self._origin, self._rows = participant.released.popleft()
                self._task = self._bolts[participant.task_id]
                self._is_counted = False
                return True
        self._is_counted = True
        if self._parts:
            self._origin = self._parts_origin
            self._begin(*self._parts.popleft())
            return True
        item = self.inbox.pop()
        if item is None:
            self._rows = NO_ROWS
            return False
        if type(item) is Call:
            self._rows = NO_ROWS
            self._task = self.at_work = self._bolts[item.task]
            call(item, self._task)
        elif type(item) is Batch:
            self._origin = item.origin
            self._take(item.target_task, item.rows)
        else:
            self._origin = item.origin
            self._take_remote(item)
        return True

    def _take(self, target: int, rows: Rows) -> None:
        """Make rows current. Rows for several tasks are divided by task, unless these take turns within a call."""
        if rows.targets is None:
            self._begin(target, rows)
        elif self._mixed is not None and self.tracer is None:
            self._rows = rows
        else:
            self._divide(rows.by_target())

    def _divide(self, parts: Sequence[tuple[int, Rows]]) -> None:
        self._parts.extend(parts)
        self._parts_origin = self._origin
        if self._parts:
            self._begin(*self._parts.popleft())
        else:
            self._rows = NO_ROWS

    def _begin(self, target: int, rows: Rows) -> None:
        """Make rows for one task current, if the task may execute them now."""
        self._rows = rows
        self._task = self._bolts[target]
        if self._task.participant is not None:
            self._admit(self._task.participant)

    def _take_remote(self, item: RemoteBatch) -> None:
        """Make the rows of a remote batch current. If the batch is malformed, fail its trees, and run no rows."""
        try:
            if item.divided is not None:
                self._divide(item.rows_of(self._bolts))
            else:
                self._take(item.message.target_task, item.rows)
        except ProtocolError as error:
            task = self._bolts.get(item.message.target_task, self.tasks[0])
            task.report_error(error)
            task.fail_trees(roots_of(item.message), error)
            self.inbox.done(item.count_of(self._bolts))
            self._rows = NO_ROWS

    def _admit(self, participant: Participant) -> None:
        """Keep the current rows only if the participant lets the task execute them now."""
        if not len(self._rows):
            return
        if self._origin is TICK_ORIGIN:
            if not participant.is_ready:
                self._ticks_waiting -= len(self._rows)
                self._rows = NO_ROWS
        elif not participant.admit(self._origin, self._rows):
            self.inbox.done(len(self._rows), executed=0)
            self._rows = NO_ROWS

    def _handle(self, item: Control | Call) -> None:
        """Pass a verdict to the trees of its task, or a loss to the trees of all tasks; make a call."""
        if isinstance(item, Call):
            self.at_work = self._bolts[item.task]
            call(item, self.at_work)
            return
        if isinstance(item, ConfChanged):
            self.follow_conf(item.changes)
            return
        for task, trees in self._trees.items():
            if isinstance(item, WorkerLost | ShardsLost) or item.task == task:
                trees.handle(item, self._clock())

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
