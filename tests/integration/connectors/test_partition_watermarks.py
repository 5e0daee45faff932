"""Event times of logs with several partitions: a backlog is read one partition after the other, and nothing is late."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tupletree import FailedException, Session, Spout, Topology, Tumbling
from tupletree.connectors.files import FileSpout
from tupletree.connectors.kafka import KafkaSpout
from tupletree.connectors.kafka import follower as follower_module
from tupletree.connectors.kafka.log import plain_records_of
from tupletree.connectors.kafka.shares import ShareReader
from tupletree.streams import KeyedStream, StreamBuilder, Windowed
from tupletree.streams.builder import Guarantee
from tupletree.testing import LocalCluster, complete_topology

pytestmark = pytest.mark.nightly

NOTHING = timedelta(0)
SECOND = timedelta(seconds=1)
TIMES = range(0, 100_000, 20)
"""The event times of a partition: a hundred windows of fifty elements. The whole is read in several turns."""

MANY = range(0, 100_000, 4)

FOUND: dict[str, dict[tuple[int, int], int]] = {}
"""The value of each window by key and start, by test: results meet here."""


class Finds:
    """Records windows. After a rollback or a restart a window may come again, and must be the same."""

    def __init__(self, name: str) -> None:
        self.name = name
        FOUND.setdefault(name, {})

    def __call__(self, pair: tuple[int, Windowed[int]]) -> None:
        key, window = pair
        assert FOUND[self.name].setdefault((key, window.start), window.value) == window.value


def write(path: Path, times: Sequence[int]) -> None:
    with open(path, "a") as file:
        file.writelines(f"{at_ms}\n" for at_ms in times)


def windows(
    spout: Spout, *, parallelism: int = 1, prepared: Callable[[str], Any] = int, idle_timeout: timedelta | None = None
) -> KeyedStream[int, Windowed[int]]:
    """Return the windows of a second of a spout's elements, which are event times."""
    builder = StreamBuilder(parallelism=parallelism)
    times = builder.source(spout, name="times", parallelism=parallelism).map(prepared)
    timed = times.event_time(lambda at_ms: at_ms, max_lag=NOTHING, idle_timeout=idle_timeout)
    return timed.key_by(lambda at_ms: at_ms % 3).window(Tumbling(SECOND)).count(name="windows")


def counted(results: Sequence[tuple[int, Windowed[int]]]) -> Counter[int]:
    """Return the elements by window. Each window of a key must have come once."""
    assert len({(key, window.start) for key, window in results}) == len(results)
    return by_start({(key, window.start): window.value for key, window in results})


def by_start(windows: dict[tuple[int, int], int]) -> Counter[int]:
    found: Counter[int] = Counter()
    for (_, start), value in windows.items():
        found[start] += value
    return found


def expected(*partitions: Sequence[int]) -> Counter[int]:
    return Counter(at_ms // 1000 * 1000 for times in partitions for at_ms in times)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    directory = tmp_path / "log"
    directory.mkdir()
    return directory


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster() as cluster:
        yield cluster


def found(name: str, count: int) -> Callable[[], bool]:
    return lambda: len(FOUND[name]) >= count


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("step", [1, 60])
def test_no_element_of_a_backlog_is_late(files: Path, parallelism: int, step: int) -> None:
    """With a ``step`` of 60, the backlog of ``b`` has an hour for each minute of ``a``."""
    partitions = [TIMES, [at_ms * step for at_ms in TIMES], [], TIMES[:10]]
    for number, times in enumerate(partitions):
        write(files / f"part-{number}", times)
    results = windows(FileSpout(files, are_complete=True), parallelism=parallelism)
    assert counted(results.collect(1_000_000, seconds=60)) == expected(*partitions)
    results = windows(FileSpout(files, are_complete=True), parallelism=parallelism)
    assert results.late.collect(1, seconds=60) == []


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_files_that_grow_and_are_empty_do_not_hold_windows_back(
    files: Path, cluster: LocalCluster, guarantee: Guarantee
) -> None:
    name = f"grow {guarantee}"
    write(files / "a", TIMES)
    write(files / "b", TIMES)
    write(files / "empty", [])
    results = windows(FileSpout(files))
    results.items().peek(Finds(name))
    cluster.submit("t", results.builder.topology(guarantee))
    cluster.wait_until(found(name, 3 * 99), timeout=60)  # without an idle timeout, and without an end
    write(files / "a", [150_000])
    cluster.wait_until(found(name, 3 * 100), timeout=60)
    assert by_start(FOUND[name]) == expected(TIMES, TIMES)
    assert not cluster.errors("t")


def test_a_partition_at_its_end_holds_windows_back_for_the_idle_timeout(files: Path, cluster: LocalCluster) -> None:
    write(files / "a", TIMES)
    write(files / "b", [10])
    results = windows(FileSpout(files), idle_timeout=timedelta(seconds=1))
    results.items().peek(Finds("idle"))
    cluster.submit("t", results.builder.topology())
    cluster.wait_until(found("idle", 3 * 99), timeout=60)
    assert by_start(FOUND["idle"]) == expected(TIMES[:-50], [10])


def test_a_task_without_partitions_does_not_hold_windows_back(files: Path, cluster: LocalCluster) -> None:
    write(files / "only", TIMES)
    results = windows(FileSpout(files), parallelism=3)
    results.items().peek(Finds("alone"))
    cluster.submit("t", results.builder.topology())
    cluster.wait_until(found("alone", 3 * 99), timeout=60)


@pytest.mark.parametrize("has_window", [False, True])
def test_a_log_that_is_empty_does_not_hold_a_join_back(files: Path, cluster: LocalCluster, has_window: bool) -> None:
    name = f"join {has_window}"
    (files / "empty").mkdir()
    write(files / "full", TIMES)
    builder = StreamBuilder()
    full, empty = (
        builder.source(FileSpout(path), name=f"times {number}")
        .map(int)
        .event_time(lambda at_ms: at_ms, max_lag=NOTHING)
        .key_by(lambda at_ms: 0)
        for number, path in enumerate([files / "full", files / "empty"])
    )
    others = empty.window(Tumbling(SECOND)).count(name="counts") if has_window else empty
    joined = full.left_join(others, lambda at_ms, other: at_ms, before=SECOND, after=SECOND)
    joined.values().map(lambda at_ms: (at_ms, 1)).peek(Starts(name))
    cluster.submit("t", builder.topology())
    cluster.wait_until(found(name, len(range(0, 98_000, 20))), timeout=60)


def test_a_file_that_appears_holds_windows_back_until_it_is_read(files: Path, cluster: LocalCluster) -> None:
    write(files / "a", [*TIMES[:2500], 50_500])
    results = windows(FileSpout(files))
    results.items().peek(Finds("appears"))
    cluster.submit("t", results.builder.topology())
    cluster.wait_until(found("appears", 3 * 50), timeout=60)
    write(files / "b.new", range(50_600, 90_000, 100))
    (files / "b.new").rename(files / "b")
    cluster.wait_until(found("appears", 3 * 89), timeout=60)
    assert by_start(FOUND["appears"]) == expected([*TIMES[:2500], 50_500], range(50_600, 89_000, 100))
    assert not cluster.errors("t")


class FailsOnce:
    """Fails one element, once in this process: with exactly_once, the program goes back to its last checkpoint."""

    failed: set[str] = set()

    def __init__(self, name: str, element: str) -> None:
        self.name = name
        self.element = element

    def __call__(self, line: str) -> int:
        if line == self.element and self.name not in self.failed:
            self.failed.add(self.name)
            raise FailedException("once")
        return int(line)


def test_after_a_rollback_nothing_is_late_that_was_not_before(files: Path, cluster: LocalCluster) -> None:
    write(files / "a", TIMES)
    write(files / "b", TIMES)
    results = windows(FileSpout(files), prepared=FailsOnce("rollback", "90020"))
    results.items().peek(Finds("rollback"))
    conf = {"topology.state.checkpoint.interval.ms": 50}
    cluster.submit("t", results.builder.topology("exactly_once"), conf)
    cluster.wait_until(found("rollback", 3 * 99), timeout=60)
    assert "rollback" in FailsOnce.failed
    assert by_start(FOUND["rollback"]) == expected(TIMES[:-50], TIMES[:-50])
    assert not any("late" in str(error) for _, error in cluster.errors("t"))


def durable(files: Path, tmp_path: Path) -> tuple[Topology, dict[str, Any]]:
    results = windows(FileSpout(files))
    results.items().peek(Finds(str(tmp_path)))
    conf = {
        "topology.state.provider": "sqlite",
        "topology.state.provider.config": {"directory": str(tmp_path / "states")},
        "topology.state.checkpoint.interval.ms": 50,
    }
    return results.builder.topology("exactly_once"), conf


def test_after_a_restart_nothing_is_late_that_was_not_before(files: Path, tmp_path: Path) -> None:
    """The second life finds one partition at its end, and a backlog in the other."""
    write(files / "a", TIMES)
    write(files / "b", TIMES[:2500])
    with LocalCluster() as cluster:
        cluster.submit("t", *durable(files, tmp_path))
        cluster.wait_until(found(str(tmp_path), 3 * 99), timeout=60)
        cluster.kill("t")
        later = range(100_000, 200_000, 20)
        write(files / "a", later)
        write(files / "b", later)
        cluster.submit("t", *durable(files, tmp_path))
        cluster.wait_until(found(str(tmp_path), 3 * 199), timeout=60)
        assert by_start(FOUND[str(tmp_path)]) == expected(TIMES, TIMES[:2500], later[:-50], later[:-50])
        assert not cluster.errors("t")


def test_the_end_of_one_partition_lets_the_others_go_on(files: Path) -> None:
    """Sessions of the longer partition end while it is read, in order, though the shorter one is over."""
    write(files / "long", TIMES)
    write(files / "short", TIMES[:100])
    builder = StreamBuilder()
    timed = builder.source(FileSpout(files, are_complete=True), name="times").map(int)
    sessions = timed.event_time(lambda at_ms: at_ms, max_lag=NOTHING).key_by(lambda at_ms: at_ms // 10_000)
    results = sessions.window(Session(SECOND)).count().collect(1_000, seconds=60)
    assert [key for key, _ in results] == list(range(10))
    assert [window.value for _, window in results] == [600] + 9 * [500]


def test_a_feeder_in_the_place_of_the_log_has_its_newest_time() -> None:
    results = windows(FileSpout("/nowhere"))
    topology = results.builder.topology()
    completed = complete_topology(topology, {"times": [[str(at_ms)] for at_ms in TIMES]}, allow_pending=True)
    assert max(time for [time] in completed.rows("times", "watermarks")) == TIMES[-1]


@pytest.fixture(scope="module")
def broker() -> Iterator[tuple[Producer, str]]:
    """A cluster of the client library's own, in this process, with a producer. Topics have four partitions."""
    producer = Producer({"bootstrap.servers": "none", "test.mock.num.brokers": 1, "log_level": 0})
    servers = ",".join(f"{one.host}:{one.port}" for one in producer.list_topics(timeout=10).brokers.values())
    yield producer, servers


def produce(producer: Producer, topic: str, partitions: int) -> None:
    assert len(producer.list_topics(topic, timeout=10).topics[topic].partitions) == 4  # the others stay empty
    for partition in range(partitions):
        for at_ms in MANY:
            producer.produce(topic, str(at_ms).encode(), partition=partition)
        producer.flush()


@pytest.mark.parametrize("group", [None, "readers"])
def test_partitions_of_a_topic_are_read_without_late_elements(
    broker: tuple[Producer, str], cluster: LocalCluster, group: str | None
) -> None:
    producer, servers = broker
    topic = f"times-{group}"
    produce(producer, topic, 2)
    results = windows(KafkaSpout(servers, topic, group=group))
    results.items().peek(Finds(topic))
    cluster.submit("t", results.builder.topology())
    cluster.wait_until(found(topic, 3 * 99), timeout=60)
    assert by_start(FOUND[topic]) == expected(MANY[:-250], MANY[:-250])
    assert not any("late" in str(error) for _, error in cluster.errors("t"))


@pytest.mark.parametrize("group", [None, "idlers"])
def test_tasks_without_partitions_of_a_topic_do_not_hold_windows_back(
    broker: tuple[Producer, str], cluster: LocalCluster, group: str | None
) -> None:
    """Six tasks share four partitions. In a group, these move between tasks at first, and elements come again."""
    producer, servers = broker
    topic = f"shares-{group}"
    produce(producer, topic, 4)
    quick = {"session.timeout.ms": 10_000}  # for which the mock cluster can wait for a member
    results = windows(KafkaSpout(servers, topic, group=group, client_config=quick), parallelism=6)
    results.map(lambda window: 1).items().peek(Starts(topic))
    cluster.submit("t", results.builder.topology())
    cluster.wait_until(found(topic, 3), timeout=60)


class Starts:
    """Records that there are windows of a key."""

    def __init__(self, name: str) -> None:
        self.name = name
        FOUND[name] = {}

    def __call__(self, pair: tuple[int, int]) -> None:
        FOUND[self.name][pair[0], 0] = 1


def test_ends_of_a_topic_are_asked_for_together_and_leave_out_partitions_that_are_gone(
    broker: tuple[Producer, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    producer, servers = broker
    wait_s = follower_module.GONE_S
    monkeypatch.setattr(follower_module, "GONE_S", 0.0)
    producer.list_topics("ends", timeout=10)
    for partition, count in enumerate([3, 1]):
        for _ in range(count):
            producer.produce("ends", b"1", partition=partition)
    producer.flush()
    names = ["ends/0", "ends/1", "ends/2"]
    shares = {
        tuple(names): {"ends/0": 3, "ends/1": 1, "ends/2": 0},
        ("ends/1", "ends/9"): {"ends/1": 1},
        ("ends/9", "ends/10"): {},
        (): {},
    }
    for share, ends in shares.items():
        follower = share_reader(servers, share)
        assert follower.ends() is None  # the share is not known yet
        follower.poll(1, 0.01)
        assert [follower.ends() for _ in range(3)] == [ends] * 3
        follower.close()
    monkeypatch.setattr(follower_module, "GONE_S", wait_s)
    follower = share_reader(servers, ["ends/1", "ends/9"])
    follower.poll(1, 0.01)
    assert [follower.ends() for _ in range(3)] == [{"ends/1": 1, "ends/9": math.inf}] * 3  # the news may be early
    monkeypatch.setattr(follower_module, "GONE_S", 0.0)
    follower._missed["ends/9"] = 0.0
    assert follower.ends() == {"ends/1": 1}
    follower._back("ends/9")  # something has come of it
    monkeypatch.setattr(follower_module, "GONE_S", wait_s)
    assert follower.ends() == {"ends/1": 1, "ends/9": math.inf}
    follower.close()


def test_ends_of_a_topic_that_stay_unknown_are_reported(
    broker: tuple[Producer, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    producer, servers = broker
    producer.list_topics("unknown", timeout=10)
    follower = share_reader(servers, ["unknown/1", "unknown/9"])
    follower.poll(1, 0.01)
    follower.ends()
    follower.poll(1, 0.01)  # not yet
    monkeypatch.setattr(follower_module, "UNKNOWN_S", 0.0)
    follower.ends()
    with pytest.raises(
        FailedException, match=r"not known where topic 'unknown', partition 9 ends.*: no broker says so"
    ):
        follower.poll(1, 0.01)
    follower.close()


def share_reader(servers: str, share: Sequence[str]) -> ShareReader:
    config = {"bootstrap.servers": servers, "group.id": "ends", "enable.partition.eof": True}
    return ShareReader(
        config, plain_records_of, dict.fromkeys(share, 0), lambda: (share, None), lambda name: 0, commits=False
    )


def test_a_backlog_that_gathers_while_a_program_is_deactivated_is_not_late(files: Path, cluster: LocalCluster) -> None:
    """Both partitions were at their ends before."""
    write(files / "a", TIMES)
    write(files / "b", TIMES)
    results = windows(FileSpout(files))
    results.items().peek(Finds("pause"))
    cluster.submit("t", results.builder.topology())
    cluster.wait_until(found("pause", 3 * 99), timeout=60)
    cluster.deactivate("t")
    cluster.wait_quiet(timeout=60)
    later = range(100_000, 400_000, 20)
    write(files / "a", later)
    write(files / "b", later)
    cluster.activate("t")
    cluster.wait_until(found("pause", 3 * 399), timeout=60)
    assert by_start(FOUND["pause"]) == expected(TIMES, TIMES, later[:-50], later[:-50])
    assert not cluster.errors("t")
