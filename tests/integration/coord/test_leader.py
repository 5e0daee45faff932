"""Election and fenced writes against a real ZooKeeper."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kazoo.client import KazooClient
from sessions import drop_connection, expire

from tupletree._coord import paths
from tupletree._coord.leader import Create, Delete, LeaderElection, Put
from tupletree._coord.store import Store
from tupletree.errors import AuthorityError, ConflictError, UsageError
from tupletree.testing.wait import wait_until

Stand = Callable[[str], "Candidate"]


class Candidate:
    """A nimbus's part in an election, and the story of its leaderships."""

    def __init__(self, client: KazooClient, root: str, name: str) -> None:
        self.client = client
        self.name = name
        self.story: list[tuple[str, int]] = []
        self.election = LeaderElection(
            client,
            root,
            name,
            f"{name}:6627",
            on_elected=lambda epoch: self.story.append(("elected", epoch)),
            on_deposed=lambda epoch: self.story.append(("deposed", epoch)),
        )
        self.election.start()
        self.election.stand()

    def await_story(self, *story: tuple[str, int]) -> None:
        wait_until(lambda: self.story == list(story), what=f"{self.name}: {story}")


@pytest.fixture
def stand(open_session: Callable[[], KazooClient], zookeeper_root: str) -> Iterator[Stand]:
    candidates: list[Candidate] = []

    def one(name: str) -> Candidate:
        candidates.append(Candidate(open_session(), zookeeper_root, name))
        return candidates[-1]

    yield one
    for candidate in candidates:
        candidate.election.stop()


def test_a_change_that_no_message_can_hold_is_refused_before_it_is_sent(stand: Stand, zookeeper_root: str) -> None:
    one = stand("n1")
    one.await_story(("elected", 1))
    path = f"{paths.assignments(zookeeper_root)}/large-1-1"
    with pytest.raises(UsageError, match="/assignments/large-1-1 cannot be written: the change has 1200"):
        one.election.write(1, [Create(f"{path}0", b"x"), Create(path, b"x" * 1_199_800)])
    one.election.write(1, [Create(path, b"x" * 999_000)])
    assert one.client.exists(path).dataLength == 999_000
    assert one.story == [("elected", 1)]


def test_the_first_leads_and_the_next_follows_with_the_next_epoch(stand: Stand, zookeeper_root: str) -> None:
    first = stand("n1")
    first.await_story(("elected", 1))
    second = stand("n2")
    leadership = Store(second.client, zookeeper_root).leadership()
    assert leadership is not None
    assert (leadership.identity, leadership.address, leadership.epoch) == ("n1", "n1:6627", 1)
    first.election.stop()
    second.await_story(("elected", 2))
    assert first.story == [("elected", 1), ("deposed", 1)]
    assert second.election.epoch == 2


def test_a_stale_leader_writes_nothing(
    stand: Stand, session: KazooClient, zookeeper_root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = stand("n1")
    first.await_story(("elected", 1))
    session.create(f"{zookeeper_root}/node", b"before")
    begin = first.client.transaction

    def begin_late() -> Any:
        """Begin after the leader has looked at its memory, and another leadership has begun: its fence is gone."""
        session.set(paths.leader_epoch(zookeeper_root), session.get(paths.leader_epoch(zookeeper_root))[0])
        return begin()

    monkeypatch.setattr(first.client, "transaction", begin_late)
    with pytest.raises(AuthorityError, match="leadership 1 has ended"):
        first.election.write(1, [Put(f"{zookeeper_root}/node", b"after", 0), Create(f"{zookeeper_root}/new")])
    assert session.get(f"{zookeeper_root}/node")[0] == b"before"
    assert not session.exists(f"{zookeeper_root}/new")
    first.await_story(("elected", 1), ("deposed", 1), ("elected", 2))


def test_a_write_is_applied_whole_or_not_at_all(stand: Stand, session: KazooClient, zookeeper_root: str) -> None:
    leader = stand("n1")
    leader.await_story(("elected", 1))
    a, b = f"{zookeeper_root}/a", f"{zookeeper_root}/b"
    leader.election.write(1, [Create(a, b"1"), Create(b, b"1")])
    with pytest.raises(ConflictError, match="/b is not as expected"):
        leader.election.write(1, [Put(a, b"2", 0), Put(b, b"2", 5)])
    assert session.get(a)[0] == b"1"
    with pytest.raises(ConflictError):
        leader.election.write(1, [Delete(a), Create(b)])
    leader.election.write(1, [Delete(a), Put(b, b"2", 0)])
    assert not session.exists(a)
    with pytest.raises(AuthorityError):
        leader.election.write(7, [Delete(b)])


def test_a_lost_session_deposes_and_the_nimbus_stands_again(stand: Stand) -> None:
    first = stand("n1")
    first.await_story(("elected", 1))
    second = stand("n2")
    wait_until(lambda: len(second.client.get_children(paths.leader_candidates(second.election._root))) == 2)
    expire(first.client)
    second.await_story(("elected", 2))
    wait_until(lambda: first.story == [("elected", 1), ("deposed", 1)])
    second.election.stop()
    first.await_story(("elected", 1), ("deposed", 1), ("elected", 3))


def test_a_dropped_connection_changes_nothing(stand: Stand, session: KazooClient, zookeeper_root: str) -> None:
    first = stand("n1")
    first.await_story(("elected", 1))
    drop_connection(first.client)
    first.election.write(1, [Create(f"{zookeeper_root}/after")])
    assert first.story == [("elected", 1)]


def test_who_stands_down_lets_the_others_lead_and_stands_again_behind_them(stand: Stand) -> None:
    first = stand("n1")
    first.await_story(("elected", 1))
    first.election.stand_down()
    first.await_story(("elected", 1), ("deposed", 1))
    second = stand("n2")
    second.await_story(("elected", 2))
    first.election.stand()
    wait_until(lambda: len(second.client.get_children(paths.leader_candidates(second.election._root))) == 2)
    second.election.stand_down()
    first.await_story(("elected", 1), ("deposed", 1), ("elected", 3))


def test_a_leader_whose_candidate_node_is_removed_stands_down(
    stand: Stand, session: KazooClient, zookeeper_root: str
) -> None:
    first = stand("n1")
    first.await_story(("elected", 1))
    second = stand("n2")
    wait_until(lambda: len(session.get_children(paths.leader_candidates(zookeeper_root))) == 2)
    leadership = Store(session, zookeeper_root).leadership()
    assert leadership is not None
    session.delete(paths.leader_candidate(zookeeper_root, leadership.node))
    second.await_story(("elected", 2))
    wait_until(lambda: first.story == [("elected", 1), ("deposed", 1)])
