"""What every queue connector must do, against its real server."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
from queue_components import Running, new_history, watched
from queue_places import QueuePlace
from tcp_proxy import Proxy

from tupletree import Backoff, TopologyBuilder
from tupletree.connectors.formats import Json, Text
from tupletree.testing import FeederSpout, LocalCluster, wait_until

FAST = Backoff(first_s=0.05, factor=2, max_s=0.2, max_attempts=None)
TEXTS = [f"message {number}" for number in range(300)]


@pytest.fixture
def run(place: QueuePlace) -> Any:
    """Starts a watched topology on the place."""
    with LocalCluster() as cluster:

        def start(
            format: Any = None, *, max_in_flight: int = 1000, retry: Any = FAST, conf: Any = None, **options: Any
        ) -> Running:
            stand_in = new_history()
            running = Running(cluster, stand_in)
            spout = place.spout(format or Text(), max_in_flight)
            spout.reconnect = FAST
            before = options.pop("before", None)
            if before is not None:
                before(running.history)
            cluster.submit("watched", watched(spout, stand_in, retry=retry, **options), conf)
            return running

        yield start


def texts(messages: list[str]) -> list[bytes]:
    return [message.encode() for message in messages]


def test_every_message_is_processed_and_then_removed(place: QueuePlace, run: Any) -> None:
    place.put(texts(TEXTS))
    running = run()
    running.wait_executed(TEXTS)
    running.wait(lambda: place.unacknowledged() == 0)
    assert set(running.history.executed.values()) == {1}


def test_connection_lag_and_outstanding_messages_are_shown(place: QueuePlace, run: Any) -> None:
    place.put(texts(TEXTS))
    running = run(max_in_flight=10, before=lambda history: setattr(history, "holds", True))
    running.wait(lambda: len(running.history.executed) == 10)

    def shown(name: str) -> float:
        found = re.search(rf"^tupletree_spout_{name}{{.*}} (.*)$", running.cluster.metrics("watched"), re.M)
        return float(found[1]) if found else -1

    assert (shown("connected"), shown("outstanding_messages")) == (1, 10)
    lag = len(TEXTS) - 10
    running.wait(lambda: shown("lag_messages") == lag if place.knows_lag else math.isnan(shown("lag_messages")), 15)
    place.server.stop()
    running.wait(lambda: shown("connected") == 0)
    place.server.start()
    running.wait(lambda: shown("connected") == 1)
    running.history.finish()
    running.wait_executed(TEXTS)


def test_a_message_is_removed_only_when_it_is_processed(place: QueuePlace, run: Any) -> None:
    place.put(texts(TEXTS))
    running = run(before=lambda history: setattr(history, "holds", True))
    running.wait_executed(TEXTS)
    assert place.unacknowledged() == len(TEXTS)
    running.history.finish()
    running.wait(lambda: place.unacknowledged() == 0)


def test_a_message_that_fails_is_delivered_again(place: QueuePlace, run: Any) -> None:
    place.put(texts(TEXTS[:20]))
    running = run(before=lambda history: setattr(history, "fails", 2))
    running.wait(lambda: place.unacknowledged() == 0)
    assert {text: running.history.executed[text] for text in TEXTS[:20]} == dict.fromkeys(TEXTS[:20], 3)


def test_a_topology_without_ackers_removes_messages_when_they_are_emitted(place: QueuePlace, run: Any) -> None:
    place.put(texts(TEXTS))
    running = run(conf={"topology.acker.executors": 0})
    running.wait_executed(TEXTS)
    running.wait(lambda: place.unacknowledged() == 0)
    assert set(running.history.executed.values()) == {1}


def test_no_more_messages_are_taken_than_may_be_in_flight(place: QueuePlace, run: Any) -> None:
    place.put(texts(TEXTS))
    running = run(max_in_flight=10, before=lambda history: setattr(history, "holds", True))
    running.wait(lambda: len(running.history.executed) == 10)
    running.history.holds = False
    running.history.finish()
    running.wait_executed(TEXTS)
    running.wait(lambda: place.unacknowledged() == 0)


def test_a_deactivated_topology_takes_no_messages(place: QueuePlace, run: Any) -> None:
    place.put(texts(TEXTS[:50]))
    running = run()
    running.wait_executed(TEXTS[:50])
    running.cluster.deactivate("watched")
    running.wait(lambda: running.cluster.metrics("watched") and place.unacknowledged() == 0)
    place.put(texts(TEXTS[50:]))
    running.cluster.wait_quiet()
    taken = len(running.history.executed)
    assert taken <= 50 + 1  # one call of receive may have been under way
    running.cluster.activate("watched")
    running.wait_executed(TEXTS)
    running.wait(lambda: place.unacknowledged() == 0)


def test_messages_in_process_outlive_their_time_limit_even_while_no_more_are_taken(place: QueuePlace, run: Any) -> None:
    """The limit is 2 s, and the bolt holds them for 3 s. The spout is not called: it has reached its limit."""
    place.put(texts(TEXTS[:5]))
    conf = {"topology.max.spout.pending": 5}
    running = run(max_in_flight=5, conf=conf, before=lambda history: setattr(history, "holds", True))
    running.wait_executed(TEXTS[:5])
    from time import monotonic

    since = monotonic()
    running.wait(lambda: monotonic() > since + 3)
    running.history.finish()
    running.wait(lambda: place.unacknowledged() == 0)
    assert set(running.history.executed.values()) == {1}


def test_a_cut_connection_returns_all_that_was_not_acknowledged(place: QueuePlace, proxy: Proxy, run: Any) -> None:
    """The acks of the older connection come later; they must not acknowledge the new deliveries.

    A queue with a time limit delivers once more to a process that a busy machine has held up for so long.
    """
    place.put(texts(TEXTS))
    running = run(before=lambda history: setattr(history, "holds", True))
    running.wait_executed(TEXTS)
    proxy.cut()
    running.wait(lambda: min(running.history.executed.values()) >= 2)
    assert place.unacknowledged() == len(TEXTS)
    running.history.finish()
    running.wait(lambda: place.unacknowledged() == 0)
    assert any("no connection" in str(error) for _, error in running.cluster.errors("watched"))


def test_acks_under_a_cut_connection_lose_nothing(place: QueuePlace, proxy: Proxy, run: Any) -> None:
    running = run()
    for start in range(0, len(TEXTS), 50):
        place.put(texts(TEXTS[start : start + 50]))
        running.wait(lambda start=start: len(running.history.executed) > start)
        proxy.cut()
    running.wait_executed(TEXTS)
    running.wait(lambda: place.unacknowledged() == 0)


def test_a_killed_server_that_comes_back_loses_nothing(place: QueuePlace, run: Any) -> None:
    place.put(texts(TEXTS))
    running = run(before=lambda history: setattr(history, "holds", True))
    running.wait_executed(TEXTS)
    place.server.stop()
    running.history.finish()
    place.server.start()
    running.wait(lambda: place.unacknowledged() == 0, 60)
    assert set(running.history.executed) == set(TEXTS)


def test_what_cannot_be_decoded_is_a_dead_letter(place: QueuePlace, run: Any) -> None:
    place.put([b'{"text": "good"}', b"\xff\xfe", b'{"other": 1}', b'{"text": "better"}'])
    running = run(Json(["text"]), retry=None, dead_letters=True)
    running.wait_executed(["good", "better"])
    running.wait(lambda: place.unacknowledged() == 0)
    rows = sorted((letter[1][0], letter[3], letter[6]) for letter in running.history.letters)
    assert [row[:2] for row in rows] == [(b'{"other": 1}', 1), (b"\xff\xfe", 1)]
    assert "the message has no 'text'; it has 'other'" in rows[0][2]
    assert "the message is not JSON" in rows[1][2]


def test_a_message_that_keeps_failing_is_a_dead_letter_with_its_attempts(place: QueuePlace, run: Any) -> None:
    place.put(texts(["poison", *TEXTS[:5]]))
    retry = Backoff(first_s=0.05, factor=1, max_s=0.05, max_attempts=3)
    running = run(retry=retry, dead_letters=True)
    running.wait_executed(TEXTS[:5])
    running.wait(lambda: place.unacknowledged() == 0)
    assert [(letter[1], letter[3]) for letter in running.history.letters] == [(["poison"], 3)]
    assert running.history.executed["poison"] == 3


def test_a_message_given_up_without_dead_letters_is_reported_and_rejected(place: QueuePlace, run: Any) -> None:
    place.put(texts(["poison", *TEXTS[:5]]))
    running = run(retry=Backoff(first_s=0.05, factor=1, max_s=0.05, max_attempts=2))
    running.wait_executed(TEXTS[:5])
    running.wait(lambda: place.unacknowledged() == 0)
    assert any("is given up" in str(error) for _, error in running.cluster.errors("watched"))
    assert place.rejected() == (1 if place.rejects else 0)


def test_a_bolt_acks_what_the_queue_has_confirmed(place: QueuePlace, proxy: Proxy) -> None:
    feeder = FeederSpout(["text"])
    bolt = place.bolt(Text())
    with LocalCluster() as cluster:
        builder = TopologyBuilder()
        builder.set_bolt("put", bolt).shuffle_grouping(builder.set_spout("texts", feeder))
        cluster.submit("puts", builder.create_topology())
        for number, text in enumerate(TEXTS):
            feeder.feed([text], number)
        cluster.wait_until(lambda: len(feeder.acked) == len(TEXTS))
        proxy.refuses = True
        proxy.cut()
        feeder.feed(["lost"], "lost")
        cluster.wait_until(lambda: feeder.failed == ["lost"])
        proxy.refuses = False
        feeder.feed(["found"], "found")
        cluster.wait_until(lambda: "found" in feeder.acked)
        assert any("no connection" in str(error) for _, error in cluster.errors("puts"))
    wait_until(lambda: place.unacknowledged() >= len(TEXTS) + 1, 10)
    assert set(TEXTS) | {"found"} <= {message.decode() for message in place.drain()}


def test_a_message_that_the_queue_refuses_fails_alone(place: QueuePlace) -> None:
    if place.max_bytes is None:
        pytest.skip("the queue takes messages of any size that a test can send")
    feeder = FeederSpout(["text"])
    feeder.feed(["x" * (place.max_bytes + 1)], "large")
    for number, text in enumerate(TEXTS[:10]):
        feeder.feed([text], number)
    with LocalCluster() as cluster:
        builder = TopologyBuilder()
        builder.set_bolt("put", place.bolt(Text())).shuffle_grouping(builder.set_spout("texts", feeder))
        cluster.submit("puts", builder.create_topology())
        cluster.wait_until(lambda: len(feeder.acked) == 10 and feeder.failed == ["large"])
        assert any("takes no message of" in str(error) for _, error in cluster.errors("puts"))
    assert {message.decode() for message in place.drain()} == set(TEXTS[:10])
