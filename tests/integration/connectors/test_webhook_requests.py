"""What a webhook spout reads over real sockets: requests that are malformed, large, slow, unsigned, over TLS."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import socket
import ssl
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

import pytest
from webhook_client import Callers
from webhook_place import Place, new_place

from tupletree._security.authority import Authority
from tupletree.connectors.formats import Json
from tupletree.testing import wait_until


@pytest.fixture
def place() -> Iterator[Place]:
    with new_place() as place:
        yield place


@pytest.mark.parametrize(
    ("body", "arguments", "status", "text"),
    [
        (b"{", {}, 400, "the message is not JSON"),
        (b'{"order": 1}', {}, 400, "the message has no 'amount'"),
        (b"[1]", {}, 400, "the message is a JSON list, not an object with fields"),
        (b"", {}, 400, "the message is not JSON"),
        (b"x" * 2000, {}, 413, HTTPStatus(413).phrase),  # which differs between versions of Python
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


@pytest.mark.nightly
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
