"""Connections of a client of states to a worker, and what the client makes of servers that are none or answer oddly."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest

from tupletree._wire.codec import encode_value
from tupletree.client import direct_questions, worker_connections
from tupletree.client.direct_questions import DirectQuestions
from tupletree.client.worker_connections import MAX_CONNECTIONS, Connection, UnreachableError, Worker
from tupletree.errors import ConfigError, ProtocolError, TupletreeError, UnavailableError
from tupletree.v1.nimbus_pb2 import LocateStateReply, StatePlace
from tupletree.v1.topology_pb2 import StateEntry, TaskState
from tupletree.v1.worker_pb2 import DirectAnswer

KEY = encode_value("a")
SWITCHED = b"HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nTupletree-Key-Fields: 1\r\n\r\n"
GIVEN = LocateStateReply(topology_id="words-1-1", tasks=1, valid_s=3600)


class Server:
    """Answers each connection with a head, and each question with the next answer; ends it after the last one."""

    def __init__(self, head: bytes, answers: Sequence[bytes]) -> None:
        self.requests: list[bytes] = []
        self._head, self._answers = head, answers
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.place = StatePlace(host="127.0.0.1", http_port=self._listener.getsockname()[1], worker_id="w", indexes=[0])
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                self.requests.append(connection.recv(65536))
                connection.sendall(self._head)
                for answer in self._answers:
                    if not connection.recv(65536):
                        break
                    connection.sendall(answer)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(30)


@contextmanager
def serving(head: bytes, *answers: bytes) -> Iterator[Server]:
    server = Server(head, answers)
    try:
        yield server
    finally:
        server.close()


def framed(answer: DirectAnswer) -> bytes:
    data = answer.SerializeToString()
    return len(data).to_bytes(4, "big") + data


def answer_of(index: int = 0, key: bytes = KEY, committed: int | None = 7) -> DirectAnswer:
    task = TaskState(index=index, committed=committed, entries=[StateEntry(key=key, value=encode_value(5), size=1)])
    return DirectAnswer(tasks=[task])


def connected(server: Server) -> Connection:
    return Connection(server.place, GIVEN, "a b", None)


@pytest.mark.parametrize(
    ("head", "kind", "sentence"),
    [
        (b"HTTP/1.1 404 Not Found\r\n\r\n", UnreachableError, r"takes no questions of clients \(status 404\)$"),
        (b"HTTP/1.1 101 Switching\r\n\r\n", UnreachableError, r"takes no questions of clients \(status 101\)$"),
        (SWITCHED + b"more", UnreachableError, r"takes no questions of clients \(status 101\)$"),
        (b"SSH-2.0\r\n\r\n", UnreachableError, r"^a worker speaks another protocol$"),
        (b"x" * 20_000, UnreachableError, r"^worker at 127.0.0.1:\d+ speaks another protocol$"),
        (b"HTTP/1.1 401 Unauthorized\r\n\r\n", ConnectionRefusedError, r"^worker at .* refuses the connection$"),
        (b"HTTP/1.1 409 Conflict\r\n\r\n", ConnectionRefusedError, r"^worker at .* refuses the connection$"),
        (b"", ConnectionResetError, r"^the worker has ended the connection$"),
    ],
)
def test_what_is_no_worker_for_questions(head: bytes, kind: type[Exception], sentence: str) -> None:
    with serving(head) as server, pytest.raises(kind, match=sentence):
        connected(server)


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ((1 << 31).to_bytes(4, "big"), "a worker gave an answer of 2,147,483,648 bytes"),
        (b"\0\0\0\3\xff\xff\xff", "a worker gave an answer that cannot be decoded"),
        (framed(DirectAnswer()) + b"x", "a worker gave an answer to no question"),
    ],
)
def test_what_is_no_answer(answer: bytes, sentence: str) -> None:
    with serving(SWITCHED, answer) as server:
        connection = connected(server)
        connection.send(b"question", 30)
        with pytest.raises(ProtocolError, match=sentence):
            connection.receive()
        connection.close()


def test_a_request_says_what_is_asked_for() -> None:
    with serving(SWITCHED) as server:
        shown = LocateStateReply(topology_id="words-1-1", ticket="x.y.z")
        Connection(server.place, shown, "a b", None).close()
        assert b"tupletree-component: a%20b\r\nAuthorization: Bearer x.y.z\r\n\r\n" in server.requests[0]


def test_all_connections_to_a_worker_are_shared() -> None:
    with serving(SWITCHED) as server:
        opened: list[Connection] = []

        def connect(place: StatePlace) -> Connection:
            opened.append(connected(server))
            return opened[-1]

        worker = Worker(server.place, connect)
        taken = [worker.take(30) for _ in range(MAX_CONNECTIONS - 1)]
        worker.give_back(taken[0], is_broken=False)
        assert worker.take(30) is taken[0]
        taken.append(worker.take(30))
        assert len(opened) == MAX_CONNECTIONS
        with pytest.raises(TimeoutError, match="all connections to a worker are in use"):
            worker.take(0.01)
        worker.give_back(taken[0], is_broken=True)
        assert worker.take(30) is opened[-1] and len(opened) == MAX_CONNECTIONS + 1
        worker.close()
        worker.give_back(taken[1], is_broken=False)
        with pytest.raises(OSError, match=r"."):
            taken[1].send(b"question", 30)
        opened[-1].close()
        for one in taken[2:]:
            one.close()


def direct(locate: Callable[[], LocateStateReply]) -> DirectQuestions:
    """Questions of a client that has asked once."""
    made = DirectQuestions(lambda name, component: locate(), lambda: None)
    assert made.ask("words", "count", [KEY], False) is None, "the first question goes through nimbus"
    return made


@pytest.mark.parametrize(
    "answer",
    [
        framed(answer_of(index=1)),
        framed(answer_of(key=encode_value("other"))),
        framed(answer_of(committed=None)),
        framed(DirectAnswer(code=14, sentence="later", is_elsewhere=True)),
        b"\0\0\0\3\xff\xff\xff",
        b"",
    ],
)
def test_what_is_uncertain_goes_through_nimbus(answer: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct_questions, "SHORT_PAUSE_S", 3600.0)
    with serving(SWITCHED, answer) as server:
        asked: list[None] = []

        def locate() -> LocateStateReply:
            asked.append(None)
            return LocateStateReply(topology_id="words-1-1", tasks=1, valid_s=3600, places=[server.place])

        questions = direct(locate)
        for _ in range(3):
            assert questions.ask("words", "count", [KEY], False) is None
        assert (len(asked), len(server.requests)) == (1, 1), "the worker is left alone for a while"
        questions.close()


def test_answers_and_errors_of_a_worker() -> None:
    error = framed(DirectAnswer(code=14, sentence="task 0 is busy"))
    with serving(SWITCHED, framed(answer_of()), error, framed(answer_of(committed=None))) as server:
        reply = LocateStateReply(topology_id="words-1-1", tasks=1, valid_s=3600, places=[server.place])
        questions = direct(lambda: reply)
        for _ in range(2):
            try:
                [task] = questions.ask("words", "count", [KEY], False) or []
                assert (task.index, task.committed, task.entries[0].value) == (0, 7, encode_value(5))
            except UnavailableError as busy:
                assert str(busy) == "task 0 is busy"
        [task] = questions.ask("words", "count", [KEY], True) or []
        assert not task.HasField("committed"), "live values can be of before the first checkpoint"
        assert len(server.requests) == 1
        questions.close()


def test_certificates_that_cannot_be_read_leave_the_way_through_nimbus() -> None:
    def unreadable() -> None:
        raise ConfigError("the file ca.crt (tls.ca) does not exist")

    with serving(SWITCHED) as server:
        reply = LocateStateReply(topology_id="words-1-1", tasks=1, valid_s=3600, places=[server.place])
        questions = DirectQuestions(lambda name, component: reply, unreadable)
        assert [questions.ask("words", "count", [KEY], False) for _ in range(3)] == [None] * 3
        assert server.requests == []


def test_a_worker_whose_answer_takes_too_long_is_not_asked_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct_questions, "COMMITTED_S", 0.05)
    monkeypatch.setattr(direct_questions, "SHORT_PAUSE_S", 0.0)
    located: list[None] = []

    def be_slow(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(SWITCHED)
            while connection.recv(65536):
                pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        slow = threading.Thread(target=be_slow, args=(listener,), daemon=True)
        slow.start()
        place = StatePlace(host="127.0.0.1", http_port=listener.getsockname()[1], worker_id="w", indexes=[0])

        def locate() -> LocateStateReply:
            located.append(None)
            return LocateStateReply(topology_id="words-1-1", tasks=1, valid_s=3600, places=[place])

        questions = direct(locate)
        assert [questions.ask("words", "count", [KEY], False) for _ in range(5)] == [None] * 5
        slow.join(30)
    assert len(located) == 1


def test_an_answer_that_comes_byte_by_byte_is_waited_for_only_so_long() -> None:
    def drip(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection, contextlib.suppress(OSError):
            connection.recv(65536)
            connection.sendall(SWITCHED)
            connection.recv(65536)
            connection.sendall(b"\0\0\x10\0")
            while not ended.wait(0.001):
                connection.sendall(b"\0")

    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        dripping = threading.Thread(target=drip, args=(listener,), daemon=True)
        dripping.start()
        place = StatePlace(host="127.0.0.1", http_port=listener.getsockname()[1], worker_id="w", indexes=[0])
        connection = Connection(place, GIVEN, "a b", None)
        connection.send(b"question", 0.05)
        with pytest.raises(TimeoutError, match=r"^the worker takes too long for its answer$|^timed out$"):
            connection.receive()
        ended.set()
        connection.close()
        dripping.join(30)


def test_a_client_forgets_the_components_that_it_asked_for_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct_questions, "MAX_COMPONENTS", 2)
    asked: list[str] = []

    def locate(name: str, component: str) -> LocateStateReply:
        asked.append(component)
        raise UnavailableError("no nimbus leads")

    questions = DirectQuestions(locate, lambda: None)
    for component in ("a", "b", "c", "c", "b", "a"):
        assert questions.ask("words", component, [KEY], False) is None
    assert asked == ["c", "b"], "a was forgotten"


@pytest.mark.parametrize("error", [ProtocolError("this call is not offered here"), UnavailableError("no nimbus leads")])
def test_a_nimbus_that_does_not_say_where_is_not_asked_again_soon(
    error: TupletreeError, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct_questions, "SHORT_PAUSE_S", 3600.0)
    asked: list[None] = []

    def locate() -> LocateStateReply:
        asked.append(None)
        raise error

    questions = direct(locate)
    for _ in range(3):
        assert questions.ask("words", "count", [KEY], False) is None
    assert len(asked) == 1


def test_a_worker_that_hangs_is_waited_for_only_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_connections, "CONNECT_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = StatePlace(host="127.0.0.1", http_port=silent.getsockname()[1], worker_id="w", indexes=[0])
        reply = LocateStateReply(topology_id="words-1-1", tasks=1, valid_s=3600, places=[place])
        assert direct(lambda: reply).ask("words", "count", [KEY], False) is None
