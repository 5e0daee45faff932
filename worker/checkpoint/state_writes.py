"""Changes of the states of this worker's tasks from outside (Worker.WriteState, docs/adr/0064).

    changes -> decoded, and the task of each -> a call on the task's own thread, between two batches: state.put
            -> the next checkpoint -> committed: answer; rolled back before: ConflictError

So a change is a write of the task like those of its bolt: one writer, and one rule of what is committed with what. A
task makes at most SLICE changes in one call, so that its tuples go on.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from tupletree._limits import shown
from tupletree._stored_states import state_form
from tupletree._wire.codec import decode_value
from tupletree.component import StatefulBolt
from tupletree.errors import ConflictError, NotFoundError, ProtocolError, TupletreeError, UnavailableError, UsageError
from tupletree.state.answers import decode_key
from tupletree.state.contract import KeyValueState
from tupletree.state.writes import check_changes, check_wait, decisive
from tupletree.v1 import worker_pb2
from tupletree.v1.topology_pb2 import StateChange, StateWritten

from ..core.bolt_task import BoltTask
from ..core.task import Task
from .key_places import Groupings, KeyPlaces
from .on_task import on_task
from .participant import Participant
from .pending_writes import Settle, Unsettled
from .stateful_participant import StatefulParticipant

SLICE: Final = 1_000
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
                another value than the expected one.
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
        if errors := [one for one in outcomes if isinstance(one, BaseException)]:
            raise decisive(errors)
        return worker_pb2.WriteTaskStatesReply(tasks=[one for one in outcomes if isinstance(one, StateWritten)])

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
        own = [one for one in changes if one.task is None or one.task == index]
        slices = []
        written = StateWritten(index=index)
        for at in range(0, len(own), SLICE):
            one = _Slice(task, own[at : at + SLICE])
            await one.make(until_s)
            slices.append(one)
            written.put += one.put
            written.deleted += one.deleted
        for one in slices:
            written.committed = await one.commit(until_s)
        return written


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


class _Slice:
    """Some changes of one task, which are made in one call on its thread."""

    def __init__(self, task: BoltTask, changes: Sequence[Decoded]) -> None:
        self.put = 0
        self.deleted = 0
        self._task = task
        self._changes = changes
        self._loop = asyncio.get_running_loop()
        self._committed: asyncio.Future[int | Unsettled] = self._loop.create_future()
        self._is_abandoned = False

    @property
    def _where(self) -> str:
        return f"task {self._task.context.task_index} of component '{self._task.component_id}'"

    async def make(self, until_s: float) -> None:
        """Make the changes, as soon as the task is initialised. Raises as ``StateWrites.write``; none is made then."""
        while not await self._call():
            if self._loop.time() > until_s:
                raise UnavailableError(f"{self._where} has not opened its state yet; try again")
            await asyncio.sleep(POLL_S)

    async def _call(self) -> bool:
        try:
            outcome = await on_task(self._task, self._made, CALL_S, "try again")
        except BaseException:
            self._is_abandoned = True
            raise
        if isinstance(outcome, TupletreeError):
            raise outcome
        if isinstance(outcome, BaseException):
            raise UnavailableError(
                f"the state of component '{self._task.component_id}' raised {type(outcome).__name__}: {outcome}"
            )
        return outcome

    async def commit(self, until_s: float) -> int:
        """Return the checkpoint that has the changes. Raises as ``StateWrites.write``."""
        left_s = until_s - self._loop.time()
        try:
            outcome = await asyncio.wait_for(self._committed, max(0.0, left_s))
        except TimeoutError:
            raise UnavailableError(
                f"{self._where} has made the changes, but no checkpoint was committed in time: the next one has them, "
                f"unless it fails; see 'tupletree checkpoints', and read the values before writing again"
            ) from None
        if outcome is Unsettled.ROLLED_BACK:
            raise ConflictError(
                f"{self._where} went back to its last checkpoint before all changes were committed: write them again "
                f"('tupletree errors' has the reason)"
            )
        if outcome is Unsettled.UNKNOWN:
            raise UnavailableError(
                f"the state of {self._where} was opened anew, possibly with the changes: read the values before "
                f"writing again"
            )
        return outcome

    def _made(self) -> bool:
        """Make the changes, on the task's thread. False if the task is not initialised, or nobody waits any more."""
        participant = self._task.participant
        assert isinstance(participant, StatefulParticipant)
        opened = participant.task_state.opened
        if self._is_abandoned or opened is None or not participant.is_ready:
            return False
        self._apply(opened[1])
        participant.task_state.writes.add(self._settler())
        return True

    def _apply(self, state: KeyValueState[Any, Any]) -> None:
        for _, key, _, expected in self._changes:
            if expected is not _ANYTHING and state.get(key, _MISSING) != expected:
                raise ConflictError(f"key {shown(key)} in {self._where} has another value now: nothing was changed")
        for _, key, value, _ in self._changes:
            if value is not _DELETED:
                state.put(key, value)
                self.put += 1
            elif state.get(key, _MISSING) is not _MISSING:
                state.delete(key)
                self.deleted += 1

    def _settler(self) -> Settle:
        loop, committed = self._loop, self._committed

        def set_result(outcome: int | Unsettled) -> None:
            if not committed.done():
                committed.set_result(outcome)

        def settle(outcome: int | Unsettled) -> None:
            with contextlib.suppress(RuntimeError):  # the event loop is closed
                loop.call_soon_threadsafe(set_result, outcome)

        return settle
