"""What every log connector must do, against a real log."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from log_place import LogPlace
from log_places import LOGS
from queue_components import Running, new_history, watched

from tupletree import Backoff, BasicStatefulBolt, FailedException, TopologyBuilder
from tupletree.connectors.formats import Json, Text
from tupletree.testing import LocalCluster
from tupletree.testing.simulation.external import current, external

FAST = Backoff(first_s=0.05, factor=2, max_s=0.2, max_attempts=None)
MESSAGES = {partition: [f"message {partition}/{number}" for number in range(100)] for partition in range(3)}
TEXTS = [text for texts in MESSAGES.values() for text in texts]


@pytest.fixture(params=[pytest.param(name, marks=() if name == "files" else pytest.mark.long) for name in sorted(LOGS)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LogPlace]:
    made: LogPlace = LOGS[request.param](tmp_path)
    yield made
    made.close()


def put_all(place: LogPlace) -> None:
    for partition, texts in MESSAGES.items():
        put(place, partition, texts)


def put(place: LogPlace, partition: int, texts: list[str]) -> None:
    place.put(partition, [text.encode() for text in texts])


@pytest.fixture
def run(place: LogPlace) -> Any:
    """Starts a watched topology on the place; again, when the one before is killed."""
    with LocalCluster() as cluster:

        def start(format: Any = None, *, retry: Any = FAST, conf: Any = None, **options: Any) -> Running:
            stand_in = new_history()
            running = Running(cluster, stand_in)
            before: Callable[[Any], None] = options.pop("before", lambda history: None)
            before(running.history)
            topology = {name: options.pop(name) for name in ("dead_letters", "parallelism") if name in options}
            spout = place.spout(format or Text(), **options)
            spout.reconnect = FAST
            cluster.submit("watched", watched(spout, stand_in, retry=retry, **topology), conf)
            return running

        yield start


def shown(running: Running, name: str) -> float:
    found = re.findall(rf"^tupletree_spout_{name}{{.*}} (.*)$", running.cluster.metrics("watched"), re.M)
    return sum(float(value) for value in found) if found else -1


def wait_processed(running: Running) -> None:
    running.wait(lambda: shown(running, "outstanding_messages") == 0)


def test_every_message_is_processed_once_and_not_again_after_a_restart(place: LogPlace, run: Any) -> None:
    put_all(place)
    running = run()
    running.wait_executed(TEXTS)
    wait_processed(running)
    assert set(running.history.executed.values()) == {1}
    running.cluster.kill("watched")
    put(place, 1, ["new"])
    running = run()
    running.wait_executed(["new"])
    assert running.history.executed == Counter(["new"])


def test_tasks_share_the_partitions(place: LogPlace, run: Any) -> None:
    put_all(place)
    running = run(parallelism=2)
    running.wait_executed(TEXTS)
    wait_processed(running)
    running.cluster.kill("watched")
    running = run(parallelism=1)
    put(place, 0, ["new"])
    running.wait_executed(["new"])
    assert set(running.history.executed) & set(TEXTS) == set()


def test_messages_after_a_gap_are_read_again_in_that_partition_alone(place: LogPlace, run: Any) -> None:
    put_all(place)
    behind = MESSAGES[1][40:] if place.PARTITIONS > 1 else TEXTS[140:]
    running = run(before=lambda history: history.held_texts.add(MESSAGES[1][40]))
    running.wait_executed(TEXTS)
    running.wait(lambda: shown(running, "outstanding_messages") == len(behind))
    running.cluster.kill("watched")
    running = run()
    running.wait_executed(behind)
    wait_processed(running)
    assert set(running.history.executed) == set(behind)


def test_a_message_that_fails_is_emitted_again(place: LogPlace, run: Any) -> None:
    put(place, 0, MESSAGES[0])
    running = run(before=lambda history: setattr(history, "fails", 2))
    running.wait(lambda: set(running.history.executed.values()) == {3})
    wait_processed(running)
    assert running.history.executed == dict.fromkeys(MESSAGES[0], 3)


def test_new_messages_and_new_partitions_are_found(place: LogPlace, run: Any) -> None:
    running = run()
    for number in range(5):
        put(place, 2, [f"more {number}"])
        running.wait_executed([f"more {number}"])
    put(place, place.add_partition(), ["first"])
    running.wait_executed(["first"])
    wait_processed(running)
    assert set(running.history.executed.values()) == {1}


def test_a_deactivated_topology_reads_nothing(place: LogPlace, run: Any) -> None:
    put(place, 0, MESSAGES[0])
    running = run()
    running.wait_executed(MESSAGES[0])
    running.cluster.deactivate("watched")
    running.cluster.wait_quiet()
    put(place, 0, MESSAGES[1])
    running.cluster.wait_quiet()
    assert shown(running, "outstanding_messages") <= 1000  # one call of poll may have been under way
    assert set(running.history.executed) == set(MESSAGES[0])
    running.cluster.activate("watched")
    running.wait_executed(MESSAGES[1])
    wait_processed(running)


def test_no_more_is_emitted_than_may_be_ahead_of_what_is_processed(place: LogPlace, run: Any) -> None:
    for texts in MESSAGES.values():
        put(place, 0, texts)
    running = run(max_ahead=10, before=lambda history: setattr(history, "holds", True))
    running.wait(lambda: len(running.history.executed) >= 10)
    running.cluster.wait_quiet()
    ahead = len(running.history.executed)
    assert ahead < len(TEXTS)
    running.history.finish()
    running.wait_executed(TEXTS)


def test_what_cannot_be_decoded_is_given_up_at_once(place: LogPlace, run: Any) -> None:
    place.put(0, [b'{"text": "good"}', b'{"other": 1}', b"\xff\xfe", b'{"text": "after"}'])
    running = run(Json(["text"]), dead_letters=True)
    running.wait_executed(["good", "after"])
    wait_processed(running)
    letters = sorted([letter[1][0], letter[3], letter[6]] for letter in running.history.letters)
    assert [letter[:2] for letter in letters] == [[b'{"other": 1}', 1], [b"\xff\xfe", 1]]
    assert "the message has no 'text'; it has 'other'" in letters[0][2]
    ids = {letter[0].split("@")[0] for letter in running.history.letters}
    assert len(ids) == 1


def test_what_cannot_be_decoded_is_reported_and_passed_without_dead_letters(place: LogPlace, run: Any) -> None:
    place.put(0, [b"\xff\xfe", b'{"text": "after"}'])
    running = run(Json(["text"]))
    running.wait_executed(["after"])
    wait_processed(running)
    assert any("is given up" in str(error) for _, error in running.cluster.errors("watched"))
    running.cluster.kill("watched")
    running = run(Json(["text"]))
    place.put(0, [b'{"text": "new"}'])
    running.wait_executed(["new"])
    assert running.history.executed == Counter(["new"])
    assert not running.cluster.errors("watched")


def test_a_message_that_keeps_failing_is_a_dead_letter_and_is_passed(place: LogPlace, run: Any) -> None:
    put(place, 0, ["poison", *MESSAGES[0]])
    running = run(retry=Backoff(first_s=0.05, factor=1, max_s=0.05, max_attempts=3), dead_letters=True)
    running.wait_executed(MESSAGES[0])
    wait_processed(running)
    assert [(letter[1], letter[3]) for letter in running.history.letters] == [(["poison"], 3)]
    running.cluster.kill("watched")
    put(place, 0, ["new"])
    running = run()
    running.wait_executed(["new"])
    assert running.history.executed == Counter(["new"])


def test_a_topology_without_ackers_processes_every_message_once(place: LogPlace, run: Any) -> None:
    put_all(place)
    running = run(conf={"topology.acker.executors": 0})
    running.wait_executed(TEXTS)
    wait_processed(running)
    assert set(running.history.executed.values()) == {1}


def test_a_log_that_is_away_is_read_on_when_it_is_back(place: LogPlace, run: Any) -> None:
    put_all(place)
    running = run()
    running.wait_executed(TEXTS)
    wait_processed(running)
    running.wait(place.is_processed)
    place.leave()
    running.wait(lambda: running.cluster.errors("watched"))
    place.come_back()
    put(place, 0, ["new"])
    running.wait_executed(["new"])
    assert set(running.history.executed.values()) == {1}


def test_connection_and_lag_are_shown(place: LogPlace, run: Any) -> None:
    running = run(max_ahead=10, before=lambda history: setattr(history, "holds", True))
    for texts in MESSAGES.values():
        put(place, 0, texts * 20)
    running.wait(lambda: shown(running, "connected") == 1)
    if place.knows_lag:
        running.wait(lambda: shown(running, f"lag_{place.lag_unit}") > 0, 15)
        assert {status["lag_unit"] for status in running.cluster.statuses("watched").values()} == {place.lag_unit}
    running.cluster.deactivate("watched")
    running.history.finish()


def test_what_the_log_has_of_a_message_is_in_the_row(place: LogPlace) -> None:
    if not place.metadata:
        pytest.skip("the log has data only")
    put(place, 0, ["a", "b"])
    rows = external(list)

    with LocalCluster() as cluster:
        builder = TopologyBuilder()
        spout = builder.set_spout("messages", place.spout(Text(), metadata=place.metadata))

        def keep(tup: Any, collector: Any) -> None:
            rows.append(dict(zip(tup.fields, tup.values, strict=True)))

        from tupletree import bolt

        builder.set_bolt("keep", bolt(keep)).shuffle_grouping(spout)
        cluster.submit("rows", builder.create_topology())
        cluster.wait_until(lambda: len(current(rows)) == 2)
    assert [row["text"] for row in current(rows)] == ["a", "b"]
    assert all(list(row) == ["text", *place.metadata] for row in current(rows))


class Tally(BasicStatefulBolt):
    """Counts messages, and fails one of them, some times."""

    default_factory = int

    def __init__(self, failures: Any) -> None:
        self.failures = failures

    def execute(self, tup: Any) -> None:
        if tup["text"] == MESSAGES[1][50] and len(self.failures) < 3:
            self.failures.append(1)
            raise FailedException("not yet")
        self.state[tup["text"]] += 1


ALIGNED = {"topology.state.checkpoint.aligned": True, "topology.state.checkpoint.interval.ms": 100}


def tallying(place: LogPlace, failures: Any, format: Any = None) -> Any:
    builder = TopologyBuilder()
    messages = builder.set_spout("messages", place.spout(format or Text()), 2)
    builder.set_bolt("tally", Tally(failures), 2).fields_grouping(messages, ["text"])
    return builder.create_topology()


def test_with_aligned_checkpoints_every_message_is_counted_once(place: LogPlace) -> None:
    put_all(place)
    failures = external(list)
    with LocalCluster() as cluster:
        cluster.submit("tally", tallying(place, failures), ALIGNED)
        cluster.wait_until(lambda: cluster.state("tally", "tally") == dict.fromkeys(TEXTS, 1), 30)
        assert len(current(failures)) == 3
        put(place, 0, ["more"])
        cluster.wait_until(lambda: cluster.state("tally", "tally") == dict.fromkeys([*TEXTS, "more"], 1), 30)


def test_with_aligned_checkpoints_what_cannot_be_decoded_stops_nothing(place: LogPlace) -> None:
    place.put(0, [b'{"text": "good"}', b"{", b'{"text": "after"}', b"}"])
    failures = external(list)
    with LocalCluster() as cluster:
        cluster.submit("tally", tallying(place, failures, Json(["text"])), ALIGNED)
        cluster.wait_until(lambda: cluster.state("tally", "tally") == {"good": 1, "after": 1}, 30)
        assert sum("is given up" in str(error) for _, error in cluster.errors("tally")) == 2
