"""What a webhook spout answers, over real sockets: after processing, and to everything that can go wrong."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from webhook_client import Callers, post
from webhook_place import Place, new_place

from tupletree import TopologyBuilder
from tupletree._net import ReservedPorts
from tupletree.connectors.formats import Text, WithHeaders
from tupletree.connectors.http import WebhookSpout
from tupletree.connectors.http.webhook_receiver import WebhookReceiver
from tupletree.errors import UnavailableError, UsageError
from tupletree.testing import wait_until


@pytest.fixture
def place() -> Iterator[Place]:
    with new_place() as place:
        yield place


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


def test_the_first_request_for_a_spout_that_found_none_rouses_it() -> None:
    [port] = (ports := ReservedPorts()).reserve(1)
    roused: list[bool] = []
    receiver = WebhookReceiver(WebhookSpout(port, Text(), answer="accepted")._webhook, lambda: roused.append(True))
    try:
        receiver.listen(port)
        post(port, b"0")
        assert receiver.next() is not None and roused == []
        for _ in range(2):
            assert receiver.next() is None
            post(port, b"1")
            post(port, b"2")
            assert roused == [True]
            assert receiver.next() is not None and receiver.next() is not None
            roused.clear()
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
