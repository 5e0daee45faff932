"""Server-sent events and WebSockets as sources, against a real server whose connections are cut."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from queue_components import History, new_history, watched
from stream_server import StreamServer

from tupletree import Backoff, TopologyBuilder
from tupletree.connectors.formats import Json, Text
from tupletree.connectors.http import EventStreamSpout, WebSocketSpout
from tupletree.errors import UsageError
from tupletree.reliable_spout import ReliableSpout
from tupletree.testing import LocalCluster
from tupletree.testing.simulation.external import current

FAST = Backoff(first_s=0.02, max_s=0.1, max_attempts=None)


class Follower:
    """A watched topology on a stream."""

    def __init__(self, cluster: LocalCluster, server: StreamServer) -> None:
        self.cluster = cluster
        self.server = server
        self._stand_in = new_history()
        self.history: History = current(self._stand_in)

    def start(self, spout: ReliableSpout, **options: Any) -> None:
        spout.reconnect = FAST
        self.cluster.submit("stream", watched(spout, self._stand_in, **options))

    def wait(self, condition: Callable[[], Any]) -> None:
        self.cluster.wait_until(condition, 30)

    def wait_connected(self) -> None:
        self.wait(lambda: self.server.connections == 1)

    def wait_executed(self, *texts: str) -> None:
        self.wait(lambda: set(texts) <= set(self.history.executed))

    @property
    def errors(self) -> str:
        return "\n".join(str(error) for _, error in self.cluster.errors("stream"))


@pytest.fixture
def follower() -> Iterator[Follower]:
    with StreamServer() as server, LocalCluster() as cluster:
        yield Follower(cluster, server)


def numbered(first: int, last: int) -> list[str]:
    return [f"event {number}" for number in range(first, last)]


def test_events_are_processed_and_a_reconnect_resumes_after_the_last(follower: Follower) -> None:
    server = follower.server
    server.events += numbered(0, 100)
    follower.start(EventStreamSpout(server.url, headers={"X-Who": "me"}))
    follower.wait_executed(*numbered(0, 100))
    server.cut()
    server.events += numbered(100, 200)
    follower.wait_executed(*numbered(100, 200))
    assert set(follower.history.executed.values()) == {1}
    assert server.last_ids == [None, "100"]
    assert server.headers[0]["x-who"] == "me"


def test_events_in_process_are_emitted_again_over_a_reconnect(follower: Follower) -> None:
    follower.history.fails = 2
    follower.server.events += numbered(0, 20)
    follower.start(EventStreamSpout(follower.server.url), retry=FAST)
    follower.wait_executed(*numbered(0, 20))
    follower.server.cut()
    follower.wait(lambda: set(follower.history.executed.values()) == {3})


class Saved(EventStreamSpout):
    """Keeps the id of the last processed event in a file."""

    def __init__(self, url: str, path: Path) -> None:
        super().__init__(url)
        self.path = path
        self.commit_interval_s = 0

    def setup(self) -> None:
        self.position = self.path.read_text() if self.path.exists() else None

    def commit(self, position: Any) -> None:
        self.path.write_text(position)


def test_a_spout_that_keeps_the_id_resumes_after_what_was_processed(follower: Follower, tmp_path: Path) -> None:
    spout = Saved(follower.server.url, tmp_path / "id")
    follower.server.events += ["a", "b", "poison", "c"]
    follower.start(spout, retry=FAST)
    follower.wait_executed("a", "b", "poison", "c")
    follower.wait(lambda: spout.path.exists() and spout.path.read_text() == "2")
    follower.cluster.kill("stream")
    follower.start(spout, retry=FAST)
    follower.wait(lambda: follower.history.executed["c"] == 2)
    assert follower.server.last_ids == [None, "2"]
    assert (follower.history.executed["a"], follower.history.executed["b"]) == (1, 1)


def test_without_ids_what_is_sent_meanwhile_is_lost_and_nothing_is_skipped(follower: Follower) -> None:
    server = follower.server
    server.has_ids = False
    follower.start(EventStreamSpout(server.url))
    follower.wait_connected()
    server.events += ["a", "b"]
    follower.wait_executed("a", "b")
    server.cut()
    follower.wait(lambda: len(server.last_ids) == 2 and server.connections == 1)
    server.events += ["c"]
    follower.wait_executed("c")
    assert server.last_ids == [None, None]


def test_the_type_of_an_event_is_a_field(follower: Follower) -> None:
    rows: list[Any] = []
    follower.server.events += ['{"n": 1}']
    builder = TopologyBuilder()
    builder.set_spout("events", EventStreamSpout(follower.server.url, Json(["n"]), event_field="event"))
    follower.cluster.submit("kinds", builder.create_topology(), observer=lambda name, stream, row: rows.append(row))
    follower.wait(lambda: [list(row) for row in rows] == [[1, "added"]])


def test_what_cannot_be_decoded_becomes_a_dead_letter(follower: Follower) -> None:
    follower.server.events += ['{"text": "first"}', "rubbish", '{"text": "last"}']
    follower.start(EventStreamSpout(follower.server.url, Json(["text"])), dead_letters=True, retry=Backoff())
    follower.wait_executed("first", "last")
    follower.wait(lambda: follower.history.letters)
    [letter] = follower.history.letters
    assert letter[:4] == ["2", [b"rubbish"], "default", 1]
    assert letter[6].startswith("FormatError: the message is not JSON")


def test_a_refusal_is_reported_and_asked_again(follower: Follower) -> None:
    follower.server.status = 500
    follower.server.events += ["text"]
    follower.start(EventStreamSpout(follower.server.url.replace("//", "//user:secret@") + "?key=secret"))
    follower.wait(lambda: len(follower.server.last_ids) > 2)
    follower.server.status = 200
    follower.wait_executed("text")
    assert f"{follower.server.url}: the server answered 500" in follower.errors
    assert "secret" not in follower.errors


def test_the_connection_is_shown(follower: Follower) -> None:
    follower.history.holds = True
    follower.server.events += ["text"]
    follower.start(EventStreamSpout(follower.server.url))
    follower.wait(lambda: follower.history.held)
    shown = follower.cluster.metrics("stream")
    assert re.search(r"tupletree_spout_connected\{.*\} 1\.0", shown)
    assert re.search(r"tupletree_spout_outstanding_messages\{.*\} 1\.0", shown)


def test_status_204_ends_the_stream(follower: Follower) -> None:
    follower.server.status = 204
    follower.start(EventStreamSpout(follower.server.url))
    follower.wait(lambda: follower.cluster.is_at_end("stream"))
    assert follower.server.last_ids == [None]


def test_an_event_that_is_too_large_is_reported(follower: Follower) -> None:
    follower.server.events += ["x" * 5000]
    follower.start(EventStreamSpout(follower.server.url, max_event_bytes=1000))
    follower.wait(lambda: "an event is larger than 1000 bytes" in follower.errors)


def test_only_so_many_events_are_in_process(follower: Follower) -> None:
    follower.history.holds = True
    follower.server.events += numbered(0, 100)
    follower.start(EventStreamSpout(follower.server.url, max_in_flight=10))
    follower.wait(lambda: len(follower.history.held) == 10)
    follower.cluster.wait_quiet()
    assert len(follower.history.held) == 10
    follower.history.finish()
    follower.wait_executed(*numbered(0, 100))


def test_messages_of_a_web_socket_are_processed_and_it_connects_again(follower: Follower) -> None:
    server = follower.server
    follower.start(WebSocketSpout(server.socket_url, Text(), subscribe=["all of it"], headers={"X-Who": "me"}))
    follower.wait(lambda: server.received == ["all of it"])
    server.send("text")
    server.send(b"bytes")
    follower.wait_executed("text", "bytes")
    server.cut()
    follower.wait(lambda: len(server.received) == 2 and server.connections == 1)
    server.send("more")
    follower.wait_executed("more")
    assert server.headers[0]["x-who"] == "me"


@pytest.mark.long
def test_a_silent_web_socket_is_kept_while_it_answers_pings(follower: Follower) -> None:
    server = follower.server
    follower.start(WebSocketSpout(server.socket_url, subscribe=["hello"], silence_s=2))
    follower.wait(lambda: server.pings >= 3)
    server.send("text")
    follower.wait_executed("text")
    assert server.received == ["hello"], "it has connected again"


def test_a_web_socket_that_does_not_answer_pings_is_connected_again(follower: Follower) -> None:
    follower.server.answers_pings = False
    follower.start(WebSocketSpout(follower.server.socket_url, subscribe=["hello"], silence_s=0.2))
    follower.wait(lambda: len(follower.server.received) > 1)
    assert f"{follower.server.socket_url}: nothing has arrived for 0.2 s" in follower.errors


def test_a_handshake_that_is_not_answered_is_reported_and_tried_again(follower: Follower) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        follower.start(WebSocketSpout(f"ws://127.0.0.1:{port}/", silence_s=0.2))
        follower.wait(lambda: "the server has not answered the handshake for 0.2 s" in follower.errors)
        for _ in range(2):
            silent.accept()[0].close()


def test_a_message_that_is_too_large_ends_the_connection_and_is_reported(follower: Follower) -> None:
    follower.start(WebSocketSpout(follower.server.socket_url, max_message_bytes=1000, subscribe=["hello"]))
    follower.wait(lambda: follower.server.received)
    follower.server.send("x" * 5000)
    follower.wait(lambda: "1000" in follower.errors)


@pytest.mark.parametrize("spout", [EventStreamSpout, WebSocketSpout])
def test_arguments_that_are_wrong_are_refused(spout: Any) -> None:
    with pytest.raises(UsageError, match=f"^{spout.__name__}: url is not valid; "):
        spout("ftp://host/")
    scheme = "ws" if spout is WebSocketSpout else "http"
    with pytest.raises(UsageError, match=f"^{spout.__name__}: max_in_flight is 0; a whole number"):
        spout(f"{scheme}://host/", max_in_flight=0)
