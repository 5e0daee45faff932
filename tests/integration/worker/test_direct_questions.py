"""Questions of clients to a worker itself, over real sockets: who may ask, what is answered, and what is refused."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from prometheus_client import CollectorRegistry
from test_state_reads import KEY, worker_service

from tupletree._daemon.health import Readiness
from tupletree._daemon.http import HttpServer
from tupletree._security.current import Security
from tupletree._security.tickets import issue_ticket
from tupletree._security.tokens import Keyring
from tupletree._wire.codec import encode_value
from tupletree.errors import UnavailableError
from tupletree.state import MemoryStateProvider
from tupletree.state.memory import MemoryReader
from tupletree.v1.worker_pb2 import DirectAnswer, ReadTaskStatesRequest
from tupletree.worker.checkpoint import direct_questions, state_reads
from tupletree.worker.checkpoint.direct_questions import MAX_QUESTION_BYTES, DirectQuestions
from tupletree.worker.service import WorkerService

HANG_S = 30.0
THIS = "words-1-1"
SECRET = b"0123456789abcdef0123456789abcdef"
WORKERS = Keyring(
    "tupletree", keys={name: bytes.fromhex(key) for name, key in Keyring("tupletree", SECRET).of_worker(THIS).items()}
)


class Client:
    """One connection, after the response to its request."""

    def __init__(self, status: int, body: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.status, self.body = status, body
        self.reader, self.writer = reader, writer

    def send(self, **fields: Any) -> None:
        asked = {"topology_id": THIS, "component": "count", "indexes": [0, 1], "keys": [KEY], **fields}
        self.send_bytes(ReadTaskStatesRequest(**asked).SerializeToString())

    def send_bytes(self, data: bytes, size: int | None = None) -> None:
        self.writer.write((len(data) if size is None else size).to_bytes(4, "big") + data)

    async def answer(self) -> DirectAnswer:
        async with asyncio.timeout(HANG_S):
            size = int.from_bytes(await self.reader.readexactly(4), "big")
            return DirectAnswer.FromString(await self.reader.readexactly(size))

    async def ask(self, **fields: Any) -> DirectAnswer:
        self.send(**fields)
        return await self.answer()

    async def rest(self) -> bytes:
        async with asyncio.timeout(HANG_S):
            return await self.reader.read()


class Bench:
    """A worker with two tasks of ``count``."""

    def __init__(self, service: WorkerService, port: int) -> None:
        self.service, self.port = service, port
        self.is_current = True
        self.clients: list[Client] = []

    async def connect(
        self, topology: str = THIS, worker: str = "w", component: str = "count", ticket: str | None = None
    ) -> Client:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        lines = [
            "GET /states/questions HTTP/1.1",
            "Host: x",
            "Connection: Upgrade",
            "Upgrade: tupletree-states",
            f"tupletree-topology: {topology}",
            f"tupletree-worker: {worker}",
            f"tupletree-component: {component}",
            *([] if ticket is None else [f"Authorization: Bearer {ticket}"]),
        ]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        async with asyncio.timeout(HANG_S):
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = int(head.partition(b"content-length: ")[2].split(b"\r\n")[0] or 0)
            body = await reader.readexactly(length)
        made = Client(int(head.split()[1]), body, reader, writer)
        self.clients.append(made)
        return made


@asynccontextmanager
async def serving(provider: str, keyring: Keyring | None) -> AsyncIterator[Bench]:
    service = worker_service(provider)
    bench = Bench(service, 0)
    questions = DirectQuestions(service.state_reads, THIS, "w", keyring, lambda: bench.is_current)
    server = HttpServer(Readiness(), CollectorRegistry(), questions.routes, security=Security(keyring=keyring))
    bench.port = await server.start("127.0.0.1", 0)
    try:
        yield bench
    finally:
        for one in bench.clients:
            one.writer.close()
        async with asyncio.timeout(HANG_S):
            await server.stop()


def run(
    scenario: Callable[[Bench], Coroutine[Any, Any, None]], provider: str = "memory", keyring: Keyring | None = None
) -> None:
    async def main() -> None:
        async with serving(provider, keyring) as bench:
            await scenario(bench)

    asyncio.run(main())


def commit(service: WorkerService, *counts: int) -> None:
    """Open the states of both tasks, and commit a count in each."""
    for index, count in enumerate(counts):
        [task] = [
            one for (_, at), one in service.state_reads._tasks.items() if at == index and one.component_id == "count"
        ]
        state: Any = task.participant.task_state.state  # type: ignore[attr-defined]
        state["a"] = count
        state.prepare_commit(7)
        state.commit(7)


def found(answer: DirectAnswer) -> list[tuple[int, int, list[bytes]]]:
    assert not answer.code, answer.sentence
    return [(task.index, task.committed, [entry.value for entry in task.entries]) for task in answer.tasks]


def test_committed_values_are_answered_where_the_question_arrives() -> None:
    async def scenario(bench: Bench) -> None:
        commit(bench.service, 5, 6)
        client = await bench.connect()
        assert client.status == 101
        assert found(await client.ask()) == [(0, 7, [encode_value(5)]), (1, 7, [encode_value(6)])]
        assert found(await client.ask(indexes=[1])) == [(1, 7, [encode_value(6)])]
        assert found(await client.ask(keys=[encode_value("b")])) == [(0, 7, []), (1, 7, [])]
        assert bench.service.state_reads._threads is None, "no thread was made"

    run(scenario)


def test_a_commit_under_way_is_waited_for_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(bench: Bench) -> None:
        commit(bench.service, 5, 6)
        client = await bench.connect()
        monkeypatch.setattr(MemoryReader, "held", lambda self: contextlib.nullcontext(False))
        assert found(await client.ask(indexes=[0])) == [(0, 7, [encode_value(5)])]
        assert bench.service.state_reads._threads is not None

    run(scenario)


def test_several_questions_at_once_are_answered_in_order() -> None:
    async def scenario(bench: Bench) -> None:
        commit(bench.service, 5, 6)
        client = await bench.connect()
        data = b"".join(
            len(one).to_bytes(4, "big") + one
            for index in (0, 1, 0)
            for one in [
                ReadTaskStatesRequest(
                    topology_id=THIS, component="count", indexes=[index], keys=[KEY]
                ).SerializeToString()
            ]
        )
        for byte in data[:9]:
            client.writer.write(bytes([byte]))
            await client.writer.drain()
        client.writer.write(data[9:])
        assert [(await client.answer()).tasks[0].index for _ in range(3)] == [0, 1, 0]

    run(scenario)


class Odd(MemoryStateProvider):
    """Opens no reader."""

    def open_reader(self, namespace: str, conf: Any, topology_conf: Any) -> Any:
        raise ValueError("an odd shelf")


def test_errors_of_tasks_are_final_and_those_of_places_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_reads, "LIVE_S", 0.05)

    async def scenario(bench: Bench) -> None:
        client = await bench.connect()
        for fields, code, sentence, is_elsewhere in (
            ({"is_live": True}, grpc.StatusCode.UNAVAILABLE, "is in a call of its own for more than", False),
            (
                {"is_live": True, "indexes": [1]},
                grpc.StatusCode.UNAVAILABLE,
                "task 1 of component 'count' is in",
                False,
            ),
            ({"is_live": True, "indexes": [1], "keys": [b"\xc1"]}, grpc.StatusCode.INVALID_ARGUMENT, "a key of", True),
            ({}, grpc.StatusCode.UNAVAILABLE, "the state provider raised ValueError: an odd shelf", False),
            ({"indexes": [2]}, grpc.StatusCode.UNAVAILABLE, "task 2 of component 'count' does not run in this", True),
            ({"topology_id": "other-1-1"}, grpc.StatusCode.NOT_FOUND, "this is a worker of topology words-1-1", True),
            ({"component": "words"}, grpc.StatusCode.OUT_OF_RANGE, "for keys of the component of its connec", True),
            ({"keys": [], "limit": 5}, grpc.StatusCode.OUT_OF_RANGE, "for keys of the component of its connec", True),
            ({"is_bulk": True}, grpc.StatusCode.OUT_OF_RANGE, "for keys of the component of its connection", True),
            ({"keys": [KEY] * 101}, grpc.StatusCode.INVALID_ARGUMENT, "ask for 1 to 100 keys at once", True),
        ):
            answer = await client.ask(**fields)
            assert (answer.code, answer.is_elsewhere) == (code.value[0], is_elsewhere), answer
            assert sentence in answer.sentence
        bench.is_current = False
        answer = await client.ask()
        assert (answer.is_elsewhere, answer.sentence) == (True, "this worker is possibly being replaced")

    run(scenario, f"{__name__}:Odd")


def test_what_is_no_question_ends_the_connection() -> None:
    async def scenario(bench: Bench) -> None:
        client = await bench.connect()
        client.send_bytes(b"\xff\xff\xff")
        assert (await client.answer()).sentence == "the question cannot be decoded"
        assert await client.rest() == b""
        client = await bench.connect()
        client.send_bytes(b"", size=MAX_QUESTION_BYTES + 1)
        assert (await client.answer()).sentence == "a question may take 131,072 bytes, not 131,073"
        assert await client.rest() == b""

    run(scenario)


def test_no_bytes_break_a_worker() -> None:
    async def scenario(bench: Bench) -> None:
        commit(bench.service, 5, 6)
        rng = random.Random(7)
        good = ReadTaskStatesRequest(topology_id=THIS, component="count", indexes=[0], keys=[KEY]).SerializeToString()
        for _ in range(200):
            client = await bench.connect()
            for _ in range(rng.randrange(4)):
                data = bytearray(good if rng.random() < 0.7 else rng.randbytes(rng.randrange(60)))
                for _ in range(rng.randrange(3)):
                    data[rng.randrange(len(data) or 1) :] = rng.randbytes(rng.randrange(9))
                client.send_bytes(bytes(data), rng.choice([None, None, len(data) + 1, rng.randrange(1 << 32)]))
            client.writer.write_eof()
            with contextlib.suppress(ConnectionResetError):
                await client.rest()
        assert len(found(await (await bench.connect()).ask())) == 2

    run(scenario)


def test_a_client_that_does_not_wait_for_its_answers_is_cut_off() -> None:
    async def scenario(bench: Bench) -> None:
        client = await bench.connect()
        client.send(is_live=True)  # which nothing answers: no thread of this engine runs
        for _ in range(3):
            client.send_bytes(bytes(MAX_QUESTION_BYTES))
        with contextlib.suppress(ConnectionResetError):
            assert await client.rest() == b""

    run(scenario)


def test_questions_that_arrive_together_leave_the_event_loop_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    answered: list[int] = []
    rounds = 0
    answer = direct_questions._Questions._answer

    def observed(self: Any, question: bytes) -> None:
        answered.append(rounds)
        answer(self, question)

    async def scenario(bench: Bench) -> None:
        commit(bench.service, 5, 6)
        client = await bench.connect()
        loop = asyncio.get_running_loop()

        def count() -> None:
            nonlocal rounds
            rounds += 1
            loop.call_soon(count)

        count()
        for _ in range(200):
            client.send()
        for _ in range(200):
            assert len(found(await client.answer())) == 2

    monkeypatch.setattr(direct_questions._Questions, "_answer", observed)
    run(scenario)
    assert len(set(answered)) == len(answered) == 200


def test_what_a_client_has_asked_ends_with_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    ended = asyncio.Event()
    lost = direct_questions._Questions.connection_lost

    def connection_lost(self: Any, error: Exception | None) -> None:
        lost(self, error)
        ended.set()

    monkeypatch.setattr(state_reads, "ask_task", lambda task, call, timeout_s, remedy, done: asked.append(done))
    monkeypatch.setattr(direct_questions._Questions, "connection_lost", connection_lost)

    async def scenario(bench: Bench) -> None:
        client = await bench.connect()
        for _ in range(20):
            client.send(is_live=True, indexes=[0])
        client.writer.transport.abort()
        async with asyncio.timeout(HANG_S):
            await ended.wait()
        for done in asked[:]:
            done(UnavailableError("late"))
        await asyncio.sleep(0)
        assert len(asked) <= 1

    run(scenario)


def test_who_is_not_meant_is_told_so() -> None:
    async def scenario(bench: Bench) -> None:
        for fields, status, sentence in (
            ({"worker": "other"}, 409, b"this is worker w of topology words-1-1\n"),
            ({"topology": "other-1-1"}, 409, b"this is worker w of topology words-1-1\n"),
            ({"component": "words"}, 404, b"component 'words' has no state\n"),
            ({"component": "no%20such"}, 404, b"no task of component 'no such' runs in this worker\n"),
        ):
            client = await bench.connect(**fields)
            assert (client.status, client.body) == (status, sentence)

    run(scenario)


def test_a_ticket_is_asked_for_and_the_connection_ends_with_it() -> None:
    def ticket(component: str = "count", age_s: float = 0, secret: bytes = SECRET) -> str:
        return issue_ticket(Keyring("tupletree", secret), "alice", THIS, component, time.time() - age_s)

    async def scenario(bench: Bench) -> None:
        for shown, sentence in (
            (None, b"questions to states require a ticket of nimbus\n"),
            ("nonsense", b"the ticket is not valid for this topology\n"),
            (ticket(age_s=3600), b"the ticket has expired\n"),
            (ticket("totals"), b"the ticket is for another component\n"),
            (ticket(secret=SECRET[::-1]), b"the ticket is not valid for this topology\n"),
            (WORKERS.issue("w", "worker", topology=THIS), b"the ticket is not valid for this topology\n"),
        ):
            client = await bench.connect(ticket=shown, worker="other")
            assert (client.status, client.body) == (401, sentence)
        commit(bench.service, 5, 6)
        client = await bench.connect(ticket=ticket())
        assert len(found(await client.ask())) == 2
        client = await bench.connect(ticket=ticket(age_s=direct_questions.TICKET_S + 13))
        assert client.status == 101
        assert await client.rest() == b"", "it ends with its ticket"

    run(scenario, keyring=WORKERS)
