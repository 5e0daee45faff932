"""Answers to questions about the states of this worker's tasks (Worker.ReadState).

    committed:  a thread of this module -> a reader of the task's provider
    live:       a call on the task's own thread, between two steps -> the state as the bolt has it

Neither changes a state. At most MAX_WAITING questions are worked on; more are refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from tupletree._limits import shown
from tupletree._wire.codec import encode_value
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
from tupletree.state.contract import KeyValueState
from tupletree.state.reader import StateReader
from tupletree.v1 import worker_pb2

from ..core.task import Task
from .membership import namespace_of_task
from .on_task import on_task
from .participant import Participant
from .task_state import Refused, TaskState

LIVE_S: Final = 5.0
"""The longest wait for a task's thread, which may be in a call of user code."""
MAX_LIVE_S: Final = 0.1
"""The longest time for which a question holds up a task."""
MAX_WAITING: Final = 16
_THREADS: Final = 2
_MISSING: Final[Any] = object()


class StateReads:
    """The states of the tasks of one worker, for readers."""

    def __init__(self, topology_id: str, tasks: Iterable[Task]) -> None:
        self._topology_id = topology_id
        self._tasks = {(task.component_id, task.context.task_index): task for task in tasks}
        self._namespaces: dict[int, str] = {}  # of the states that were read, by task: they stay for a worker's life
        self._threads: ThreadPoolExecutor | None = None  # made with the first question
        self._waiting = 0

    async def read(self, request: worker_pb2.ReadTaskStatesRequest) -> worker_pb2.ReadTaskStatesReply:
        """Answer a question.

        Raises:
            NotFoundError: a component has no state.
            UsageError: the question is malformed or too large, or the provider cannot be read from outside.
            UnavailableError: a task does not run here, a task or a store does not answer in time, or too many questions
                wait.
        """
        states = self._checked(request)
        most = MAX_BULK_BYTES if request.is_bulk else MAX_BYTES
        budget = Budget(min(request.max_bytes or most, most), most)
        if self._waiting >= MAX_WAITING:
            raise UnavailableError(f"this worker is answering {MAX_WAITING} questions about states; try again")
        self._waiting += 1
        try:
            if request.is_live:
                answers = [await self._live(task, state, request.keys, budget) for task, state in states]
            else:
                answers = await self._in_thread(lambda: [self._committed(*one, request, budget) for one in states])
        finally:
            self._waiting -= 1
        return worker_pb2.ReadTaskStatesReply(tasks=map(message_of, answers))

    def _checked(self, request: worker_pb2.ReadTaskStatesRequest) -> list[tuple[Task, TaskState]]:
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
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, read)
        except (TupletreeError, asyncio.CancelledError):
            raise
        except Exception as error:  # of a user's provider
            raise UnavailableError(f"the state provider raised {type(error).__name__}: {error}") from error

    def _committed(
        self, task: Task, state: TaskState, request: worker_pb2.ReadTaskStatesRequest, budget: Budget
    ) -> TaskAnswer:
        index = task.context.task_index
        with contextlib.closing(self._reader(task, state)) as reader:
            if request.keys:
                return read_keys(index, reader, request.keys, budget)
            return read_page(index, reader, request.after, request.limit, budget)

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
        decoded = [(key, decode_key(key)) for key in keys]
        outcome = await on_task(
            task,
            lambda: _live_values(task, state.opened, decoded, budget),
            LIVE_S,
            "ask for committed values, or try again",
        )
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
