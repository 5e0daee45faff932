"""Registrations against a real ZooKeeper."""

from __future__ import annotations

from collections.abc import Callable

from kazoo.client import KazooClient
from sessions import expire

from tupletree._coord import paths
from tupletree._coord.presence import Registration
from tupletree._coord.store import Store
from tupletree.testing.wait import wait_until
from tupletree.v1 import topology_pb2 as pb


def test_a_process_is_registered_from_start_to_stop(session: KazooClient, zookeeper_root: str) -> None:
    store = Store(session, zookeeper_root)
    registration = Registration(session, zookeeper_root, "acker", pb.Presence(id="a1", grpc_port=6640))
    registration.start()
    assert store.ackers()["a1"].grpc_port == 6640
    registration.update(pb.Presence(id="a1", grpc_port=6640, draining=True))
    wait_until(lambda: store.ackers()["a1"].draining)
    registration.stop()
    assert store.ackers() == {}


def test_a_registration_survives_the_loss_of_its_session(session: KazooClient, zookeeper_root: str) -> None:
    store = Store(session, zookeeper_root)
    registration = Registration(session, zookeeper_root, "supervisor", pb.Presence(id="s1"))
    registration.start()
    expire(session)
    wait_until(lambda: "s1" in store.supervisors())
    session.delete(paths.presence(zookeeper_root, "supervisor", "s1"))
    wait_until(lambda: "s1" in store.supervisors())
    registration.stop()


def test_a_restarted_process_takes_its_old_node_over(
    open_session: Callable[[], KazooClient], zookeeper_root: str
) -> None:
    before, after = open_session(), open_session()
    old = Registration(before, zookeeper_root, "supervisor", pb.Presence(id="s1", pid=1))
    old.start()
    new = Registration(after, zookeeper_root, "supervisor", pb.Presence(id="s1", pid=2))
    new.start()
    assert Store(after, zookeeper_root).supervisors()["s1"].pid == 2
    old.stop()
    assert Store(after, zookeeper_root).supervisors()["s1"].pid == 2
    new.stop()
