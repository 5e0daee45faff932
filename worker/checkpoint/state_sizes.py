"""Sizes of the states of this worker's tasks (Worker.MeasureStates, and the metrics of states).

    question -> the sizes older than FRESH_S are measured again -> all sizes
    scrape   -> the last sizes; if one is older than SCRAPED_S, a measurement begins, for the next scrape, but only when
                PAUSES times as long as the last one took have passed since

So nothing is measured while nobody asks. A task notices nothing: in a thread of this module, a reader of its provider
counts (tupletree/state/reader.py). A measurement of many tasks ends after MEASURE_S; the next one begins with those
that it left out.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, NamedTuple

from tupletree._limits import shown
from tupletree.errors import NotFoundError, TupletreeError
from tupletree.state.sizes import StateSize, precision_on_wire
from tupletree.v1 import topology_pb2, worker_pb2

from ..core.task import Task
from .membership import namespace_of_task
from .participant import Participant
from .state_writes import write_refusal
from .task_state import TaskState

FRESH_S: Final = 10.0
SCRAPED_S: Final = 50.0
PAUSES: Final = 100
"""Scrapes cost a hundredth of a thread at most, however long the store counts."""
MEASURE_S: Final = 4.0
_MAX_FAILURE: Final = 500


class Measured(NamedTuple):
    """The size of a task's state at a time. ``size`` None: it could not be measured, and ``failure`` says why."""

    size: StateSize | None
    committed: int | None
    failure: str
    at_s: float


class StateSizes:
    """The sizes of the states of one worker's tasks, as last measured. The methods may be called by any thread."""

    def __init__(self, topology_id: str, tasks: Iterable[Task], clock: Callable[[], float] = time.monotonic) -> None:
        self._topology_id = topology_id
        self._states = {task.task_id: (task, state) for task in tasks if (state := _state_of(task)) is not None}
        self._clock = clock
        self._measured: dict[int, Measured] = {}
        self._rested_at_s = -math.inf  # when scrapes may begin another measurement
        self._namespaces: dict[int, str] = {}  # they stay for a worker's life
        self._threads: ThreadPoolExecutor | None = None  # made with the first measurement
        self._running: Future[None] | None = None
        self._lock = threading.Lock()  # of the two above

    async def measure(self, request: worker_pb2.MeasureTaskStatesRequest) -> worker_pb2.MeasureTaskStatesReply:
        """Answer a question. Raises NotFoundError: this is a worker of another topology."""
        if request.topology_id != self._topology_id:
            raise NotFoundError(
                f"this is a worker of topology {self._topology_id}, not of {shown(request.topology_id)}"
            )
        if self._states:
            await asyncio.wrap_future(self._begin())
        tasks = [task for task, _ in self._states.values() if request.component in ("", task.component_id)]
        tasks.sort(key=lambda task: (task.component_id, task.context.task_index))
        return worker_pb2.MeasureTaskStatesReply(tasks=map(self._message, tasks))

    def last(self) -> list[tuple[Task, StateSize]]:
        """Return the tasks whose last measurement succeeded, with their sizes; begin the next one if one is old."""
        now_s = self._clock()
        measured = dict(self._measured)
        is_old = any(task not in measured or now_s - measured[task].at_s > SCRAPED_S for task in self._states)
        if is_old and now_s >= self._rested_at_s:
            self._begin()
        return [(self._states[task][0], one.size) for task, one in measured.items() if one.size is not None]

    def _begin(self) -> Future[None]:
        """Return the measurement that is under way, or begin one."""
        with self._lock:
            if self._running is None or self._running.done():
                if self._threads is None:
                    self._threads = ThreadPoolExecutor(1, thread_name_prefix="state-sizes")
                self._running = self._threads.submit(self._measure_old)
            return self._running

    def _measure_old(self) -> None:
        """Measure the states whose sizes are not fresh, the oldest first."""
        began_s = self._clock()
        ages = {task: began_s - found.at_s for task, found in self._measured.items()}
        old = [task for task in self._states if ages.get(task, FRESH_S) >= FRESH_S]
        for task_id in sorted(old, key=lambda task: -ages.get(task, math.inf)):
            if self._clock() - began_s > MEASURE_S:
                break
            self._measured[task_id] = self._measure(*self._states[task_id])
        ended_s = self._clock()
        self._rested_at_s = max(self._rested_at_s, ended_s + PAUSES * (ended_s - began_s))

    def _measure(self, task: Task, state: TaskState) -> Measured:
        from tupletree.state.providers import open_reader  # imports only the dependencies of the configured provider

        try:
            if task.task_id not in self._namespaces:
                self._namespaces[task.task_id] = namespace_of_task(task)
            provider = None if state.opened is None else state.opened[0]
            with contextlib.closing(open_reader(self._namespaces[task.task_id], task.context.conf, provider)) as reader:
                return Measured(reader.size(), reader.committed, "", self._clock())
        except TupletreeError as error:
            failure = str(error)
        except Exception as error:  # of a user's provider
            failure = f"the state provider raised {type(error).__name__}: {error}"
        return Measured(None, None, failure[:_MAX_FAILURE], self._clock())

    def _message(self, task: Task) -> topology_pb2.TaskStateSize:
        from tupletree.state.providers import provider_name

        found = self._measured.get(task.task_id)
        message = topology_pb2.TaskStateSize(
            component=task.component_id,
            index=task.context.task_index,
            provider=provider_name(task.context.conf),
            write_refusal=write_refusal(task),
        )
        if found is None:
            message.failure = f"it was not its turn within {MEASURE_S:g} s; ask again"
            return message
        message.age_s = max(0.0, self._clock() - found.at_s)
        if found.size is None:
            message.failure = found.failure
            return message
        message.keys, message.bytes = found.size.keys, found.size.bytes
        message.precision = precision_on_wire(found.size.precision)
        for entry in found.size.largest:
            message.largest.add(key=entry.key, bytes=entry.size)
        if found.committed is not None:
            message.committed = found.committed
        return message


def _state_of(task: Task) -> TaskState | None:
    participant = task.participant
    return participant.task_state if isinstance(participant, Participant) else None
