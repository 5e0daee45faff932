"""Run loops: the threads that drive executors.

All executors of a worker share one loop, which measured 1.2 to 1.3 times the tuples of a thread for each, at a third of
the latency: with the GIL, threads only take turns. But an executor that blocks (sleeps, waits for a socket) would stop
its neighbours. So one that says it does gets a loop of its own from the start, and one that is found to gets it then:

*   found by the loop itself: its steps took long by the wall clock and little processor time, over and over;
*   found by the watchdog from outside: its present step does not end. Then the others are moved away from it.

An executor moves with its inbox and its buffers, so nothing is reordered. What the loop had not yet told the ackers
stays with the loop.

A blocking executor hands over everything after every step, since nobody knows how long its next step will take.
"""

from __future__ import annotations

import contextlib
import math
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .executor import Executor
from .tasks import Clock, TaskFailure
from .tracking import Updates

SUSPICIOUS_STEP_S = 0.002
SUSPICION_S = 0.5
STUCK_S = 0.1
CPU_SHARE_OF_BLOCKING = 0.25
LONGEST_WAIT_S = 1.0


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """What every run loop of a worker shares."""

    clock: Clock
    batch_size: int
    flush_interval_s: float
    post: Callable[[Updates], None]
    on_failure: Callable[[TaskFailure], None]
    on_split: Callable[[Executor, Sequence[Executor]], None]  # the blocking one; those that move to a new loop


class RunLoop(threading.Thread):
    """A thread that drives some executors until it is stopped or one of them fails."""

    def __init__(self, name: str, executors: Sequence[Executor], settings: LoopSettings) -> None:
        super().__init__(name=name, daemon=True)
        self.updates = Updates()
        self.turns = 0  # complete rounds, and those of them that found work: what a test waits for
        self.busy_turns = 0
        self.has_opened = threading.Event()  # every executor's components are ready
        self._settings = settings
        self._executors: list[Executor] = []
        self._lock = threading.Lock()  # held while the present step or the list of executors changes
        self._step = 0
        self._stepping: Executor | None = None
        self._generation = 0
        self._wakeups: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._is_waiting = False
        self._is_stopping = False
        self._last_flush_s = settings.clock()
        self._slow: dict[Executor, tuple[float, float]] = {}  # wall and processor time of suspicious steps
        self._watched = (0, 0.0, 0.0)  # the step that the watchdog saw last, since when, and its processor time then
        self.adopt(executors)

    def adopt(self, executors: Sequence[Executor]) -> None:
        """Take executors over. Nobody else may be driving them."""
        for executor in executors:
            executor.inbox.wake = self.wake
            for task in executor.tasks:
                task.updates = self.updates
        self._executors = [*self._executors, *executors]
        self._generation += 1

    @property
    def executors(self) -> Sequence[Executor]:
        """The executors that it drives now."""
        return self._executors

    def wake(self) -> None:
        """End the present wait. Any thread; cheap when the loop is not waiting."""
        if self._is_waiting:
            self._is_waiting = False
            self._wakeups.put(None)

    def stop(self) -> None:
        """Ask the thread to flush, close its components and end."""
        self._is_stopping = True
        self._is_waiting = True
        self.wake()

    def run(self) -> None:
        try:
            for executor in self._executors:
                executor.open()
            self.has_opened.set()
            while not self._is_stopping:
                self._turn()
            self._not_stepping()
            self._flush(least=1)
            for executor in self._executors:
                executor.close()
            self._flush(least=1)
        except TaskFailure as failure:
            self._settings.on_failure(failure)
        except Exception as error:  # a fault of ours: the worker must end all the same
            self._settings.on_failure(TaskFailure("__system", -1, error))
        finally:
            self._not_stepping()  # the watchdog must not ask for the processor time of a thread that has ended

    def _turn(self) -> None:
        """Step every executor once; flush, and wait if there was nothing to do."""
        generation = self._generation
        worked = False
        for executor in self._executors:
            with self._lock:
                if generation != self._generation:
                    return
                self._step += 1
                self._stepping = executor
            worked |= self._drive(executor)
        self._not_stepping()
        now_s = self._settings.clock()
        is_due = now_s - self._last_flush_s >= self._settings.flush_interval_s
        if is_due or not worked or any(executor.is_blocking for executor in self._executors):
            self._flush(least=1)
            self._last_flush_s = now_s
        self.turns += 1
        self.busy_turns += worked
        if not worked:
            self._wait()

    def _drive(self, executor: Executor) -> bool:
        wall_s, cpu_s = time.perf_counter(), time.thread_time()
        worked = executor.step()
        if worked:
            executor.flush(self._settings.batch_size)
        wall_s = time.perf_counter() - wall_s
        if wall_s > SUSPICIOUS_STEP_S:  # a spout may well wait and then find nothing
            self._suspect(executor, wall_s, time.thread_time() - cpu_s)
        return worked

    def _not_stepping(self) -> None:
        with self._lock:
            self._stepping = None

    def _flush(self, least: int) -> None:
        for executor in self._executors:
            executor.flush(least)
        if self.updates:
            updates, fresh = self.updates, Updates()
            self.updates = fresh
            for executor in self._executors:
                for task in executor.tasks:
                    task.updates = fresh
            self._settings.post(updates)

    def _wait(self) -> None:
        """Sleep until woken or until an executor is due."""
        self._is_waiting = True
        # Whoever puts into an inbox or opens the gate looks at _is_waiting afterwards; so what was done before this
        # line is seen here.
        if any(executor.has_work or executor.can_flush for executor in self._executors):
            self._is_waiting = False
            return
        due_s = min((executor.due_s() for executor in self._executors), default=math.inf)
        with contextlib.suppress(queue.Empty):
            self._wakeups.get(timeout=max(0.0, min(due_s - self._settings.clock(), LONGEST_WAIT_S)))
        self._is_waiting = False  # a wake-up left over from an earlier wait does not say so itself

    def _suspect(self, executor: Executor, wall_s: float, cpu_s: float) -> None:
        """Note a long step; after enough of them that used little processor time, the executor moves out."""
        if executor.is_blocking or len(self._executors) == 1:
            return
        wall_s += self._slow.get(executor, (0.0, 0.0))[0]
        cpu_s += self._slow.get(executor, (0.0, 0.0))[1]
        self._slow[executor] = (wall_s, cpu_s)
        if wall_s >= SUSPICION_S:
            del self._slow[executor]
            if cpu_s < CPU_SHARE_OF_BLOCKING * wall_s:
                with self._lock:
                    if len(self._executors) == 1:  # the watchdog has just moved the others
                        return
                    self._remove([executor])
                executor.is_blocking = True
                self._settings.on_split(executor, [executor])

    def look_after(self, now_s: float) -> None:
        """The watchdog, called every so often from another thread.

        A step that does not end is asked to end with its present row; if it does nothing but wait, its neighbours are
        freed.
        """
        with self._lock:
            stuck = self._stepping
            if stuck is None or self.ident is None:
                return
            cpu_s = time.clock_gettime(time.pthread_getcpuclockid(self.ident))
            step, since_s, cpu_then_s = self._watched
            if step != self._step:
                self._watched = (self._step, now_s, cpu_s)
                return
            elapsed_s = now_s - since_s
            if elapsed_s < STUCK_S:
                return
            stuck.hurry()
            if len(self._executors) == 1 or cpu_s - cpu_then_s > CPU_SHARE_OF_BLOCKING * elapsed_s:
                return
            moved = [executor for executor in self._executors if executor is not stuck]
            self._remove(moved)
            stuck.is_blocking = True
        self._settings.on_split(stuck, moved)

    def _remove(self, executors: Sequence[Executor]) -> None:
        self._executors = [executor for executor in self._executors if executor not in executors]
        self._generation += 1
