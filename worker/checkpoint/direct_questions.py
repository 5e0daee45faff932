"""Questions that clients put to this worker itself, about the states of its tasks (docs/protocol.md).

    GET /states/questions  Upgrade: tupletree-states, the worker, the component, a ticket  ->  101, or a refusal
    then, one after the other:  length, ReadTaskStatesRequest  ->  length, DirectAnswer

Committed values in memory are answered where the bytes arrive, on the event loop, without another thread. A question
that this worker cannot answer for certain goes to nimbus instead: the answer says so.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Final
from urllib.parse import unquote

from google.protobuf.message import DecodeError

from tupletree._daemon.http_upgrade import Accepted, Headers, Upgrade, UpgradedProtocol, UpgradeRefusedError
from tupletree._rpc.status import to_status
from tupletree._security.guard import bearer
from tupletree._security.tickets import TICKET_S, check_ticket
from tupletree._security.tokens import Keyring
from tupletree.errors import NotFoundError, ProtocolError, TupletreeError, UnauthenticatedError
from tupletree.state.answers import MAX_KEY_BYTES
from tupletree.state.direct import COMPONENT, FIELDS, LENGTH_BYTES, PATH, PROTOCOL, TOPOLOGY, WORKER
from tupletree.v1.topology_pb2 import TaskState as TaskStateMessage
from tupletree.v1.worker_pb2 import DirectAnswer, ReadTaskStatesRequest

from ..core.task import Task
from .state_reads import BusyError, StateReads
from .task_state import TaskState

log = logging.getLogger("tupletree.questions")

MAX_QUESTION_BYTES: Final = 2 * MAX_KEY_BYTES
"""The keys with their lengths, the names, and the indexes of tasks."""
PIECE_BYTES: Final = 256 * 1024
"""Answered bytes that a client has not read yet: the next question waits meanwhile."""
WRITE_S: Final = 10.0
"""The longest time for which it may: then its connection ends."""


class DirectQuestions:
    """The route of questions. ``is_current``: returns False while this worker may have been replaced."""

    def __init__(
        self,
        reads: StateReads,
        topology_id: str,
        worker_id: str,
        keyring: Keyring | None,
        is_current: Callable[[], bool],
    ) -> None:
        self._reads = reads
        self._topology_id = topology_id
        self._worker_id = worker_id
        self._keyring = keyring
        self._is_current = is_current

    @property
    def routes(self) -> dict[str, Upgrade]:
        """The route by its path, for the worker's HTTP server."""
        return {PATH: Upgrade(PROTOCOL, self._accept)}

    def _accept(self, headers: Headers) -> Accepted:
        component = unquote(headers.get(COMPONENT, ""))
        left_s = TICKET_S
        if self._keyring is not None:
            try:
                ticket = bearer(headers.get("authorization"))
                if ticket is None:
                    raise UnauthenticatedError("questions to states require a ticket of nimbus")
                left_s = check_ticket(self._keyring, ticket, self._topology_id, component).left_s
            except UnauthenticatedError as error:
                raise UpgradeRefusedError(HTTPStatus.UNAUTHORIZED, str(error)) from None
        if (headers.get(TOPOLOGY), headers.get(WORKER)) != (self._topology_id, self._worker_id):
            sentence = f"this is worker {self._worker_id} of topology {self._topology_id}"
            raise UpgradeRefusedError(HTTPStatus.CONFLICT, sentence)
        try:
            fields = self._reads.fields_of_keys(component)
        except NotFoundError as error:
            raise UpgradeRefusedError(HTTPStatus.NOT_FOUND, str(error)) from None
        return Accepted(_Questions(self._reads, component, left_s, self._is_current), {FIELDS: str(fields)})


class _Questions(UpgradedProtocol):
    """One connection: its questions are answered one after the other. It ends with the ticket."""

    def __init__(self, reads: StateReads, component: str, left_s: float, is_current: Callable[[], bool]) -> None:
        super().__init__()
        self._reads = reads
        self._component = component
        self._left_s = left_s
        self._is_current = is_current
        self._received = bytearray()
        self._is_answering = False
        self._answering: asyncio.Task[None] | None = None  # of a question that is answered by a task of the event loop
        self._is_paused = False
        self._is_going_on = False  # in the next round of the event loop
        self._timers: list[asyncio.TimerHandle] = []

    def begin(self, transport: asyncio.Transport) -> None:
        super().begin(transport)
        transport.set_write_buffer_limits(PIECE_BYTES)
        self._timers = [asyncio.get_running_loop().call_later(self._left_s, transport.abort)]

    def data_received(self, data: bytes) -> None:
        self._received += data
        self._go_on()

    def pause_writing(self) -> None:
        assert self.transport is not None
        self._is_paused = True
        self._timers.append(asyncio.get_running_loop().call_later(WRITE_S, self.transport.abort))

    def resume_writing(self) -> None:
        self._is_paused = False
        self._timers.pop().cancel()
        self._go_on()

    def connection_lost(self, exc: Exception | None) -> None:
        self._received.clear()
        for timer in self._timers:
            timer.cancel()
        if self._answering is not None:
            self._answering.cancel()
        super().connection_lost(exc)

    def _go_on(self) -> None:
        """Answer the first question that has arrived, unless one is being answered, and the next one in another round
        of the event loop: who sends many at once does not hold it up."""
        received = self._received
        if len(received) > LENGTH_BYTES + MAX_QUESTION_BYTES:  # the client does not wait for its answers
            self._close()
        if self._is_answering or self._is_paused or self._is_going_on or len(received) < LENGTH_BYTES:
            return
        size = int.from_bytes(received[:LENGTH_BYTES], "big")
        if size > MAX_QUESTION_BYTES:
            self._write(_refusal(ProtocolError(f"a question may take {MAX_QUESTION_BYTES:,} bytes, not {size:,}")))
            self._close()
            return
        end = LENGTH_BYTES + size
        if len(received) < end:
            return
        question = bytes(received[LENGTH_BYTES:end])
        del received[:end]
        self._answer(question)
        if received:
            self._is_going_on = True
            asyncio.get_running_loop().call_soon(self._go_on_now)

    def _go_on_now(self) -> None:
        self._is_going_on = False
        self._go_on()

    def _answer(self, question: bytes) -> None:
        try:
            request = ReadTaskStatesRequest.FromString(question)
        except DecodeError:
            self._write(_refusal(ProtocolError("the question cannot be decoded")))
            self._close()
            return
        try:
            if not self._is_current():
                raise NotFoundError("this worker is possibly being replaced")
            if request.component != self._component or not request.keys or request.is_bulk:
                raise ProtocolError("a question to a worker is for keys of the component of its connection")
            states = self._reads.checked(request)
            if request.is_live and len(states) == 1:
                self._reads.live_soon(request, *states[0], self._answered)
                self._is_answering = True
                return
            found = None if request.is_live else self._reads.at_once(request, states)
        except BusyError as error:  # nimbus would ask the same worker
            self._write(_refusal(error))
            return
        except Exception as error:
            self._write(_refusal(error, is_elsewhere=True))
            return
        if found is not None:
            self._write(DirectAnswer(tasks=found))
            return
        self._is_answering = True
        self._answering = asyncio.get_running_loop().create_task(self._later(request, states))

    async def _later(self, request: ReadTaskStatesRequest, states: Sequence[tuple[Task, TaskState]]) -> None:
        try:
            outcome: list[TaskStateMessage] | Exception = await self._reads.answers(request, states)
        except Exception as error:
            outcome = error
        self._answering = None
        self._answered(outcome)

    def _answered(self, outcome: list[TaskStateMessage] | Exception) -> None:
        """Write the answer to the question that was waited for, and go on."""
        self._is_answering = False
        self._write(_refusal(outcome) if isinstance(outcome, Exception) else DirectAnswer(tasks=outcome))
        self._go_on()

    def _write(self, answer: DirectAnswer) -> None:
        data = answer.SerializeToString()
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(len(data).to_bytes(LENGTH_BYTES, "big") + data)

    def _close(self) -> None:
        self._received.clear()
        if self.transport is not None:
            self.transport.close()


def _refusal(error: Exception, *, is_elsewhere: bool = False) -> DirectAnswer:
    if not isinstance(error, TupletreeError):
        log.error("questions.failed", exc_info=error)
    code, sentence = to_status(error)
    return DirectAnswer(code=code.value[0], sentence=sentence, is_elsewhere=is_elsewhere)
