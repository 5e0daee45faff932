"""Answers to questions about the states of this worker's tasks (Worker.ReadState).

    committed:  a thread of this module -> a reader of the task's provider
    live:       a call on the task's own thread, between two steps -> the state as the bolt has it

Neither changes a state. At most MAX_WAITING questions are worked on; more are refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from tupletree._limits import shown
from tupletree._wire.codec import encode_value
from tupletree.component import StatefulBolt
from tupletree.errors import NotFoundError, TupletreeError, UnavailableError, UsageError
from tupletree.state.answers import (
    MAX_BULK_BYTES,
    MAX_BYTES,
    Budget,
    TaskAnswer,
    check_keys,
    check_limit,
    decode_key,
    message_of,
    read_keys,
    read_page,
)
from tupletree.state.contract import KeyValueState, StateProvider
from tupletree.state.memory import MemoryReader, MemoryStateProvider
from tupletree.state.reader import StateReader
from tupletree.v1 import topology_pb2, worker_pb2

from ..core.bolt_task import BoltTask
from ..core.task import Task
from .key_places import Groupings, plain_key_fields
from .membership import namespace_of_task
from .on_task import ask_task, on_task
from .participant import Participant
from .task_state import Refused, TaskState

LIVE_S: Final = 5.0
"""The longest wait for a task's thread, which may be in a call of user code."""
LIVE_REMEDY: Final = "ask for committed values, or try again"
MAX_LIVE_S: Final = 0.1
"""The longest time for which a question holds up a task."""
MAX_WAITING: Final = 16
KEPT_S: Final = 10.0
"""The time for which readers are kept open after a question, where opening takes long."""
_THREADS: Final = 2
Outcome = list[topology_pb2.TaskState] | TupletreeError
"""The answers of tasks, or the error that a question has ended with."""
_MISSING: Final[Any] = object()


class BusyError(UnavailableError):
    """A question that is not answered because too many others are."""


class StateReads:
    """The states of the tasks of one worker, for readers."""

    def __init__(self, topology_id: str, tasks: Iterable[Task], groupings: Groupings) -> None:
        self._topology_id = topology_id
        self._tasks = {(task.component_id, task.context.task_index): task for task in tasks}
        self._groupings = groupings
        self._in_memory: dict[int, tuple[StateProvider, StateReader]] = {}  # by task
        self._namespaces: dict[int, str] = {}  # of the states that were read, by task: they stay for a worker's life
        self._threads: ThreadPoolExecutor | None = None  # made with the first question
        self._waiting = 0
        self._kept: dict[int, StateReader] = {}  # by task: of the last questions
        self._keeping = threading.Lock()  # held while it changes, by any thread
        self._closing: asyncio.TimerHandle | None = None
        self._is_closed = False

    async def read(self, request: worker_pb2.ReadTaskStatesRequest) -> worker_pb2.ReadTaskStatesReply:
        """Answer a question.

        Raises:
            NotFoundError: a component has no state.
            UsageError: the question is malformed or too large, or the provider cannot be read from outside.
            UnavailableError: a task does not run here, a task or a store does not answer in time, or too many questions
                wait.
        """
        answers = await self.answers(request, self.checked(request))
        return worker_pb2.ReadTaskStatesReply(tasks=answers)

    async def answers(
        self, request: worker_pb2.ReadTaskStatesRequest, states: Sequence[tuple[Task, TaskState]]
    ) -> list[topology_pb2.TaskState]:
        """Answer a question about those states that ``checked`` has returned. Raises as ``read``."""
        most = MAX_BULK_BYTES if request.is_bulk else MAX_BYTES
        budget = Budget(min(request.max_bytes or most, most), most)
        self._admit()
        try:
            if request.is_live:
                answers = [await self._live(task, state, request.keys, budget) for task, state in states]
            else:
                answers = await self._in_thread(lambda: [self._committed(*one, request, budget) for one in states])
        finally:
            self._waiting -= 1
        return [message_of(one) for one in answers]

    def at_once(
        self, request: worker_pb2.ReadTaskStatesRequest, states: Sequence[tuple[Task, TaskState]]
    ) -> list[topology_pb2.TaskState] | None:
        """Answer a question for committed values of keys if no store is waited for; otherwise return None.

        ``states``: those that ``checked`` has returned.
        """
        with contextlib.ExitStack() as stack:
            readers: list[MemoryReader] = []
            for task, state in states:
                reader = self._memory_reader(task, state)
                if reader is None or not stack.enter_context(reader.held()):
                    return None
                readers.append(reader)
            budget = Budget(min(request.max_bytes or MAX_BYTES, MAX_BYTES), MAX_BYTES)
            return [
                message_of(read_keys(task.context.task_index, reader, request.keys, budget))
                for (task, _), reader in zip(states, readers, strict=True)
            ]

    def _memory_reader(self, task: Task, state: TaskState) -> MemoryReader | None:
        """Return the reader of a state in memory; None for another state, or one that is not open."""
        opened = state.opened
        if opened is None or not isinstance(opened[0], MemoryStateProvider):
            return None
        provider, reader = self._in_memory.get(task.task_id, (None, None))
        if provider is not opened[0]:
            reader = self._reader(task, state)
            self._in_memory[task.task_id] = opened[0], reader
        return reader if isinstance(reader, MemoryReader) else None

    def fields_of_keys(self, component: str) -> int:
        """Return the number of grouping fields whose values are the keys of a component's state, as
        ``plain_key_fields`` does. Raises NotFoundError if no task of it is here, or it has no state."""
        task = next((task for (name, _), task in self._tasks.items() if name == component), None)
        if task is None:
            raise NotFoundError(f"no task of component {shown(component)} runs in this worker")
        self._state_of(component, task.context.task_index)
        bolt = task.bolt if isinstance(task, BoltTask) else None
        return plain_key_fields(bolt, self._groupings(component)) if isinstance(bolt, StatefulBolt) else 0

    def checked(self, request: worker_pb2.ReadTaskStatesRequest) -> list[tuple[Task, TaskState]]:
        """Check a question, and return the states that it is about. Raises as ``read``."""
        if request.topology_id != self._topology_id:
            raise NotFoundError(
                f"this is a worker of topology {self._topology_id}, not of {shown(request.topology_id)}"
            )
        if request.keys:
            check_keys(request.keys)
        else:
            check_limit(request.limit, is_bulk=request.is_bulk)
            if request.is_live:
                raise UsageError("live values can only be asked for by key: a list would hold up the task")
        if not request.indexes or (not request.keys and len(request.indexes) > 1):
            raise UsageError("a question names its tasks, and that for a list names one")
        return [self._state_of(request.component, index) for index in dict.fromkeys(request.indexes)]

    def _state_of(self, component: str, index: int) -> tuple[Task, TaskState]:
        task = self._tasks.get((component, index))
        if task is None:
            raise UnavailableError(f"task {index} of component {shown(component)} does not run in this worker")
        participant = task.participant
        state = participant.task_state if isinstance(participant, Participant) else None
        if state is None:
            raise NotFoundError(f"component '{component}' has no state")
        return task, state

    async def _in_thread(self, read: Callable[[], list[TaskAnswer]]) -> list[TaskAnswer]:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="state-reads")
        loop = asyncio.get_running_loop()

        def in_thread() -> list[TaskAnswer]:
            try:
                return read()
            finally:
                if self._kept:  # possibly by a question that nobody waits for any more
                    loop.call_soon_threadsafe(self._close_later)

        try:
            return await loop.run_in_executor(self._threads, in_thread)
        except (TupletreeError, asyncio.CancelledError):
            raise
        except Exception as error:  # of a user's provider
            raise UnavailableError(f"the state provider raised {type(error).__name__}: {error}") from error

    def _committed(
        self, task: Task, state: TaskState, request: worker_pb2.ReadTaskStatesRequest, budget: Budget
    ) -> TaskAnswer:
        index = task.context.task_index
        with contextlib.ExitStack() as stack:
            with self._keeping:
                kept = self._kept.pop(task.task_id, None)
            reader = kept or self._reader(task, state)
            stack.callback(reader.close)
            if request.keys:
                answer = read_keys(index, reader, request.keys, budget)
            else:
                answer = read_page(index, reader, request.after, request.limit, budget)
            with self._keeping:
                if reader.is_kept and not self._is_closed and self._kept.setdefault(task.task_id, reader) is reader:
                    stack.pop_all()
            return answer

    def _close_later(self) -> None:
        """Close the readers that are kept, unless another question comes soon."""
        if self._closing is not None:
            self._closing.cancel()
        self._closing = asyncio.get_running_loop().call_later(KEPT_S, self._close_kept)

    def close(self) -> None:
        """Close all readers, and keep none from now on: the states themselves are closed next."""
        with self._keeping:
            self._is_closed = True
        self._close_kept()

    def _close_kept(self) -> None:
        with self._keeping:
            kept, self._kept = self._kept, {}
        for reader in kept.values():
            reader.close()

    def _reader(self, task: Task, state: TaskState) -> StateReader:
        from tupletree.state.providers import open_reader  # imports only the dependencies of the configured provider

        if task.task_id not in self._namespaces:
            try:
                self._namespaces[task.task_id] = namespace_of_task(task)
            except Refused as error:
                raise UnavailableError(
                    f"the states of {task.component_id!r} are not in place yet: {error}; try again"
                ) from error
        opened = state.opened
        provider = None if opened is None else opened[0]
        return open_reader(self._namespaces[task.task_id], task.context.conf, provider)

    async def _live(self, task: Task, state: TaskState, keys: Sequence[bytes], budget: Budget) -> TaskAnswer:
        call = _live_call(task, state, keys, budget)
        return _live_answer(task, await on_task(task, call, LIVE_S, LIVE_REMEDY))

    def live_soon(
        self, request: worker_pb2.ReadTaskStatesRequest, task: Task, state: TaskState, done: Callable[[Outcome], None]
    ) -> None:
        """Answer a question for live values of one task, by calling ``done`` with the answer, or with the error.

        Raises as ``read`` if the task is not asked.
        """
        self._admit()
        budget = Budget(min(request.max_bytes or MAX_BYTES, MAX_BYTES), MAX_BYTES)

        def answered(outcome: TaskAnswer | BaseException) -> None:
            self._waiting -= 1
            try:
                found: Outcome = [message_of(_live_answer(task, outcome))]
            except TupletreeError as error:
                found = error
            done(found)

        try:
            ask_task(task, _live_call(task, state, request.keys, budget), LIVE_S, LIVE_REMEDY, answered)
        except BaseException:
            self._waiting -= 1
            raise

    def _admit(self) -> None:
        """Count a question that waits. Raises UnavailableError if too many do."""
        if self._waiting >= MAX_WAITING:
            raise BusyError(f"this worker is answering {MAX_WAITING} questions about states; try again")
        self._waiting += 1


def _live_call(task: Task, state: TaskState, keys: Sequence[bytes], budget: Budget) -> Callable[[], TaskAnswer]:
    """Return what reads live values on the thread of a task. Raises UsageError if a key cannot be decoded."""
    decoded = [(key, decode_key(key)) for key in keys]
    return lambda: _live_values(task, state.opened, decoded, budget)


def _live_answer(task: Task, outcome: TaskAnswer | BaseException) -> TaskAnswer:
    """Return the answer of a task. Raises the error that it has ended with."""
    if isinstance(outcome, TupletreeError):
        raise outcome
    if isinstance(outcome, BaseException):
        raise UnavailableError(
            f"the state of component '{task.component_id}' raised {type(outcome).__name__}: {outcome}"
        )
    return outcome


def _live_values(
    task: Task, opened: tuple[object, KeyValueState[Any, Any]] | None, keys: Sequence[tuple[bytes, Any]], budget: Budget
) -> TaskAnswer:
    index = task.context.task_index
    where = f"task {index} of component '{task.component_id}'"
    if opened is None:
        raise UnavailableError(f"{where} has not opened its state yet; try again")
    state, entries = opened[1], []
    until_s = time.monotonic() + MAX_LIVE_S
    for encoded, key in keys:
        value = state.get(key, _MISSING)
        if value is not _MISSING:
            entries.append(budget.entry(encoded, encode_value(value)))
        if time.monotonic() > until_s:
            raise UnavailableError(f"{where} needs more than {MAX_LIVE_S:g} s for these keys; ask for fewer at once")
    return TaskAnswer(index, state.committed, entries)
