"""What a webhook spout answers, over real sockets: after processing, and to everything that can go wrong."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import re
import socket
import ssl
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from queue_components import History, new_history, watched
from webhook_client import Callers, Reply, post

from tupletree import Backoff, TopologyBuilder
from tupletree._net import ReservedPorts
from tupletree._security.authority import Authority
from tupletree.connectors.formats import Json, Text, WithHeaders
from tupletree.connectors.http import WebhookSpout
from tupletree.connectors.http.webhook_receiver import WebhookReceiver
from tupletree.errors import UnavailableError, UsageError
from tupletree.testing import LocalCluster, wait_until
from tupletree.testing.simulation.external import current

FAST = Backoff(first_s=0.01, max_attempts=2)


class Place:
    """A topology behind a webhook, with the history of its bolt."""

    def __init__(self, cluster: LocalCluster, port: int) -> None:
        self.cluster = cluster
        self.port = port
        self._stand_in = new_history()
        self.history: History = current(self._stand_in)

    def submit(self, *, retry: Backoff = FAST, dead_letters: bool = False, **arguments: Any) -> None:
        spout = WebhookSpout(self.port, arguments.pop("format", Text()), **arguments)
        topology = watched(spout, self._stand_in, retry=retry, dead_letters=dead_letters)
        self.cluster.submit("hooks", topology)

    def start(self, **arguments: Any) -> None:
        self.submit(**arguments)
        wait_until(self.is_listening, 20, what="the spout listens")

    def is_listening(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def post(self, body: Any, **arguments: Any) -> Reply:
        return post(self.port, body, **arguments)

    def talk(self, data: bytes) -> bytes:
        """All that is answered to ``data`` until the server ends the connection."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as connection:
            connection.sendall(data)
            return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.fixture
def place() -> Iterator[Place]:
    ports = ReservedPorts()
    try:
        with LocalCluster() as cluster:
            yield Place(cluster, ports.reserve(1)[0])
    finally:
        ports.release()


def test_a_request_is_answered_when_its_tree_is_complete(place: Place) -> None:
    place.start()
    place.history.holds = True
    with Callers(place.port) as callers:
        waiting = callers.post(b"held")
        wait_until(lambda: place.history.held, 20, what="the bolt has the tuple")
        assert not waiting.done()
        place.history.finish()
        assert (waiting.result().status, waiting.result().text) == (200, "processed")


def test_a_request_that_is_only_to_be_accepted_is_answered_at_once(place: Place) -> None:
    place.start(answer="accepted")
    place.history.holds = True
    assert place.post(b"held", Idempotency_Key="a").status == 202
    wait_until(lambda: place.history.held, 20, what="the bolt has the tuple")
    assert place.post(b"held", Idempotency_Key="a").status == 202
    place.history.finish()
    wait_until(lambda: place.post(b"held", Idempotency_Key="a").status == 200, 20, what="it is processed")
    assert place.history.executed["held"] == 1


def test_the_same_key_joins_while_in_process_and_is_remembered_afterwards(place: Place) -> None:
    place.start()
    place.history.holds = True
    with Callers(place.port) as callers:
        waiting = [callers.post(b"once", Idempotency_Key="k1") for _ in range(8)]
        wait_until(lambda: place.history.held, 20, what="the bolt has the tuple")
        assert place.post(b"other", Idempotency_Key="k1").status == 422
        place.history.finish()
        assert [one.result().status for one in waiting] == [200] * 8
    assert place.post(b"once", Idempotency_Key="k1").status == 200
    assert place.post(b"other", Idempotency_Key="k1").text == "the key belongs to a request with another body"
    assert place.history.executed == {"once": 1}
    assert place.post(b"once", Idempotency_Key="k2").status == 200
    assert place.post(b"once").status == 200
    assert place.history.executed == {"once": 3}


def test_only_so_many_keys_are_remembered(place: Place) -> None:
    place.start(max_keys=2)
    for key in ("a", "b", "c"):
        assert place.post(b"text", Idempotency_Key=key).status == 200
    assert place.post(b"text", Idempotency_Key="c").status == 200
    assert place.history.executed["text"] == 3
    assert place.post(b"text", Idempotency_Key="a").status == 200
    assert place.history.executed["text"] == 4


def test_what_fails_once_is_tried_again_and_what_fails_always_is_answered_503(place: Place) -> None:
    place.history.fails = 1
    place.start()
    assert place.post(b"flaky").status == 200
    assert place.history.executed["flaky"] == 2
    reply = place.post(b"poison", Idempotency_Key="p")
    assert (reply.status, reply.text) == (503, "the request failed: send it again later")
    assert int(reply.headers["retry-after"]) >= 1
    assert place.post(b"poison", Idempotency_Key="p").status == 503
    assert place.history.executed["poison"] == 4  # a failure is not remembered


def test_with_dead_letters_what_is_given_up_is_answered_422_when_its_letter_is_processed(place: Place) -> None:
    place.start(dead_letters=True)
    reply = place.post(b"poison", Idempotency_Key="p")
    assert (reply.status, reply.text) == (422, "the request was given up: it would fail again")
    [letter] = place.history.letters
    assert letter[:2] == ["p", ["poison"]]
    assert place.post(b"poison", Idempotency_Key="p").status == 422
    assert place.history.executed["poison"] == 2


def test_a_caller_that_waited_too_long_is_told_and_the_request_goes_on(place: Place) -> None:
    place.start(timeout_s=0.2)
    place.history.holds = True
    reply = place.post(b"slow", Idempotency_Key="s")
    assert (reply.status, reply.text) == (503, "the request is not processed yet: send it again later")
    place.history.finish()
    wait_until(lambda: place.post(b"slow", Idempotency_Key="s").status == 200, 20, what="it is processed")
    assert place.history.executed["slow"] == 1


def test_a_full_topology_answers_503_and_goes_on(place: Place) -> None:
    place.start(max_in_flight=4)
    place.history.holds = True
    with Callers(place.port) as callers:
        waiting = [callers.post(f"held {number}".encode()) for number in range(4)]
        wait_until(lambda: len(place.history.held) == 4, 20, what="it is full")
        reply = place.post(b"one more")
        assert (reply.status, reply.text) == (503, "too many requests are in process: send it again later")
        assert "retry-after" in reply.headers
        place.history.finish()
        assert {one.result().status for one in waiting} == {200}
    assert place.post(b"one more").status == 200


def test_requests_that_nobody_waits_for_any_longer_are_only_so_many() -> None:
    [port] = (ports := ReservedPorts()).reserve(1)
    receiver = WebhookReceiver(WebhookSpout(port, Text(), timeout_s=0.05, max_in_flight=4)._webhook)
    try:
        receiver.listen(port)
        replies = [post(port, f"{number}".encode()) for number in range(10)]  # and the spout is not called
        assert [reply.text.split(":")[0] for reply in replies] == [
            *["the request is not processed yet"] * 4,
            *["too many requests are in process"] * 6,
        ]
        assert (receiver.next(), receiver.outstanding) == (None, 0)
        assert post(port, b"again").text.startswith("the request is not processed yet")
    finally:
        receiver.close()
        ports.release()


def test_a_deactivated_topology_answers_503_and_finishes_what_it_has(place: Place) -> None:
    place.start()
    place.history.holds = True
    with Callers(place.port) as callers:
        waiting = callers.post(b"held")
        wait_until(lambda: place.history.held, 20, what="the bolt has the tuple")
        place.cluster.deactivate("hooks")
        wait_until(lambda: place.post(b"other").status == 503, 20, what="new requests are refused")
        assert place.post(b"other").text == "the topology is deactivated: send it again later"
        place.history.finish()
        assert waiting.result().status == 200
        place.cluster.activate("hooks")
        wait_until(lambda: place.post(b"other").status == 200, 20, what="it is active again")


@pytest.mark.parametrize(
    ("body", "arguments", "status", "text"),
    [
        (b"{", {}, 400, "the message is not JSON"),
        (b'{"order": 1}', {}, 400, "the message has no 'amount'"),
        (b"[1]", {}, 400, "the message is a JSON list, not an object with fields"),
        (b"", {}, 400, "the message is not JSON"),
        (b"x" * 2000, {}, 413, "Request Entity Too Large"),
        (b"{}", {"path": "/elsewhere"}, 404, "Not Found"),
        (b"", {"method": "GET", "path": "/orders"}, 405, "Method Not Allowed"),
        (b"{}", {"method": "PUT", "path": "/orders"}, 405, "Method Not Allowed"),
        (b'{"order": 1, "amount": 2}', {"Idempotency_Key": "k" * 256}, 400, "the header Idempotency-Key"),
        (b'{"order": 1, "amount": 2}', {"Idempotency_Key": ""}, 400, "the header Idempotency-Key"),
    ],
    ids=str,
)
def test_a_bad_request_gets_one_sentence(
    place: Place, body: bytes, arguments: dict[str, str], status: int, text: str
) -> None:
    place.start(format=Json(["order", "amount"]), path="/orders", max_body_bytes=1000)
    reply = place.post(body, **{"path": "/orders", **arguments})
    assert reply.status == status
    assert reply.text.startswith(text)
    assert "\n" not in reply.text


HEAD = b"POST / HTTP/1.1\r\nHost: x\r\n"


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01" + bytes(range(256)) * 8, b"400"),
        (b"\xff" * 100_000, b"431"),
        (b"POST / HTTP/1.1\r\n\r\n", b"400"),
        (HEAD + b"Content-Length: many\r\n\r\n", b"400"),
        (HEAD + b"Content-Length: -1\r\n\r\n", b"400"),
        (HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", b"400"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\nzzz\r\n", b"400"),
        (HEAD + b"Content-Length: 99999999999\r\n\r\n", b"413"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + (b"1000\r\n" + bytes(4096) + b"\r\n") * 300, b"413"),
        (HEAD + b"Content-Length: 99999999999\r\nExpect: 100-continue\r\n\r\n", b"413"),
        (HEAD + b"X: " + b"a" * 100_000 + b"\r\n\r\n", b"431"),
    ],
    ids=[
        "tls", "rubbish", "no host", "no number", "negative", "two lengths", "bad chunk", "huge", "huge in chunks",
        "huge, asked for", "large header",
    ],
)  # fmt: skip
def test_what_is_no_request_or_too_large_is_refused_and_hurts_nobody(place: Place, data: bytes, status: bytes) -> None:
    place.start(max_body_bytes=1024 * 1024)
    assert place.talk(data).split(b" ", 2)[1] == status
    assert place.post(b"fine").status == 200
    assert place.history.executed == {"fine": 1}


def test_bodies_arrive_whole_in_chunks_in_pieces_and_when_asked_for(place: Place) -> None:
    place.start()
    end = b"Connection: close\r\n\r\n"
    chunked = HEAD + b"Transfer-Encoding: chunked\r\n" + end + b"3\r\none\r\n4\r\n two\r\n0\r\n\r\n"
    assert place.talk(chunked).startswith(b"HTTP/1.1 200 ")
    two = (HEAD + b"Content-Length: 1\r\n\r\na") + (HEAD + b"Content-Length: 1\r\n" + end + b"b")
    assert place.talk(two).count(b"HTTP/1.1 200 ") == 2
    with socket.create_connection(("127.0.0.1", place.port), timeout=30) as connection:
        connection.sendall(HEAD + b"Content-Length: 4\r\nExpect: 100-continue\r\n" + end)
        assert connection.recv(100).startswith(b"HTTP/1.1 100 ")
        for piece in (b"la", b"te"):
            connection.sendall(piece)
        assert connection.recv(100).startswith(b"HTTP/1.1 200 ")
    assert set(place.history.executed) == {"one two", "a", "b", "late"}


def test_a_client_that_is_gone_before_its_answer_hurts_nobody(place: Place) -> None:
    place.start()
    place.history.holds = True
    with socket.create_connection(("127.0.0.1", place.port)) as connection:
        connection.sendall(HEAD + b"Content-Length: 4\r\n\r\ngone")
        wait_until(lambda: place.history.held, 20, what="the bolt has the tuple")
    with socket.create_connection(("127.0.0.1", place.port)) as connection:
        connection.sendall(HEAD + b"Content-Length: 400\r\n\r\nnever complete")
    place.history.finish()
    assert place.post(b"next").status == 200
    assert place.history.executed == {"gone": 1, "next": 1}


@pytest.mark.long
def test_a_slow_client_is_cut_off_and_hurts_nobody(place: Place) -> None:
    place.start()
    with socket.create_connection(("127.0.0.1", place.port), timeout=30) as connection:
        connection.sendall(HEAD + b"Content-Length: 400\r\n\r\nslow")
        assert place.post(b"fast").status == 200
        assert connection.recv(1000).startswith(b"HTTP/1.1 408 ")
    assert place.history.executed == {"fast": 1}


def test_of_many_idle_connections_the_oldest_end_and_those_in_process_stay(place: Place) -> None:
    place.start(max_in_flight=2)
    place.history.holds = True
    with Callers(place.port) as callers:
        waiting = callers.post(b"held")
        wait_until(lambda: place.history.held, 20, what="the bolt has the tuple")
        silent = [socket.create_connection(("127.0.0.1", place.port), timeout=30) for _ in range(150)]
        assert silent[0].recv(10) == b""
        place.history.finish()
        assert waiting.result().status == 200
        for one in silent:
            one.close()


def test_a_body_without_the_right_signature_is_refused(place: Place) -> None:
    place.start(secret="sesame")
    signature = "sha256=" + hmac.new(b"sesame", b"body", hashlib.sha256).hexdigest()
    assert place.post(b"body", X_Hub_Signature_256=signature).status == 200
    assert place.post(b"body!", X_Hub_Signature_256=signature).status == 403
    assert place.post(b"body", X_Hub_Signature_256="sha256=é").status == 403
    reply = place.post(b"body")
    assert (reply.status, reply.text) == (403, "the header X-Hub-Signature-256 is not the HMAC-SHA256 of the body")
    assert place.history.executed == {"body": 1}


def test_requests_over_tls_are_answered_and_others_are_not(place: Place, tmp_path: Path) -> None:
    Authority(tmp_path).prepare([], 90, False)
    place.start(tls=(str(tmp_path / "cluster.crt"), str(tmp_path / "cluster.key")))
    context = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
    connection = http.client.HTTPSConnection("localhost", place.port, timeout=30, context=context)
    for text in ("one", "two"):
        connection.request("POST", "/", text.encode())
        with connection.getresponse() as reply:
            assert (reply.status, reply.read()) == (200, b"processed\n")
    connection.close()
    with pytest.raises((OSError, http.client.HTTPException)):
        place.post(b"three")
    assert place.history.executed == {"one": 1, "two": 1}


def test_files_that_are_no_certificate_are_reported(place: Place) -> None:
    place.submit(tls=("/nowhere/crt", "/nowhere/key"))
    sentence = "the files /nowhere/crt and /nowhere/key are not a certificate and its key"
    wait_until(lambda: any(sentence in str(error) for _, error in place.cluster.errors("hooks")), 20, what="it is told")


def test_headers_reach_the_rows_of_a_format_that_takes_them(place: Place) -> None:
    rows: list[Any] = []
    builder = TopologyBuilder()
    builder.set_spout("hooks", WebhookSpout(place.port, WithHeaders(Text())))
    place.cluster.submit("hooks", builder.create_topology(), observer=lambda name, stream, row: rows.append(list(row)))
    wait_until(place.is_listening, 20, what="the spout listens")
    assert place.post(b"text", X_Event="created").status == 200
    [[text, headers]] = rows
    assert (text, headers["x-event"]) == ("text", "created")


class Asking(Text):
    """Text in a format that asks a service, which is away for the first time."""

    blocking = True
    has_asked = False

    def decode(self, data: bytes) -> Sequence[Any]:
        if not self.has_asked:
            self.has_asked = True
            raise UnavailableError("the service is away")
        return super().decode(data)


def test_a_body_that_cannot_be_decoded_now_is_answered_503(place: Place) -> None:
    place.start(format=Asking())
    reply = place.post(b"text", Idempotency_Key="k")
    assert (reply.status, reply.text) == (503, "the body cannot be decoded now: send it again later")
    with Callers(place.port) as callers:
        waiting = [callers.post(b"text", Idempotency_Key="k") for _ in range(8)]
        assert {one.result().status for one in waiting} == {200}
    assert place.history.executed == {"text": 1}


def test_open_and_refused_requests_are_shown(place: Place) -> None:
    place.start(max_in_flight=1)
    place.history.holds = True
    with Callers(place.port) as callers:
        waiting = callers.post(b"held")
        wait_until(lambda: place.history.held, 20, what="the bolt has the tuple")
        assert place.post(b"other").status == 503
        shown = place.cluster.metrics("hooks")
        assert re.search(r"tupletree_spout_outstanding_messages\{.*\} 1\.0", shown)
        assert re.search(r"tupletree_webhook_unavailable_total\{.*\} 1\.0", shown)
        place.history.finish()
        assert waiting.result().status == 200
    wait_until(
        lambda: re.search(r"tupletree_spout_outstanding_messages\{.*\} 0\.0", place.cluster.metrics("hooks")),
        20,
        what="it is over",
    )


def test_a_port_that_is_taken_is_reported_and_used_when_it_is_free(place: Place) -> None:
    with socket.create_server(("127.0.0.1", place.port)):
        place.submit()
        taken = f"port {place.port} on 127.0.0.1 is in use"
        wait_until(lambda: any(taken in str(error) for error in place.cluster.errors("hooks")), 20, what="it is told")
    wait_until(place.is_listening, 20, what="the spout listens")
    assert place.post(b"text").status == 200


@pytest.mark.parametrize(
    "arguments",
    [
        {"port": 70_000}, {"port": 0}, {"path": "orders"}, {"answer": "later"}, {"timeout_s": 0}, {"max_in_flight": 0},
        {"max_body_bytes": 0}, {"max_keys": -1}, {"secret": ""}, {"port": "8090"}, {"port": True}, {"path": None},
        {"timeout_s": "30"}, {"max_body_bytes": "1M"}, {"secret": 5}, {"key_header": None}, {"host": 1},
        {"tls": "cert.pem"},
    ],
    ids=str,
)  # fmt: skip
def test_arguments_out_of_range_are_refused(arguments: dict[str, Any]) -> None:
    [name] = arguments
    with pytest.raises(UsageError, match=f"^WebhookSpout: {name} is .* was expected$"):
        WebhookSpout(**{"port": 8090, **arguments})
