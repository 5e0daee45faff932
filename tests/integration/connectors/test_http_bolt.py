"""What HttpBolt makes of each answer of a real server."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from scripted_server import Script, ScriptedServer, Seen, Told

from tupletree import Backoff, TopologyBuilder
from tupletree._net import ReservedPorts
from tupletree.connectors.formats import Json
from tupletree.connectors.http import HttpBolt
from tupletree.connectors.http.http_bolt import pause_of
from tupletree.errors import UsageError
from tupletree.testing import FeederSpout, LocalCluster

FAST = Backoff(first_s=0.01, max_s=0.1, max_attempts=3)


class Posts:
    """A topology that posts what it is fed."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster
        self.feeder = FeederSpout(["order", "amount"])

    def start(self, url: str, **arguments: Any) -> None:
        bolt = HttpBolt(url, Json(["order", "amount"]), **arguments)
        bolt.retry = FAST
        builder = TopologyBuilder()
        builder.set_bolt("post", bolt).shuffle_grouping(builder.set_spout("orders", self.feeder))
        self.cluster.submit("posts", builder.create_topology())

    def feed(self, orders: int) -> None:
        for order in range(orders):
            self.feeder.feed([order, 10], order)

    def wait(self, acked: int, failed: int = 0) -> None:
        self.cluster.wait_until(lambda: (len(self.feeder.acked), len(self.feeder.failed)) == (acked, failed), 30)

    @property
    def errors(self) -> str:
        return "\n".join(str(error) for _, error in self.cluster.errors("posts"))


@pytest.fixture
def posts() -> Iterator[Posts]:
    with LocalCluster() as cluster:
        yield Posts(cluster)


def always(status: int, **headers: str) -> Script:
    return lambda seen, before: Told(status, headers, b"" if status == 204 else b"said the server")


@pytest.mark.parametrize("status", [200, 201, 204])
def test_a_tuple_is_acked_when_the_server_has_taken_it(posts: Posts, status: int) -> None:
    with ScriptedServer(always(status)) as server:
        posts.start(server.url, id_field="order", headers={"X-Who": "me"})
        posts.feed(50)
        posts.wait(50)
        assert Counter(one.body for one in server.seen) == Counter(
            b'{"order": %d, "amount": 10}' % n for n in range(50)
        )
        first = next(one for one in server.seen if b'"order": 7' in one.body)
        assert (first.path, first.headers["idempotency-key"], first.headers["x-who"]) == ("/orders", "7", "me")
        assert first.headers["content-type"] == "application/json"


@pytest.mark.parametrize("status", [408, 425, 429, 500, 503, 0])
def test_what_can_pass_is_tried_again_with_the_same_key(posts: Posts, status: int) -> None:
    with ScriptedServer(lambda seen, before: Told(status if before < 2 else 200)) as server:
        posts.start(server.url, id_field="order")
        posts.feed(5)
        posts.wait(5)
        assert Counter(one.headers["idempotency-key"] for one in server.seen) == dict.fromkeys("01234", 3)


def test_after_the_last_attempt_the_tuple_fails(posts: Posts) -> None:
    with ScriptedServer(always(503)) as server:
        posts.start(server.url)
        posts.feed(1)
        posts.wait(0, 1)
        assert len(server.seen) == 3
        assert "idempotency-key" not in server.seen[0].headers
    assert f"http://127.0.0.1:{server.port}/orders answered 503: said the server" in posts.errors


@pytest.mark.parametrize("status", [301, 307, 400, 404, 409, 422])
def test_a_refusal_fails_the_tuple_at_once(posts: Posts, status: int) -> None:
    with ScriptedServer(always(status, Location="/elsewhere")) as server:
        posts.start(server.url)
        posts.feed(1)
        posts.wait(0, 1)
        assert [one.path for one in server.seen] == ["/orders"]
    assert f"answered {status}" in posts.errors


def test_a_server_that_is_away_is_asked_again_and_found(posts: Posts) -> None:
    ports = ReservedPorts()
    [port] = ports.reserve(1)
    posts.start(f"http://user:secret@127.0.0.1:{port}/orders?key=secret")
    posts.feed(1)
    posts.wait(0, 1)
    assert f"http://127.0.0.1:{port}/orders cannot be reached: ClientConnectorError" in posts.errors
    assert "secret" not in posts.errors
    with ScriptedServer(always(200), port):
        posts.feed(1)
        posts.wait(1, 1)
    ports.release()


def test_a_server_that_hangs_is_not_waited_for(posts: Posts) -> None:
    release = threading.Event()

    def script(seen: Seen, before: int) -> Told:
        if not before:
            release.wait(30)
        return Told(200)

    with ScriptedServer(script) as server:
        posts.start(server.url, timeout_s=0.2)
        posts.feed(1)
        posts.wait(1)
        assert len(server.seen) == 2
        release.set()


def test_only_so_many_requests_are_sent_at_a_time(posts: Posts) -> None:
    lock, running, seen_at_once = threading.Lock(), [0], []

    def script(seen: Seen, before: int) -> Told:
        with lock:
            running[0] += 1
        try:
            time.sleep(0.005)  # work
            seen_at_once.append(running[0])
        finally:
            with lock:
                running[0] -= 1
        return Told(200)

    with ScriptedServer(script) as server:
        posts.start(server.url, in_flight=3)
        posts.feed(60)
        posts.wait(60)
        assert len(server.seen) == 60
    assert max(seen_at_once) <= 3


def test_a_tuple_that_cannot_be_written_or_has_no_key_fails_alone(posts: Posts) -> None:
    with ScriptedServer(always(200)) as server:
        posts.start(server.url, id_field="order")
        posts.feeder.feed([1, float("nan")], "not JSON")
        posts.feeder.feed([None, 1], "no key")
        posts.feeder.feed([2, 2], "fine")
        posts.wait(1, 2)
        assert posts.feeder.acked == ["fine"]
        assert len(server.seen) == 1


@pytest.mark.parametrize(
    ("retry_after", "pause_s"),
    [
        (None, 0), ("", 0), ("7", 7), (" 7 ", 7), ("-1", 0), ("soon", 0), ("1.5", 0), ("9" * 400, 999_999_999),
        ("Wed, 21 Oct 2015 07:28:30 GMT", 30), ("Wed, 21 Oct 2015 07:27:00 GMT", 0),
    ],
)  # fmt: skip
def test_retry_after_is_a_number_or_a_time_after_the_servers_own(retry_after: str | None, pause_s: float) -> None:
    assert pause_of(retry_after, "Wed, 21 Oct 2015 07:28:00 GMT") == pause_s


def test_the_pause_is_the_servers_if_it_is_longer_and_at_most_that_of_retry(posts: Posts) -> None:
    with ScriptedServer(lambda seen, before: Told(200 if before else 503, {"Retry-After": "3600"})) as server:
        posts.start(server.url)
        posts.feed(1)
        posts.wait(1)  # an hour is cut to max_s
        assert len(server.seen) == 2


@pytest.mark.parametrize(
    "url", ["", "orders", "ftp://a/", "http://", "http://a:99999/", "http://a\nb/", "http://[::1/"]
)
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(UsageError) as refusal:
        HttpBolt(url)
    given = "not valid" if url else "empty"
    assert str(refusal.value) == f"HttpBolt: url is {given}; http:// or https:// with a host was expected"
