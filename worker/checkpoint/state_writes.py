"""Changes of the states of this worker's tasks from outside (Worker.WriteState, docs/adr/0064).

    changes -> decoded, and the task of each -> a call on the task's own thread, between two batches: state.put
            -> the next checkpoint -> committed: answer; rolled back before: ConflictError

So a change is a write of the task like those of its bolt: one writer, and one rule of what is committed with what. A
call ends after SLICE changes or SLICE_S, since a deletion reads its key in the store, and another call goes on, so that
tuples do too. A request with an expected value is made in one call, in which all expected values are checked first.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from tupletree._limits import shown
from tupletree._stored_states import state_form
from tupletree._wire.codec import decode_value
from tupletree.component import StatefulBolt
from tupletree.errors import ConflictError, NotFoundError, ProtocolError, TupletreeError, UnavailableError, UsageError
from tupletree.state.answers import decode_key
from tupletree.state.contract import KeyValueState
from tupletree.state.writes import check_changes, check_wait, decisive, with_committed
from tupletree.v1 import worker_pb2
from tupletree.v1.topology_pb2 import StateChange, StateWritten

from ..core.bolt_task import BoltTask
from ..core.task import Task
from .key_places import Groupings, KeyPlaces
from .on_task import LateError, on_task
from .participant import Participant
from .pending_writes import Settle, Unsettled
from .stateful_participant import StatefulParticipant

SLICE: Final = 1_000
SLICE_S: Final = 0.1
MAX_WAITING: Final = 16
POLL_S: Final = 0.1
CALL_S: Final = 5.0
"""The longest wait for a task's thread, which may be in a call of user code."""
WRITABLE: Final = "StatefulBolt"
"""The form of states in which every entry is the user's alone: other classes keep entries that depend on each other."""

_DELETED: Final[Any] = object()
_MISSING: Final[Any] = object()
_ANYTHING: Final[Any] = object()


class Decoded(NamedTuple):
    """A change for the task with an index, or for each task that was asked if ``task`` is None."""

    task: int | None
    key: Any
    value: Any  # _DELETED: delete the key
    expected: Any  # _ANYTHING: the key may have any value, or none


class StateWrites:
    """The states of the tasks of one worker, for writers from outside."""

    def __init__(self, topology_id: str, tasks: Iterable[Task], groupings: Groupings) -> None:
        self._topology_id = topology_id
        self._tasks = {(task.component_id, task.context.task_index): task for task in tasks}
        self._groupings = groupings
        self._waiting = 0

    async def write(self, request: worker_pb2.WriteTaskStatesRequest) -> worker_pb2.WriteTaskStatesReply:
        """Make those changes of a request that are of its tasks, and return when a checkpoint has them.

        Raises:
            NotFoundError: this is a worker of another topology, or the component has no state.
            UsageError: a change is malformed or has no task, or the state is not the user's alone. Nothing is changed.
            ConflictError: a task went back to an earlier checkpoint before all changes were committed, or a key has
                another value than the expected one, and its task has changed nothing.
            UnavailableError: a task does not run here or does not answer, or no checkpoint is committed in time.
        """
        tasks = self._checked(request)
        if self._waiting >= MAX_WAITING:
            raise UnavailableError(f"this worker is making the changes of {MAX_WAITING} requests; try again")
        self._waiting += 1
        try:
            changes = await asyncio.to_thread(self._decoded, tasks[0], request.changes)
            until_s = asyncio.get_running_loop().time() + request.wait_s
            outcomes = await asyncio.gather(
                *(self._write(task, changes, until_s) for task in tasks), return_exceptions=True
            )
        finally:
            self._waiting -= 1
        written = [one for one in outcomes if isinstance(one, StateWritten)]
        if errors := [one for one in outcomes if isinstance(one, BaseException)]:
            raise with_committed(decisive(errors), written, "other tasks of its worker")
        return worker_pb2.WriteTaskStatesReply(tasks=written)

    def _checked(self, request: worker_pb2.WriteTaskStatesRequest) -> list[BoltTask]:
        if request.topology_id != self._topology_id:
            raise NotFoundError(
                f"this is a worker of topology {self._topology_id}, not of {shown(request.topology_id)}"
            )
        check_changes(request.changes)
        check_wait(request.wait_s)
        if not request.indexes:
            raise UsageError("a request that changes states names their tasks")
        tasks = [self._task_of(request.component, index) for index in dict.fromkeys(request.indexes)]
        own = len(tasks[0].context.component_tasks(request.component))
        if request.tasks and request.tasks != own:  # changes of the keys that move would be made by no task
            raise UnavailableError(
                f"component '{request.component}' is being given {request.tasks} tasks instead of {own}: nothing was "
                f"changed; try again when its new workers run"
            )
        return tasks

    def _task_of(self, component: str, index: int) -> BoltTask:
        task = self._tasks.get((component, index))
        if task is None:
            raise UnavailableError(f"task {index} of component {shown(component)} does not run in this worker")
        participant = task.participant
        if not isinstance(participant, Participant) or participant.task_state is None:
            raise NotFoundError(f"component '{component}' has no state")
        refusal = write_refusal(task)
        if refusal:
            raise UsageError(refusal)
        assert isinstance(task, BoltTask)
        return task

    def _decoded(self, task: BoltTask, changes: Iterable[StateChange]) -> list[Decoded]:
        """Decode all changes, before the first one is made."""
        component = task.component_id
        tasks = len(task.context.component_tasks(component))
        bolt = task.bolt
        assert isinstance(bolt, StatefulBolt)
        places = KeyPlaces(bolt, component, self._groupings(component), tasks)
        found = []
        for change in changes:
            key = decode_key(change.key)
            index = change.index if change.HasField("index") else None
            if index is not None and index >= tasks:
                raise UsageError(f"component '{component}' has tasks 0 to {tasks - 1}, and no task {index}")
            if index is None and change.value:
                index = places.index_of(key)
            try:
                value = decode_value(change.value) if change.value else _DELETED
                expected = decode_value(change.expected) if change.expected else _ANYTHING
            except ProtocolError as error:
                raise UsageError(f"the value of key {shown(key)} cannot be read by the worker: {error}") from None
            found.append(Decoded(index, key, value, expected))
        return found

    async def _write(self, task: BoltTask, changes: Sequence[Decoded], until_s: float) -> StateWritten:
        """Make the changes of one task."""
        index = task.context.task_index
        own = _TaskChanges(task, [one for one in changes if one.task is None or one.task == index])
        await own.make(until_s)
        committed = await own.commit(until_s)
        return StateWritten(index=index, put=own.put, deleted=own.deleted, committed=committed)


def write_refusal(task: Task) -> str:
    """Return the reason why the state of a task cannot be written from outside; "" if it can be."""
    component = task.component_id
    if not isinstance(task, BoltTask) or not isinstance(task.participant, StatefulParticipant):
        return f"the state of component '{component}' is the position of a spout, which only the spout may change"
    form = state_form(task.bolt)
    if form == WRITABLE:
        return ""
    return (
        f"the state of component '{component}' cannot be written from outside: a {form} keeps entries that depend on "
        f"each other, such as values and their timers"
    )


class _TaskChanges:
    """The changes of one task, which are made in calls on its thread."""

    def __init__(self, task: BoltTask, changes: Sequence[Decoded]) -> None:
        self.put = 0
        self.deleted = 0
        self._task = task
        self._changes = changes
        self._made = 0  # of the changes
        self._loop = asyncio.get_running_loop()
        self._commits: list[asyncio.Future[int | Unsettled]] = []  # of each call
        self._is_abandoned = False
        self._is_begun = False  # by the call of the moment

    @property
    def _where(self) -> str:
        return f"task {self._task.context.task_index} of component '{self._task.component_id}'"

    async def make(self, until_s: float) -> None:
        """Make the changes, as soon as the task is initialised. Raises as ``StateWrites.write``."""
        try:
            while self._made < len(self._changes):
                self._is_begun = False
                is_ready = await self._call()
                if self._made < len(self._changes) and self._loop.time() > until_s:
                    what = "has not made all changes in time" if is_ready else "has not opened its state yet; try again"
                    raise UnavailableError(f"{self._where} {what}")
                if not is_ready:
                    await asyncio.sleep(POLL_S)
        except TupletreeError as error:
            if not self._made or (self._is_abandoned and self._is_begun):
                raise
            raise UnavailableError(
                f"{str(error).removesuffix('; try again')}; {self._made:,} of the {len(self._changes):,} changes in "
                f"this task are made, and the next checkpoint has them, unless it fails: read the values before "
                f"writing again"
            ) from None

    async def _call(self) -> bool:
        commit: asyncio.Future[int | Unsettled] = self._loop.create_future()
        try:
            outcome = await on_task(self._task, lambda: self._make_some(commit), CALL_S, "try again")
        except LateError:
            self._is_abandoned = True
            if not self._is_begun:
                raise
            raise UnavailableError(
                f"{self._where} has been making changes for more than {CALL_S:g} s: they are possibly made, or will "
                f"be; read the values before writing again"
            ) from None
        except BaseException:
            self._is_abandoned = True
            raise
        if isinstance(outcome, TupletreeError):
            raise outcome
        if isinstance(outcome, BaseException):
            raise UnavailableError(
                f"the state of component '{self._task.component_id}' raised {type(outcome).__name__}: {outcome}"
            )
        if outcome:
            self._commits.append(commit)
        return outcome

    async def commit(self, until_s: float) -> int | None:
        """Return the checkpoint that has all changes, None if there were none. Raises as ``StateWrites.write``."""
        committed = None
        for commit in self._commits:
            left_s = until_s - self._loop.time()
            try:
                outcome = await asyncio.wait_for(commit, max(0.0, left_s))
            except TimeoutError:
                raise UnavailableError(
                    f"{self._where} has made the changes, but no checkpoint was committed in time: the next one has "
                    f"them, unless it fails; see 'tupletree checkpoints', and read the values before writing again"
                ) from None
            if outcome is Unsettled.ROLLED_BACK:
                raise ConflictError(
                    f"{self._where} went back to its last checkpoint before all changes were committed: write them "
                    f"again ('tupletree errors' has the reason)"
                )
            if outcome is Unsettled.UNKNOWN:
                raise UnavailableError(
                    f"the state of {self._where} was opened anew, possibly with the changes: read the values before "
                    f"writing again"
                )
            committed = outcome
        return committed

    def _make_some(self, commit: asyncio.Future[int | Unsettled]) -> bool:
        """Make some changes, on the task's thread. False if the task is not initialised, or nobody waits any more."""
        self._is_begun = True
        participant = self._task.participant
        assert isinstance(participant, StatefulParticipant)
        opened = participant.task_state.opened
        if self._is_abandoned or opened is None or not participant.is_ready:
            return False
        self._apply(opened[1])
        participant.task_state.writes.add(self._settler(commit))
        return True

    def _apply(self, state: KeyValueState[Any, Any]) -> None:
        conditional = [one for one in self._changes if one.expected is not _ANYTHING]  # then all are made in one call
        for _, key, _, expected in conditional:
            if state.get(key, _MISSING) != expected:
                raise ConflictError(f"key {shown(key)} in {self._where} has another value now: nothing was changed")
        until_s = math.inf if conditional else time.monotonic() + SLICE_S
        for _, key, value, _ in self._changes[self._made : self._made + SLICE]:
            if value is not _DELETED:
                state.put(key, value)
                self.put += 1
            elif state.get(key, _MISSING) is not _MISSING:
                state.delete(key)
                self.deleted += 1
            self._made += 1
            if time.monotonic() > until_s:
                break

    def _settler(self, commit: asyncio.Future[int | Unsettled]) -> Settle:
        loop = self._loop

        def set_result(outcome: int | Unsettled) -> None:
            if not commit.done():
                commit.set_result(outcome)

        def settle(outcome: int | Unsettled) -> None:
            with contextlib.suppress(RuntimeError):  # the event loop is closed
                loop.call_soon_threadsafe(set_result, outcome)

        return settle
