"""Questions of a client to the workers of a state themselves, without nimbus (docs/adr/0077).

    the first question: through nimbus    later ones: LocateState -> the places of the tasks, a ticket -> their workers

Where something is uncertain, the question goes through nimbus, which knows better: a worker does not answer, or says
that it is possibly being replaced, or has no checkpoint. Either way the answer is that of the same tasks.
"""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from tupletree._checkpoints.places import owner_of
from tupletree._rpc.status import error_of
from tupletree.client.worker_connections import Connection, NoneFreeError, UnreachableError, Worker
from tupletree.errors import ProtocolError, TupletreeError
from tupletree.state.answers import MAX_BYTES, fault_of, fitting
from tupletree.v1.nimbus_pb2 import LocateStateReply, StatePlace
from tupletree.v1.topology_pb2 import TaskState
from tupletree.v1.worker_pb2 import DirectAnswer, ReadTaskStatesRequest

FREE_S: Final = 1.0
"""The longest wait for a connection that other threads use."""
COMMITTED_S: Final = 2.0
LIVE_S: Final = 6.0
"""More than a worker waits for the thread of a task."""
SHORT_PAUSE_S: Final = 1.0
LONG_PAUSE_S: Final = 60.0
"""The times after which workers are tried again: one that is being replaced, and one that is out of reach or slow."""
MAX_COMPONENTS: Final = 1_000
"""For another one, that which was named first and is not asked directly is forgotten."""
_LEAST_S: Final = 0.001

Locate = Callable[[str, str], LocateStateReply]
"""Asks nimbus for the places of a component of a topology."""


class DirectQuestions:
    """The way to the workers of all states that a client asks for. Thread-safe."""

    def __init__(self, locate: Locate, tls: Callable[[], ssl.SSLContext | None]) -> None:
        self._locate = locate
        self._tls = tls
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], _Component | None] = {}  # None: of one that was asked for once
        self._retry_s: dict[tuple[str, str], float] = {}  # not to be tried before
        self._locating: set[tuple[str, str]] = set()
        self._closed = 0  # times

    def ask(self, name: str, component: str, keys: Sequence[bytes], is_live: bool) -> list[TaskState] | None:
        """Return the answers of tasks, or None if nimbus has to be asked.

        Raises the error with which a task answers: it has no free thread, say, or its store cannot be reached.
        """
        of = name, component
        try:
            found = self._component(of)
            if found is None:
                return None
            answers = found.ask(keys, is_live)
        except NoneFreeError:  # those that have one go on
            return None
        except (UnreachableError, TimeoutError):  # a slow store would be read twice for each question
            self._give_up(of, LONG_PAUSE_S)
        except (OSError, ProtocolError):
            self._give_up(of, SHORT_PAUSE_S)
        else:
            if answers is not None:
                return answers
            self._give_up(of, SHORT_PAUSE_S)
        return None

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            known, self._known = self._known, {}
            self._retry_s.clear()
            self._closed += 1
        for one in known.values():
            if one is not None:
                one.close()

    def _component(self, of: tuple[str, str]) -> _Component | None:
        """Return the places of a component; None where it is to be asked for through nimbus this time."""
        now_s = time.monotonic()
        with self._lock:
            found = self._known.get(of)
            if found is not None and now_s < found.until_s:
                return found
            if of not in self._known:
                self._make_room(now_s)
                if len(self._known) < MAX_COMPONENTS:
                    self._known[of] = None
                return None
            if of in self._locating or now_s < self._retry_s.get(of, 0.0):
                return None
            self._locating.add(of)
        try:
            return self._located(of)
        finally:
            with self._lock:
                self._locating.discard(of)

    def _make_room(self, now_s: float) -> None:
        """Forget the component that was named first and is not asked directly, if there are too many."""
        if len(self._known) < MAX_COMPONENTS:
            return
        idle = (of for of, one in self._known.items() if one is None and now_s >= self._retry_s.get(of, 0.0))
        oldest = next(idle, None)
        if oldest is not None:
            del self._known[oldest]
            self._retry_s.pop(oldest, None)

    def _located(self, of: tuple[str, str]) -> _Component | None:
        """Ask nimbus for the places of a component."""
        closed = self._closed
        try:
            reply = self._locate(*of)
            tls = self._tls() if reply.places else None
        except ProtocolError:  # a nimbus of an earlier version
            self._give_up(of, LONG_PAUSE_S)
            return None
        except TupletreeError:  # which the question through nimbus raises, too
            self._give_up(of, SHORT_PAUSE_S)
            return None
        made = _Component(of[1], reply, tls) if reply.places else None
        with self._lock:
            outdated = [one for one in self._known.values() if one is not None and one.until_s <= time.monotonic()]
            is_open = closed == self._closed
            if is_open:
                self._known[of] = made
                self._retry_s[of] = 0.0 if made is not None else time.monotonic() + reply.valid_s
        for one in outdated:
            one.close()
        return made if is_open else None

    def _give_up(self, of: tuple[str, str], pause_s: float) -> None:
        """Ask nimbus about a component for a while."""
        with self._lock:
            found = self._known.get(of)
            self._known[of] = None
            self._retry_s[of] = time.monotonic() + pause_s
        if found is not None:
            found.close()


class _Component:
    """The workers of the tasks of a component, as nimbus has named them. Known until ``until_s``."""

    def __init__(self, component: str, reply: LocateStateReply, tls: ssl.SSLContext | None) -> None:
        self.until_s = time.monotonic() + reply.valid_s
        self._component = component
        self._reply = reply
        self._tls = tls
        self._fields = 0  # of the grouping that names the only task of a key; 0: none, or unknown yet
        self._workers = [Worker(place, self._connect) for place in reply.places]

    def ask(self, keys: Sequence[bytes], is_live: bool) -> list[TaskState] | None:
        """Ask the only task of each key, or all tasks; return the answers, or None if they are not certain.

        Raises OSError, ProtocolError, and the error that a task answers with.
        """
        if self._fields:
            owners = {owner_of(key, self._reply.tasks, self._fields) for key in keys}
            if None not in owners:
                answers = self._ask(sorted(owners), keys, is_live)  # type: ignore[arg-type]
                if answers is None or {entry.key for task in answers for entry in task.entries} == set(keys):
                    return answers
        return self._ask(range(self._reply.tasks), keys, is_live)

    def close(self) -> None:
        """Close the connections, or have them closed when they are free."""
        for worker in self._workers:
            worker.close()

    def _ask(self, indexes: Sequence[int], keys: Sequence[bytes], is_live: bool) -> list[TaskState] | None:
        until_s = time.monotonic() + (LIVE_S if is_live else COMMITTED_S)
        requests: dict[Worker, ReadTaskStatesRequest] = {}
        for worker in self._workers:
            own = [index for index in indexes if index in worker.indexes]
            if own:
                requests[worker] = self._request(own, keys, is_live)
        found: list[TaskState] = []
        taken: dict[Worker, Connection] = {}
        try:
            for worker in requests:
                taken[worker] = worker.take(min(FREE_S, _left_s(until_s)))
            for worker, request in requests.items():
                taken[worker].send(request.SerializeToString(), _left_s(until_s))
            for worker, request in requests.items():
                answer = taken[worker].receive()
                worker.give_back(taken.pop(worker))
                if answer.is_elsewhere:
                    return None
                found += _checked(answer, request)
        finally:
            for worker, connection in taken.items():  # which have not answered
                worker.give_back(connection, is_broken=True)
        if not is_live and not all(task.HasField("committed") for task in found):
            return None  # before the first checkpoint, or of a state that has moved away
        if len(requests) == 1:
            return found
        found.sort(key=lambda task: task.index)
        return fitting(found)

    def _request(self, indexes: Sequence[int], keys: Sequence[bytes], is_live: bool) -> ReadTaskStatesRequest:
        return ReadTaskStatesRequest(
            topology_id=self._reply.topology_id,
            component=self._component,
            indexes=indexes,
            is_live=is_live,
            keys=keys,
            max_bytes=MAX_BYTES,
        )

    def _connect(self, place: StatePlace) -> Connection:
        made = Connection(place, self._reply, self._component, self._tls)
        self._fields = made.fields
        return made


def _left_s(until_s: float) -> float:
    """Return the time until then, or a short one if it has come."""
    return max(_LEAST_S, until_s - time.monotonic())


def _checked(answer: DirectAnswer, request: ReadTaskStatesRequest) -> Sequence[TaskState]:
    """Return the answers of tasks. Raises the error that the question ended with, and ProtocolError."""
    if answer.code:
        raise error_of(answer.code, answer.sentence)
    fault = fault_of(answer.tasks, request)
    if fault:
        raise ProtocolError(f"a worker gave an answer that {fault}")
    return answer.tasks
