"""The store and its watches against a real ZooKeeper."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from kazoo.client import KazooClient
from sessions import drop_connection, expire

from tupletree._coord import paths
from tupletree._coord.session import connect
from tupletree._coord.store import ERRORS_KEPT, Store, encode
from tupletree._devcluster.zookeeper import EmbeddedZooKeeper
from tupletree.errors import NotFoundError, UnavailableError
from tupletree.testing.wait import wait_until
from tupletree.v1 import topology_pb2 as pb


class Wakes:
    """Counts wakes; ``after(action)`` waits for the first one after an action."""

    def __init__(self) -> None:
        self.count = 0
        self._changed = threading.Condition()

    def __call__(self) -> None:
        with self._changed:
            self.count += 1
            self._changed.notify_all()

    def wait_beyond(self, seen: int, timeout: float = 10.0) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.count > seen, timeout), "nobody was woken"


@pytest.fixture
def store(session: KazooClient, zookeeper_root: str) -> Store:
    for folder in paths.folders(zookeeper_root):
        session.ensure_path(folder)
    return Store(session, zookeeper_root)


def presence(worker_id: str, port: int = 6700) -> pb.WorkerPresence:
    return pb.WorkerPresence(worker_id=worker_id, supervisor_id="s1", host="h", port=port, pid=7)


def test_a_record_comes_back_as_it_was_stored_and_as_readable_json(store: Store) -> None:
    record = pb.TopologyRecord(id="wc-1-2", name="wc", status=pb.TOPOLOGY_STATUS_ACTIVE, executors={"a": 2})
    path = paths.topology(store.root, record.id)
    store.client.create(path, encode(record))
    found = store.topology("wc-1-2")
    assert found is not None
    assert (found.value, found.version) == (record, 0)
    assert store.topologies() == {"wc-1-2": found}
    assert b'"status": "TOPOLOGY_STATUS_ACTIVE"' in store.client.get(path)[0]


def test_what_is_missing_is_none_or_empty(store: Store) -> None:
    assert store.topology("x") is None
    assert store.assignment("x") is None
    assert store.assignments() == {}
    assert store.worker_presences("x") == {}
    assert store.errors("x") == []
    assert store.leadership() is None
    assert store.counter().value == 0


def test_a_worker_presence_is_replaced_and_removed_only_by_its_own_incarnation(store: Store) -> None:
    store.client.create(paths.workers_of(store.root, "t"))
    store.put_worker_presence("t", presence("w1"))
    store.put_worker_presence("t", presence("w2"))
    assert not store.remove_worker_presence("t", "s1", 6700, "w1")
    assert store.worker_presences("t")["s1", 6700].worker_id == "w2"
    assert store.remove_worker_presence("t", "s1", 6700, "w2")
    assert store.worker_presences("t") == {}
    assert not store.remove_worker_presence("t", "s1", 6700, "w2")


def test_a_removed_topology_takes_no_worker_and_no_error_back(store: Store) -> None:
    with pytest.raises(NotFoundError, match="topology gone is gone"):
        store.put_worker_presence("gone", presence("w1"))
    store.report_error("gone", pb.ComponentError(component_id="split"))
    assert store.client.get_children(paths.errors(store.root)) == []


def test_the_newest_ten_errors_of_a_component_are_kept_newest_first(store: Store) -> None:
    store.client.create(paths.errors_of(store.root, "t"))
    for at in range(ERRORS_KEPT + 5):
        error = pb.ComponentError(
            component_id="split/1", at_unix_s=at, message="m" * 5000, traceback="x" * 20_000 + "!"
        )
        store.report_error("t", error)
    store.report_error("t", pb.ComponentError(component_id="count", at_unix_s=100))
    found = store.errors("t")
    assert [error.at_unix_s for error in found] == [100, *range(14, 4, -1)]
    assert len(found[1].message) == 1024
    assert len(found[1].traceback) == 16 * 1024
    assert found[1].traceback.endswith("!")


def test_an_error_with_a_higher_count_takes_the_place_of_the_one_before(store: Store) -> None:
    store.client.create(paths.errors_of(store.root, "t"))

    def report(at: float, count: int, port: int = 6700) -> None:
        error = pb.ComponentError(component_id="c", port=port, at_unix_s=at, message="died", count=count)
        error.first_unix_s = 1.0
        store.report_error("t", error)

    report(1, 1, port=6701)
    for count in range(1, ERRORS_KEPT + 5):
        report(count + 1, count)
    assert [(error.port, error.count, error.at_unix_s) for error in store.errors("t")] == [
        (6700, ERRORS_KEPT + 4, ERRORS_KEPT + 5),
        (6701, 1, 1),
    ]


def test_a_topology_watch_wakes_for_record_assignment_and_each_worker(store: Store) -> None:
    wakes = Wakes()
    watch = store.watch_topology("t", wakes)
    wakes.wait_beyond(0)
    record, assignment = paths.topology(store.root, "t"), paths.assignment(store.root, "t")
    for change in (
        lambda: store.client.create(record, b"{}"),
        lambda: store.client.create(assignment, b"{}"),
        lambda: store.client.create(paths.workers_of(store.root, "t")),
        lambda: store.put_worker_presence("t", presence("w1")),
        lambda: store.put_worker_presence("t", presence("w2")),
        lambda: store.remove_worker_presence("t", "s1", 6700, "w2"),
        lambda: store.put_worker_presence("t", presence("w3")),
        lambda: store.client.set(assignment, b"{ }"),
        lambda: store.client.delete(record),
        lambda: store.client.create(record, b"{}"),
    ):
        _settle(wakes)
        seen = wakes.count
        change()
        wakes.wait_beyond(seen)
    watch.cancel()


def _settle(wakes: Wakes) -> None:
    """Wait until a change's second wake (of the node and of its parent's list) has come too."""
    quiet = threading.Event()
    last = -1
    while last != wakes.count:
        last = wakes.count
        quiet.wait(0.05)


def test_a_watch_wakes_after_a_reconnect_and_after_a_new_session(store: Store) -> None:
    wakes = Wakes()
    watch = store.watch_assignments(wakes)
    wakes.wait_beyond(0)
    seen = wakes.count
    drop_connection(store.client)
    wakes.wait_beyond(seen)
    expire(store.client)
    _settle(wakes)
    seen = wakes.count
    store.client.create(paths.assignment(store.root, "t"), b"{}")
    wakes.wait_beyond(seen)
    watch.cancel()


def test_no_change_is_missed_however_fast_they_come(store: Store) -> None:
    """The last snapshot read because of a wake is the last state."""
    latest: list[int] = [-1]
    woken = threading.Event()
    watch = store.watch_assignments(woken.set)
    path = paths.assignment(store.root, "t")
    store.client.create(path, encode(pb.Assignment(topology_id="t")))
    ended = threading.Event()

    def follow() -> None:
        while not ended.is_set():
            woken.wait(0.1)
            woken.clear()
            found = store.assignment("t")
            latest[0] = found.value.version if found else -1

    reader = threading.Thread(target=follow)
    reader.start()
    try:
        for version in range(1, 200):
            store.client.set_async(path, encode(pb.Assignment(topology_id="t", version=version)))
        wait_until(lambda: latest[0] == 199)
    finally:
        ended.set()
        reader.join()
        watch.cancel()


def test_a_cancelled_watch_is_silent(store: Store) -> None:
    wakes = Wakes()
    watch = store.watch_presence("acker", wakes)
    wakes.wait_beyond(0)
    watch.cancel()
    seen = wakes.count
    other = Wakes()
    store.watch_presence("acker", other)
    other.wait_beyond(0)
    store.client.create(paths.presence(store.root, "acker", "a1"), b"{}")
    other.wait_beyond(1)
    assert wakes.count == seen


def test_an_absent_zookeeper_is_one_sentence() -> None:
    conf = {
        "zookeeper.servers": ["127.0.0.1"],
        "zookeeper.port": 1,
        "zookeeper.session.timeout": 6000,
        "zookeeper.connection.timeout": 300,
    }
    sentence = (
        r"^ZooKeeper at 127\.0\.0\.1:1 did not answer within 0\.3 s: connections are refused, as nothing listens there$"
    )
    with pytest.raises(UnavailableError, match=sentence):
        connect(conf)


def test_requests_resume_after_a_restart_of_zookeeper(
    store: Store, open_session: Callable[[int], KazooClient], zookeeper: EmbeddedZooKeeper
) -> None:
    store = Store(open_session(2000), store.root)  # a server that is starting may take a connection and not answer
    wakes = Wakes()
    watch = store.watch_topologies(wakes)
    wakes.wait_beyond(0)
    seen = wakes.count
    zookeeper.kill()
    zookeeper.start()
    wakes.wait_beyond(seen, timeout=20)
    assert store.topologies() == {}
    watch.cancel()


@pytest.mark.parametrize(
    "damaged", [b"", b"{", b"{}", b"\x00junk", b"\xff\xfe", b'{"id": "b-2-2", "topologyId": "b-2-2"}']
)
def test_a_node_that_cannot_be_read_is_left_out_and_logged_once(
    store: Store, damaged: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    for one in ("a-1-1", "c/3-3"):
        store.client.create(paths.topology(store.root, one), encode(pb.TopologyRecord(id=one, name="x")))
        store.client.create(paths.assignment(store.root, one), encode(pb.Assignment(topology_id=one, version=1)))
    readable = store.topologies(), store.assignments()
    for path in (paths.topology, paths.assignment):
        store.client.set(path(store.root, "c/3-3"), damaged)
    for _ in range(2):
        for found, before in zip((store.topologies(), store.assignments()), readable, strict=True):
            assert found == {"a-1-1": before["a-1-1"]}
            assert found.unreadable.keys() == {"c/3-3"}
            assert store.root in found.unreadable["c/3-3"]
    assert store.topologies_of(["a-1-1"]).unreadable == {}
    assert store.topologies_of(["a-1-1", "c/3-3", "d"]).unreadable.keys() == {"c/3-3"}
    lines = [one.getMessage() for one in caplog.records if "zookeeper.unreadable" in one.getMessage()]
    assert len(lines) == 2, "one line for each node"


def test_one_damaged_presence_hides_no_other(store: Store) -> None:
    store.client.create(paths.presence(store.root, "supervisor", "s1"), encode(pb.Presence(id="s1")))
    store.client.create(paths.presence(store.root, "supervisor", "s2"), b"{")
    assert store.supervisors().keys() == {"s1"}
