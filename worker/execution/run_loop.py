"""Run loops: the threads that drive executors.

All executors of a worker share one loop. Compared with one thread per executor, this measured 1.2 to 1.3 times the
throughput at a third of the latency: under the GIL, threads only take turns. But an executor that blocks (sleeps, waits
for a socket) would stop the other executors. An executor declared as blocking therefore has a loop of its own from the
start. Any other executor gets its own loop when it is found blocking:

*   its current step does not end, and its thread does not even want a processor; or
*   for a while, the loop's thread mostly waited inside steps, and most of the step time was spent by this executor.

A watchdog checks both from another thread. Waiting for the GIL looks like any other wait, so the limit is set high:
treating a busy executor as blocking costs throughput. Executors that were separated share a loop again when the reason
is gone; thread_splitting.py has the rules.

An executor moves with its inbox and its buffers, so nothing is reordered. When a loop is split, updates that it has not
yet sent to the ackers are sent at once (early_updates.py). The rest is sent before an executor goes back. A blocking
executor hands over all its output after every step, since the duration of its next step is unknown.

The order in which executors work is described in order_of_work.py.
"""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
from collections.abc import Sequence

from tupletree._log import event
from tupletree.errors import TaskFailedError

from ..core.ack_updates import AckUpdates
from .early_updates import remainder, so_far
from .executor import Executor, unexpected
from .loop_settings import Heir, LoopSettings
from .order_of_work import throttle_spouts
from .stuck_calls import HangLog
from .thread_cpu import wanted_s
from .thread_splitting import Glance, Window

log = logging.getLogger(__name__)

STUCK_S = 0.1
HANGS_S = 5.0  # a call that takes this long is logged while it lasts
WINDOW_S = 1.0
WAITING_SHARE = 0.85
"""A loop has a blocking executor if its thread wanted no processor for more than this share of the step time."""
MAX_WAIT_S = 1.0
SHARE_S = 0.002
"""A busy bolt gets further steps for this time. Once its last step has ended, the next executor has its turn."""


class RunLoop(threading.Thread):
    """A thread that drives some executors until it is stopped or one of them fails."""

    def __init__(self, name: str, executors: Sequence[Executor], settings: LoopSettings) -> None:
        super().__init__(name=name, daemon=True)
        self.updates = AckUpdates()
        self.turns = 0  # complete rounds; busy_turns: rounds that found work. Tests wait for them
        self.busy_turns = 0
        self.has_opened = threading.Event()  # every executor's components are ready
        self._settings = settings
        self._executors: list[Executor] = []
        self._lock = threading.Lock()  # held while the current step or the list of executors changes
        self._step = 0
        self._stepping: Executor | None = None
        self._generation = 0
        self._wakeup = threading.Lock()  # released to end a wait. SimpleQueue.get can wait for ever in spite of a time
        self._wakeup.acquire()
        self._is_waiting = False
        self._is_stopping = False
        self._ends_rests = False
        self._last_flush_s = settings.clock()
        self._stepped_s: dict[Executor, float] = {}  # time spent in the steps of each executor
        self._watched = Glance(0, 0.0, 0.0)
        self._window = Window(0.0, 0.0, {})
        self._told: AckUpdates | None = None  # a copy of the updates that were sent early (early_updates.py)
        self._hangs = HangLog()
        self._divides = False  # its only executor has blocked again: the parts of it get loops of their own
        self.has_retired = False  # its executors went to another loop, and its thread ends
        self._heir: Heir | None = None
        self._arrivals: list[Executor] = []
        self._takes_arrivals = True
        self.adopt(executors)

    def adopt(self, executors: Sequence[Executor]) -> None:
        """Take over executors, which no other loop may be driving."""
        for executor in executors:
            executor.inbox.wake = self.wake
            for task in executor.tasks:
                task.use(self.updates)
        self._executors = sorted([*self._executors, *executors], key=lambda executor: executor.rank)
        self._generation += 1

    def offer(self, executors: Sequence[Executor]) -> bool:
        """Have this loop adopt executors that no loop drives. False if this loop has ended or is ending. Any thread."""
        with self._lock:
            if not self._takes_arrivals:
                return False
            self._arrivals = [*self._arrivals, *executors]
        self.wake()
        return True

    def retire(self, heir: Heir) -> None:
        """Ask the thread to give its executors to ``heir`` and end. Any thread."""
        self._heir = heir
        self.wake()

    def may_retire(self, now_s: float) -> bool:
        """True if no executor of this loop needs a loop of its own any longer."""
        with self._lock:
            return bool(self._executors) and all(executor.may_return(now_s) for executor in self._executors)

    @property
    def executors(self) -> Sequence[Executor]:
        """The executors that this loop drives now."""
        return self._executors

    @property
    def present(self) -> tuple[int, Executor | None]:
        """The number of the current step, and the executor that is stepping or None. Any thread."""
        with self._lock:
            return self._step, self._stepping

    def wake(self) -> None:
        """End the current wait. Cheap when the loop is not waiting. Any thread."""
        if self._is_waiting:
            self._is_waiting = False
            with contextlib.suppress(RuntimeError):  # another thread has released it just now
                self._wakeup.release()

    def rouse(self) -> None:
        """Wake the loop, and end the rests of its sources."""
        self._ends_rests = True
        self.wake()

    def stop(self) -> None:
        """Ask the thread to flush, close its components and end."""
        self._is_stopping = True
        self._is_waiting = True
        self.wake()

    def run(self) -> None:
        try:
            for executor in self._executors:
                self._begin_step(executor)
                executor.open()
            self._not_stepping()
            self.has_opened.set()
            while not self._is_stopping:
                self._turn()
                if self._heir is not None and self._hand_on(self._heir):
                    return
            self._not_stepping()
            self._adopt(is_last=True)
            self._flush()
            for executor in self._executors:
                executor.close()
            self._flush()
        except TaskFailedError as failure:
            self._settings.on_failure(failure)
        except BaseException as error:  # the worker must end, or it would look healthy and do nothing
            self._settings.on_failure(unexpected(error, self._stepping))
        finally:
            self._takes_arrivals = False
            self._not_stepping()  # the watchdog must not ask for the processor time of a thread that has ended

    def _turn(self) -> None:
        """Let every executor work for a while; flush if due, and wait if there was nothing to do."""
        if self._arrivals:
            self._adopt()
        if self._divides:
            self._divide()
        if self._ends_rests:
            self._ends_rests = False
            for executor in self._executors:
                executor.rest.end()
        generation = self._generation
        worked = False
        for executor in self._executors:
            worked |= self._run_executor(executor, generation)
            if generation != self._generation:  # the watchdog has split the loop, and the next step can take long
                self._not_stepping()
                self._flush()
                return
        self._not_stepping()
        now_s = self._settings.clock()
        is_due = now_s - self._last_flush_s >= self._settings.flush_interval_s
        is_over = not worked or not any(executor.is_ready for executor in self._executors)  # until the flush
        if is_due or is_over or any(executor.is_blocking for executor in self._executors):
            self._hand_down(generation)
            self._flush()
            self._last_flush_s = now_s
        throttle_spouts(self._executors)
        self.turns += 1
        self.busy_turns += worked
        if not worked:
            self._wait()

    def _hand_down(self, generation: int) -> None:
        """Hand over the rows of each executor, and let bolts that had nothing to do process what they get."""
        for executor, was_busy in [(executor, executor.has_work) for executor in self._executors]:
            if not was_busy and executor.has_work and not (executor.is_source or executor.is_blocking):
                self._run_executor(executor, generation)
                self._not_stepping()  # from here on the watchdog moves nothing, until the next step
                if generation != self._generation:
                    break
            executor.flush()

    def _run_executor(self, executor: Executor, generation: int) -> bool:
        """Step an executor; step a bolt until its work is done or its time is up. Return True if it did anything."""
        worked = False
        enough_s = time.perf_counter() + SHARE_S
        while True:
            with self._lock:
                if generation != self._generation:
                    return worked
                self._step += 1
                self._stepping = executor
            worked |= self._drive(executor)
            is_once = executor.is_source or executor.is_blocking
            if is_once or not executor.has_work or time.perf_counter() >= enough_s:
                return worked

    def _begin_step(self, executor: Executor) -> None:
        with self._lock:
            self._step += 1
            self._stepping = executor

    def _adopt(self, is_last: bool = False) -> None:
        """Adopt the executors that were offered."""
        with self._lock:
            self._takes_arrivals = not is_last
            arrived, self._arrivals = self._arrivals, []
            self.adopt(arrived)

    def _divide(self) -> None:
        """Go on with the first part of the only executor. The others get loops of their own."""
        self._divides = False
        self._not_stepping()
        self._flush()
        if len(self._executors) == 1:
            first = self._settings.on_divide(self._executors[0])
            with self._lock:
                self._executors = []
                self.adopt([first])

    def _hand_on(self, heir: Heir) -> bool:
        """Flush, and give the executors to another loop. Return False if the other loop does not take them."""
        self._not_stepping()
        self._flush()
        with self._lock:
            self._heir = None
            executors = self._executors
            if self._is_stopping or not executors or self._arrivals:
                return False
            found = [executor for executor in executors if executor.is_found_blocking]
            for executor in found:
                executor.is_blocking = executor.is_found_blocking = False
            self._executors = []
            self._generation += 1
            self.has_retired = heir(executors)
            if not self.has_retired:
                self._executors = executors
            self._takes_arrivals = not self.has_retired
        for executor in found:
            event(log, "executor.unblocked", component=executor.component_id, tasks=_ids(executor))
        return self.has_retired

    def _drive(self, executor: Executor) -> bool:
        started_s = time.perf_counter()
        if executor.is_source:
            executor.rest.begin_step(started_s)
        worked = executor.step()
        if worked:
            executor.flush_full()
        if executor.is_source:
            executor.rest.end_step(started_s)
        if executor.set_up.has_been:  # the step time says nothing about blocking
            executor.set_up.has_been = False
            return worked
        self._stepped_s[executor] = self._stepped_s.get(executor, 0.0) + time.perf_counter() - started_s
        return worked

    def _not_stepping(self) -> None:
        with self._lock:
            self._stepping = None

    def _flush(self) -> None:
        for executor in self._executors:
            executor.flush()
        if self.updates:
            updates, fresh = self.updates, self.updates.successor()
            self.updates = fresh
            for executor in self._executors:
                for task in executor.tasks:
                    task.use(fresh)
            told, self._told = self._told, None
            if left := updates if told is None else remainder(updates, told):
                self._settings.post(left)

    def _wait(self) -> None:
        """Sleep until woken or until an executor is due."""
        self._is_waiting = True
        # A thread that puts an item into an inbox or opens the gate checks _is_waiting afterwards. So changes made
        # before this line are seen below.
        is_asked = self._arrivals or self._heir is not None
        if is_asked or any(executor.has_work or executor.can_flush for executor in self._executors):
            self._is_waiting = False
            return
        due_s = min((executor.due_s() for executor in self._executors), default=math.inf)
        rested_s = min((one.rest.until_s for one in self._executors if one.rest.until_s > -math.inf), default=math.inf)
        wait_s = min(due_s - self._settings.clock(), rested_s - time.perf_counter(), MAX_WAIT_S)
        self._wakeup.acquire(timeout=max(0.0, wait_s))
        self._is_waiting = False  # a wake-up left over from an earlier wait does not reset it

    def run_watchdog(self, now_s: float) -> None:
        """Run the watchdog once. Called regularly from another thread.

        A step that does not end is asked to end after its current row. An executor that blocks, or takes long to set
        up, is parted from its neighbours: the side that is not in a step goes to another loop.
        """
        with self._lock:
            if self._stepping is None or self.native_id is None:
                return
            wanted = wanted_s(self)
            is_setting_up = self._stepping.set_up.is_on
            blocking = self._stuck(now_s, wanted)
            if blocking is None and not is_setting_up:
                blocking = self._mostly_waiting(now_s, wanted)
            if blocking is None or not self.has_opened.is_set():
                return
            others = [executor for executor in [*self._executors, *self._arrivals] if executor is not blocking]
            if not others:
                blocking.calm.blocked(now_s)
                self._heir = None
                self._divides = blocking.is_found_blocking and blocking.can_be_divided
                return
            moved, news = [blocking], AckUpdates()
            if blocking is self._stepping:
                moved, self._arrivals = others, []
                news = self._early_updates()
            self._remove(moved)
            if not is_setting_up:
                blocking.is_blocking = blocking.is_found_blocking = True
                blocking.calm.parted(now_s)
        if news:
            self._settings.post(news)
        self._settings.on_split(blocking, moved)

    def _early_updates(self) -> AckUpdates:
        """Return the updates that can be sent without waiting for the current step.

        The step's thread does not flush while the lock is held, but can add to the updates.
        """
        updates = so_far(self.updates)
        news = updates if self._told is None else remainder(updates, self._told)
        self._told = updates
        return news

    def _stuck(self, now_s: float, wanted: float) -> Executor | None:
        """Return the current executor if its step has lasted too long without wanting a processor."""
        seen = self._watched
        if seen.step != self._step:
            self._watched = Glance(self._step, now_s, wanted)
            return None
        elapsed_s = now_s - seen.at_s
        if elapsed_s < STUCK_S or self._stepping is None:
            return None
        self._stepping.hurry()
        if elapsed_s >= HANGS_S:
            self._hangs.log_call(self._stepping, self._step, now_s, elapsed_s)
        return self._stepping if wanted - seen.wanted_s < (1 - WAITING_SHARE) * elapsed_s else None

    def _mostly_waiting(self, now_s: float, wanted: float) -> Executor | None:
        """Return the executor that made the loop wait during most of the last window, if any."""
        window = self._window
        if now_s - window.began_s < WINDOW_S:
            return None
        totals = dict(self._stepped_s)  # the loop goes on adding to the original
        spent = {executor: total - window.stepped_s.get(executor, 0.0) for executor, total in totals.items()}
        self._window = Window(now_s, wanted, totals)
        stepped_s = sum(spent.values())
        waited_s = stepped_s - (wanted - window.wanted_s)
        if window.began_s == 0.0 or stepped_s < WINDOW_S / 2 or waited_s < WAITING_SHARE * stepped_s:
            return None
        longest = max(self._executors, key=lambda executor: spent.get(executor, 0.0))
        return longest if spent.get(longest, 0.0) > stepped_s / 2 else None

    def _remove(self, executors: Sequence[Executor]) -> None:
        removed = set(executors)
        self._executors = [executor for executor in self._executors if executor not in removed]
        self._generation += 1


def _ids(executor: Executor) -> str:
    return ",".join(str(task.task_id) for task in executor.tasks)
