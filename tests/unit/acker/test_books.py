"""The books: routing verdicts, rotating on time, forgetting, fencing, draining."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import pytest

from tupletree.acker.books import SETTLE_S, UNTIMED_ROTATION_S, Books, Stream
from tupletree.acker.ledger import Verdicts
from tupletree.acker.updates import Batch, Hello
from tupletree.errors import AuthorityError, ProtocolError

E1, E2 = 0x9E3779B97F4A7C15, 0x0123456789ABCDEF


def hello(topology: str = "wc-1", spouts: Sequence[int] = (1,), timeout_s: float = 30.0, worker: str = "w1") -> Hello:
    return Hello(topology, worker, frozenset(spouts), timeout_s, 4)


def inits(*trees: tuple[int, int, int], shard: int = 0) -> Batch:
    none = array("Q")
    roots, values = array("Q", [root for root, _, _ in trees]), array("Q", [value for _, value, _ in trees])
    return Batch(shard, roots, values, array("I", [task for _, _, task in trees]), none, none, none, none)


def acks(*updates: tuple[int, int], shard: int = 0) -> Batch:
    none = array("Q")
    roots, values = array("Q", [root for root, _ in updates]), array("Q", [value for _, value in updates])
    return Batch(shard, none, none, array("I"), roots, values, none, none)


def acked(addressed: list[tuple[Stream, Verdicts]]) -> dict[Stream, dict[int, list[int]]]:
    return {stream: {task: list(roots) for task, roots in found.acked.items()} for stream, found in addressed}


def expired(books: Books, now_s: float) -> dict[Stream, dict[int, list[int]]]:
    found: dict[Stream, dict[int, list[int]]] = {}
    for addressed in books.rotate(now_s):
        for stream, verdicts in addressed:
            for task, roots in verdicts.expired.items():
                found.setdefault(stream, {}).setdefault(task, []).extend(roots)
    return found


def test_a_verdict_goes_to_the_stream_that_named_the_spout() -> None:
    books = Books()
    one, two, bolts = (books.open(hello(spouts=spouts), 0.0) for spouts in ([1, 2], [3], []))
    assert books.apply(one, inits((10, E1, 1), (11, E1, 2)), 0.0) == []
    assert books.apply(two, inits((12, E1, 3)), 0.0) == []
    found = acked(books.apply(bolts, acks((10, E1), (11, E1), (12, E1)), 0.0))
    assert found == {one: {1: [10], 2: [11]}, two: {3: [12]}}


def test_the_newest_stream_that_names_a_spout_gets_its_verdicts() -> None:
    books = Books()
    old = books.open(hello(), 0.0)
    books.apply(old, inits((10, E1, 1)), 0.0)
    new = books.open(hello(), 0.0)
    books.close(old, 1.0)
    assert acked(books.apply(new, acks((10, E1)), 0.0)) == {new: {1: [10]}}


def test_who_named_a_spout_and_left_gives_its_verdicts_back() -> None:
    books = Books()
    owner = books.open(hello(spouts=[1, 2]), 0.0)
    books.apply(owner, inits((10, E1, 1), (11, E1, 2)), 0.0)
    other, another = books.open(hello(spouts=[1]), 0.0), books.open(hello(spouts=[1, 2]), 0.0)
    books.close(another, 1.0)
    assert acked(books.apply(owner, acks((11, E1)), 1.0)) == {owner: {2: [11]}}
    books.close(other, 2.0)
    assert acked(books.apply(owner, acks((10, E1)), 2.0)) == {owner: {1: [10]}}


def test_a_hello_cannot_change_the_timeout_under_others() -> None:
    books = Books()
    stream = books.open(hello(timeout_s=30.0), 0.0)
    with pytest.raises(ProtocolError, match="wc-1 has message timeout 30 s, not 1 s"):
        books.open(hello(timeout_s=1.0), 0.0)
    books.close(stream, 1.0)
    books.open(hello(timeout_s=1.0), 1.0)
    assert books.longest_timeout_s() == 1.0


def test_a_replaced_worker_that_comes_back_takes_no_verdicts_away() -> None:
    """Its machine was cut off meanwhile: it says hello after its successor, and is stopped a moment later."""
    books = Books()
    successor = books.open(hello(worker="w2"), 0.0)
    books.apply(successor, inits((10, E1, 1), (11, E1, 1)), 0.0)
    back = books.open(hello(worker="w1"), 1.0)
    assert acked(books.apply(successor, acks((10, E1)), 1.0))[successor] == {1: [10]}
    books.close(back, 2.0)
    assert acked(books.apply(successor, acks((11, E1)), 2.0)) == {successor: {1: [11]}}


def test_without_a_stream_a_verdict_is_dropped() -> None:
    books = Books()
    spout, bolts = books.open(hello(), 0.0), books.open(hello(spouts=[]), 0.0)
    books.apply(spout, inits((10, E1, 1)), 0.0)
    books.close(spout, 1.0)
    assert books.apply(bolts, acks((10, E1)), 1.0) == []
    assert books.entries == 0


def test_topologies_with_the_same_roots_and_tasks_keep_apart() -> None:
    books = Books()
    one, two = books.open(hello("one-1"), 0.0), books.open(hello("two-2"), 0.0)
    books.apply(one, inits((10, E1, 1)), 0.0)
    books.apply(two, inits((10, E1, 1)), 0.0)
    assert acked(books.apply(two, acks((10, E1)), 0.0)) == {two: {1: [10]}}
    assert books.topologies["one-1"].trees == 1


def test_trees_expire_between_two_and_three_timeouts_after_their_last_update() -> None:
    books = Books()
    stream = books.open(hello(timeout_s=10.0), 0.0)
    books.apply(stream, inits((1, E1, 1)), 0.0)
    books.apply(stream, inits((2, E1, 1)), 9.9)
    for now_s in (9.9, 10.0, 20.0, 29.9):
        assert expired(books, now_s) == {}
    books.apply(stream, acks((2, E2)), 29.9)
    assert expired(books, 30.0) == {stream: {1: [1]}}
    assert [expired(books, now_s) for now_s in (40.0, 50.0, 60.0)] == [{}, {stream: {1: [2]}}, {}]


def test_a_late_rotation_does_not_shorten_the_next_life() -> None:
    books = Books()
    stream = books.open(hello(timeout_s=10.0), 0.0)
    assert books.next_rotation_s() == 10.0
    books.apply(stream, inits((1, E1, 1)), 18.0)
    assert expired(books, 19.0) == {}
    assert books.next_rotation_s() == 29.0
    assert [expired(books, now_s) for now_s in (29.0, 38.9, 39.0)] == [{}, {}, {stream: {1: [1]}}]


def test_each_topology_rotates_at_its_own_pace() -> None:
    books = Books()
    fast, slow = books.open(hello("fast-1", timeout_s=1.0), 0.0), books.open(hello("slow-2", timeout_s=30.0), 0.0)
    books.apply(fast, inits((1, E1, 1)), 0.0)
    books.apply(slow, inits((1, E1, 1)), 0.0)
    assert [expired(books, float(now_s)) for now_s in (1, 2, 3, 4)] == [{}, {}, {fast: {1: [1]}}, {}]


def test_without_timeouts_trees_stay_and_orphans_go() -> None:
    books = Books()
    stream = books.open(hello(timeout_s=0.0), 0.0)
    books.apply(stream, inits((1, E1, 1)), 0.0)
    books.apply(stream, acks((2, E1)), 0.0)
    for turn in range(1, 9):
        assert expired(books, turn * UNTIMED_ROTATION_S) == {}
    assert books.entries == books.topologies["wc-1"].trees == 1


def test_an_unattended_topology_is_forgotten_after_two_timeouts() -> None:
    books = Books()
    stream = books.open(hello(timeout_s=10.0), 0.0)
    books.apply(stream, inits((1, E1, 1)), 0.0)
    assert books.forget_unattended(1000.0) == []
    books.close(stream, 1000.0)
    assert books.forget_unattended(1020.0) == []
    assert books.forget_unattended(1020.1) == ["wc-1"]
    assert books.topologies == {}
    assert books.entries == 0


def test_a_worker_that_comes_back_keeps_the_topology() -> None:
    books = Books()
    books.close(books.open(hello(timeout_s=10.0), 0.0), 0.0)
    books.open(hello(timeout_s=10.0), 15.0)
    assert books.forget_unattended(1000.0) == []


def test_drop_is_fenced_by_epoch() -> None:
    books = Books()
    stream = books.open(hello(), 0.0)
    books.apply(stream, inits((1, E1, 1)), 0.0)
    assert books.drop(3, "unknown-7") == []
    with pytest.raises(AuthorityError, match="epoch 2 is over"):
        books.drop(2, "wc-1")
    assert books.entries == 1
    assert books.drop(3, "wc-1") == [stream]
    assert books.entries == 0
    assert books.apply(stream, inits((1, E1, 1)), 0.0) == []
    books.report_version(stream, 9)
    books.close(stream, 0.0)
    assert books.topologies == {}


def test_a_drop_in_the_middle_of_a_rotation_leaves_nobody_addressed() -> None:
    books = Books()
    stream = books.open(hello(timeout_s=1.0), 0.0)
    for shard in range(3):
        books.apply(stream, inits((1, E1, 1), shard=shard), 0.0)
    for now_s in (1.0, 2.0):
        expired(books, now_s)
    steps = books.rotate(3.0)
    assert next(steps) != []
    books.drop(1, "wc-1")
    assert list(steps) == [[], []]


def test_drain_waits_until_all_streams_report_newer_shards_and_all_trees_ended() -> None:
    books = Books()
    one, two = books.open(hello(), 0.0), books.open(hello(spouts=[]), 0.0)
    books.report_version(one, 4)
    books.report_version(two, 5)
    books.apply(one, inits((1, E1, 1)), 0.0)
    books.begin_drain()
    assert books.drain_waits_for(1.0) == "2 workers have not moved their shards yet"
    books.report_version(one, 5)  # newer than its own last one, but known before the drain began
    books.report_version(two, 6)
    assert books.drain_waits_for(1.0) == "1 workers have not moved their shards yet"
    books.report_version(one, 6)
    assert books.drain_waits_for(1.0) == "1 trees are pending"
    books.apply(two, acks((1, E1), (2, E1)), 0.0)  # 2 is a tree of the acker that took over
    assert books.drain_waits_for(1.0) == "workers may have begun trees before they moved"
    assert books.drain_waits_for(1.0 + SETTLE_S) is None


def test_drain_waits_for_a_tree_whose_init_was_under_way_when_its_worker_moved() -> None:
    """The bolt's worker acked before it moved, to this acker alone: no other one can finish the tree."""
    books = Books()
    spout, bolt = books.open(hello(), 0.0), books.open(hello(spouts=[]), 0.0)
    books.report_version(spout, 4)
    books.report_version(bolt, 4)
    books.begin_drain()
    books.report_version(spout, 5)
    books.apply(bolt, acks((1, E1)), 1.0)
    books.report_version(bolt, 5)
    assert books.drain_waits_for(1.0) == "workers may have begun trees before they moved"
    books.apply(spout, inits((1, E1 ^ E2, 1)), 1.3)
    assert books.drain_waits_for(1.3) == "1 trees are pending"
    assert books.drain_waits_for(30.0) == "1 trees are pending"
    books.apply(bolt, acks((1, E2)), 31.0)
    assert books.drain_waits_for(31.0) is None


def test_drain_does_not_wait_for_trees_that_began_after_the_move() -> None:
    """A worker may tell both ackers of them; the one that took over finishes them."""
    books = Books()
    stream = books.open(hello(), 0.0)
    books.report_version(stream, 4)
    books.begin_drain()
    books.apply(stream, inits((1, E1, 1)), 1.0)
    books.report_version(stream, 5)
    assert books.drain_waits_for(2.0) == "1 trees are pending"
    books.apply(stream, inits((2, E1, 1)), 2.7)
    assert books.drain_waits_for(3.0) == "1 trees are pending"
    books.apply(stream, acks((1, E1)), 3.5)
    assert books.drain_waits_for(4.0) is None


def test_a_worker_that_joins_a_drain_holds_it_up_until_it_has_moved() -> None:
    books = Books()
    books.begin_drain()
    first = books.open(hello(), 0.0)
    books.report_version(first, 4)
    books.report_version(first, 5)
    assert books.drain_waits_for(1.0) is not None
    assert books.drain_waits_for(1.0 + SETTLE_S) is None
    late = books.open(hello(spouts=[2]), 2.0)
    books.apply(late, inits((1, E1, 2)), 2.0)
    assert books.drain_waits_for(2.0) == "1 workers have not moved their shards yet"
    books.report_version(late, 5)
    assert books.drain_waits_for(3.0) == "1 trees are pending"


def test_drain_takes_the_first_version_it_hears_of_for_the_old_one() -> None:
    books = Books()
    books.begin_drain()
    stream = books.open(hello(), 0.0)
    books.report_version(stream, 4)
    assert books.drain_waits_for(1.0) == "1 workers have not moved their shards yet"
    books.report_version(stream, 5)
    assert books.drain_waits_for(1.0) is not None
    assert books.drain_waits_for(1.0 + SETTLE_S) is None


def test_a_drain_with_no_worker_left_waits_for_nothing_but_trees() -> None:
    books = Books()
    stream = books.open(hello(timeout_s=7.0), 0.0)
    books.apply(stream, inits((1, E1, 1)), 0.0)
    books.close(stream, 0.0)
    books.begin_drain()
    assert books.longest_timeout_s() == 7.0
    assert books.drain_waits_for(1.0) == "1 trees are pending"
    for now_s in (7.0, 14.0, 21.0):
        expired(books, now_s)
    assert books.drain_waits_for(1.0) is None


def test_how_many_trees_are_pending_and_completed_is_of_all_shards_of_a_streams_topology() -> None:
    books = Books()
    stream, other = books.open(hello("wc-1"), 0.0), books.open(hello("wc-2"), 0.0)
    books.apply(stream, inits((10, E1, 1), (11, E1, 1)), 0.0)
    books.apply(stream, inits((12, E1, 1), shard=1), 0.0)
    books.apply(stream, acks((12, E1), shard=1), 0.0)
    books.apply(other, inits((10, E1, 1)), 0.0)
    assert books.flow(stream) == (2, 1)
    assert books.flow(other) == (1, 0)
    books.drop(1, "wc-1")
    assert books.flow(stream) == (0, 0)
