"""The registry: routing verdicts, rotating on time, forgetting, fencing, draining."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import replace

import pytest

from tupletree.acker.ledger import Verdicts
from tupletree.acker.registry import SETTLE_S, UNTIMED_ROTATION_S, Registry, Stream
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


def expired(registry: Registry, now_s: float) -> dict[Stream, dict[int, list[int]]]:
    found: dict[Stream, dict[int, list[int]]] = {}
    for addressed in registry.rotate(now_s):
        for stream, verdicts in addressed:
            for task, roots in verdicts.expired.items():
                found.setdefault(stream, {}).setdefault(task, []).extend(roots)
    return found


def test_a_verdict_goes_to_the_stream_that_named_the_spout() -> None:
    registry = Registry()
    one, two, bolts = (registry.open(hello(spouts=spouts), 0.0) for spouts in ([1, 2], [3], []))
    assert registry.apply(one, inits((10, E1, 1), (11, E1, 2)), 0.0) == []
    assert registry.apply(two, inits((12, E1, 3)), 0.0) == []
    found = acked(registry.apply(bolts, acks((10, E1), (11, E1), (12, E1)), 0.0))
    assert found == {one: {1: [10], 2: [11]}, two: {3: [12]}}


def test_the_newest_stream_that_names_a_spout_gets_its_verdicts() -> None:
    registry = Registry()
    old = registry.open(hello(), 0.0)
    registry.apply(old, inits((10, E1, 1)), 0.0)
    new = registry.open(hello(), 0.0)
    registry.close(old, 1.0)
    assert acked(registry.apply(new, acks((10, E1)), 0.0)) == {new: {1: [10]}}


def test_who_named_a_spout_and_left_gives_its_verdicts_back() -> None:
    registry = Registry()
    owner = registry.open(hello(spouts=[1, 2]), 0.0)
    registry.apply(owner, inits((10, E1, 1), (11, E1, 2)), 0.0)
    other, another = registry.open(hello(spouts=[1]), 0.0), registry.open(hello(spouts=[1, 2]), 0.0)
    registry.close(another, 1.0)
    assert acked(registry.apply(owner, acks((11, E1)), 1.0)) == {owner: {2: [11]}}
    registry.close(other, 2.0)
    assert acked(registry.apply(owner, acks((10, E1)), 2.0)) == {owner: {1: [10]}}


def test_a_hello_cannot_change_the_timeout_under_others() -> None:
    registry = Registry()
    stream = registry.open(hello(timeout_s=30.0), 0.0)
    with pytest.raises(ProtocolError, match="message_timeout_s is 1, and 30 for the other workers of wc-1"):
        registry.open(hello(timeout_s=1.0), 0.0)
    registry.close(stream, 1.0)
    registry.open(hello(timeout_s=1.0), 1.0)
    assert registry.longest_timeout_s() == 1.0


def test_the_ledgers_of_shards_that_are_gone_are_dropped_when_they_are_empty() -> None:
    registry = Registry()
    old = registry.open(replace(hello(timeout_s=10.0), shards=3), 0.0)
    for shard, root in enumerate((3, 4, 5)):
        registry.apply(old, inits((root, 7, 1), shard=shard), 0.0)
    registry.apply(old, acks((4, 7), shard=1), 0.0)
    expired(registry, 10.0)
    registry.close(old, 11.0)
    registry.open(replace(hello(timeout_s=10.0), shards=1), 12.0)
    expired(registry, 20.0)
    assert set(registry.topologies["wc-1"].ledgers) == {0, 2}, "a tree of shard 2 has not ended"
    expired(registry, 30.0)
    assert set(registry.topologies["wc-1"].ledgers) == {0}


def test_a_replaced_worker_that_comes_back_takes_no_verdicts_away() -> None:
    """Its machine was cut off meanwhile: it says hello after its successor, and is stopped a moment later."""
    registry = Registry()
    successor = registry.open(hello(worker="w2"), 0.0)
    registry.apply(successor, inits((10, E1, 1), (11, E1, 1)), 0.0)
    back = registry.open(hello(worker="w1"), 1.0)
    assert acked(registry.apply(successor, acks((10, E1)), 1.0))[successor] == {1: [10]}
    registry.close(back, 2.0)
    assert acked(registry.apply(successor, acks((11, E1)), 2.0)) == {successor: {1: [11]}}


def test_without_a_stream_a_verdict_is_dropped() -> None:
    registry = Registry()
    spout, bolts = registry.open(hello(), 0.0), registry.open(hello(spouts=[]), 0.0)
    registry.apply(spout, inits((10, E1, 1)), 0.0)
    registry.close(spout, 1.0)
    assert registry.apply(bolts, acks((10, E1)), 1.0) == []
    assert registry.entries == 0


def test_topologies_with_the_same_roots_and_tasks_keep_apart() -> None:
    registry = Registry()
    one, two = registry.open(hello("one-1"), 0.0), registry.open(hello("two-2"), 0.0)
    registry.apply(one, inits((10, E1, 1)), 0.0)
    registry.apply(two, inits((10, E1, 1)), 0.0)
    assert acked(registry.apply(two, acks((10, E1)), 0.0)) == {two: {1: [10]}}
    assert registry.topologies["one-1"].trees == 1


def test_trees_expire_between_two_and_three_timeouts_after_their_last_update() -> None:
    registry = Registry()
    stream = registry.open(hello(timeout_s=10.0), 0.0)
    registry.apply(stream, inits((1, E1, 1)), 0.0)
    registry.apply(stream, inits((2, E1, 1)), 9.9)
    for now_s in (9.9, 10.0, 20.0, 29.9):
        assert expired(registry, now_s) == {}
    registry.apply(stream, acks((2, E2)), 29.9)
    assert expired(registry, 30.0) == {stream: {1: [1]}}
    assert [expired(registry, now_s) for now_s in (40.0, 50.0, 60.0)] == [{}, {stream: {1: [2]}}, {}]


def test_a_late_rotation_does_not_shorten_the_next_life() -> None:
    registry = Registry()
    stream = registry.open(hello(timeout_s=10.0), 0.0)
    assert registry.next_rotation_s() == 10.0
    registry.apply(stream, inits((1, E1, 1)), 18.0)
    assert expired(registry, 19.0) == {}
    assert registry.next_rotation_s() == 29.0
    assert [expired(registry, now_s) for now_s in (29.0, 38.9, 39.0)] == [{}, {}, {stream: {1: [1]}}]


def test_each_topology_rotates_at_its_own_pace() -> None:
    registry = Registry()
    fast, slow = registry.open(hello("fast-1", timeout_s=1.0), 0.0), registry.open(hello("slow-2", timeout_s=30.0), 0.0)
    registry.apply(fast, inits((1, E1, 1)), 0.0)
    registry.apply(slow, inits((1, E1, 1)), 0.0)
    assert [expired(registry, float(now_s)) for now_s in (1, 2, 3, 4)] == [{}, {}, {fast: {1: [1]}}, {}]


def test_without_timeouts_trees_stay_and_orphans_go() -> None:
    registry = Registry()
    stream = registry.open(hello(timeout_s=0.0), 0.0)
    registry.apply(stream, inits((1, E1, 1)), 0.0)
    registry.apply(stream, acks((2, E1)), 0.0)
    for turn in range(1, 9):
        assert expired(registry, turn * UNTIMED_ROTATION_S) == {}
    assert registry.entries == registry.topologies["wc-1"].trees == 1


def test_an_unattended_topology_is_forgotten_after_two_timeouts() -> None:
    registry = Registry()
    stream = registry.open(hello(timeout_s=10.0), 0.0)
    registry.apply(stream, inits((1, E1, 1)), 0.0)
    assert registry.forget_unattended(1000.0) == []
    registry.close(stream, 1000.0)
    assert registry.forget_unattended(1020.0) == []
    assert registry.forget_unattended(1020.1) == ["wc-1"]
    assert registry.topologies == {}
    assert registry.entries == 0


def test_a_worker_that_comes_back_keeps_the_topology() -> None:
    registry = Registry()
    registry.close(registry.open(hello(timeout_s=10.0), 0.0), 0.0)
    registry.open(hello(timeout_s=10.0), 15.0)
    assert registry.forget_unattended(1000.0) == []


def test_drop_is_fenced_by_epoch() -> None:
    registry = Registry()
    stream = registry.open(hello(), 0.0)
    registry.apply(stream, inits((1, E1, 1)), 0.0)
    assert registry.drop(3, "unknown-7") == []
    with pytest.raises(AuthorityError, match="epoch 2 is outdated"):
        registry.drop(2, "wc-1")
    assert registry.entries == 1
    assert registry.drop(3, "wc-1") == [stream]
    assert registry.entries == 0
    assert registry.apply(stream, inits((1, E1, 1)), 0.0) == []
    registry.report_version(stream, 9)
    registry.close(stream, 0.0)
    assert registry.topologies == {}


def test_a_drop_in_the_middle_of_a_rotation_leaves_nobody_addressed() -> None:
    registry = Registry()
    stream = registry.open(hello(timeout_s=1.0), 0.0)
    for shard in range(3):
        registry.apply(stream, inits((1, E1, 1), shard=shard), 0.0)
    for now_s in (1.0, 2.0):
        expired(registry, now_s)
    steps = registry.rotate(3.0)
    assert next(steps) != []
    registry.drop(1, "wc-1")
    assert list(steps) == [[], []]


def test_drain_waits_until_all_streams_report_newer_shards_and_all_trees_ended() -> None:
    registry = Registry()
    one, two = registry.open(hello(), 0.0), registry.open(hello(spouts=[]), 0.0)
    registry.report_version(one, 4)
    registry.report_version(two, 5)
    registry.apply(one, inits((1, E1, 1)), 0.0)
    registry.begin_drain()
    assert registry.drain_waits_for(1.0) == "2 workers still use an old shard map"
    registry.report_version(one, 5)  # newer than its own last one, but known before the drain began
    registry.report_version(two, 6)
    assert registry.drain_waits_for(1.0) == "1 workers still use an old shard map"
    registry.report_version(one, 6)
    assert registry.drain_waits_for(1.0) == "1 trees are pending"
    registry.apply(two, acks((1, E1), (2, E1)), 0.0)  # 2 is a tree of the acker that took over
    assert registry.drain_waits_for(1.0) == "workers may have begun trees before they moved"
    assert registry.drain_waits_for(1.0 + SETTLE_S) is None


def test_drain_waits_for_a_tree_whose_init_was_under_way_when_its_worker_moved() -> None:
    """The bolt's worker acked before it moved, to this acker alone: no other one can finish the tree."""
    registry = Registry()
    spout, bolt = registry.open(hello(), 0.0), registry.open(hello(spouts=[]), 0.0)
    registry.report_version(spout, 4)
    registry.report_version(bolt, 4)
    registry.begin_drain()
    registry.report_version(spout, 5)
    registry.apply(bolt, acks((1, E1)), 1.0)
    registry.report_version(bolt, 5)
    assert registry.drain_waits_for(1.0) == "workers may have begun trees before they moved"
    registry.apply(spout, inits((1, E1 ^ E2, 1)), 1.3)
    assert registry.drain_waits_for(1.3) == "1 trees are pending"
    assert registry.drain_waits_for(30.0) == "1 trees are pending"
    registry.apply(bolt, acks((1, E2)), 31.0)
    assert registry.drain_waits_for(31.0) is None


def test_drain_does_not_wait_for_trees_that_began_after_the_move() -> None:
    """A worker may tell both ackers of them; the one that took over finishes them."""
    registry = Registry()
    stream = registry.open(hello(), 0.0)
    registry.report_version(stream, 4)
    registry.begin_drain()
    registry.apply(stream, inits((1, E1, 1)), 1.0)
    registry.report_version(stream, 5)
    assert registry.drain_waits_for(2.0) == "1 trees are pending"
    registry.apply(stream, inits((2, E1, 1)), 2.7)
    assert registry.drain_waits_for(3.0) == "1 trees are pending"
    registry.apply(stream, acks((1, E1)), 3.5)
    assert registry.drain_waits_for(4.0) is None


def test_a_worker_that_joins_a_drain_holds_it_up_until_it_has_moved() -> None:
    registry = Registry()
    registry.begin_drain()
    first = registry.open(hello(), 0.0)
    registry.report_version(first, 4)
    registry.report_version(first, 5)
    assert registry.drain_waits_for(1.0) is not None
    assert registry.drain_waits_for(1.0 + SETTLE_S) is None
    late = registry.open(hello(spouts=[2]), 2.0)
    registry.apply(late, inits((1, E1, 2)), 2.0)
    assert registry.drain_waits_for(2.0) == "1 workers still use an old shard map"
    registry.report_version(late, 5)
    assert registry.drain_waits_for(3.0) == "1 trees are pending"


def test_drain_takes_the_first_version_it_hears_of_for_the_old_one() -> None:
    registry = Registry()
    registry.begin_drain()
    stream = registry.open(hello(), 0.0)
    registry.report_version(stream, 4)
    assert registry.drain_waits_for(1.0) == "1 workers still use an old shard map"
    registry.report_version(stream, 5)
    assert registry.drain_waits_for(1.0) is not None
    assert registry.drain_waits_for(1.0 + SETTLE_S) is None


def test_a_drain_with_no_worker_left_waits_for_nothing_but_trees() -> None:
    registry = Registry()
    stream = registry.open(hello(timeout_s=7.0), 0.0)
    registry.apply(stream, inits((1, E1, 1)), 0.0)
    registry.close(stream, 0.0)
    registry.begin_drain()
    assert registry.longest_timeout_s() == 7.0
    assert registry.drain_waits_for(1.0) == "1 trees are pending"
    for now_s in (7.0, 14.0, 21.0):
        expired(registry, now_s)
    assert registry.drain_waits_for(1.0) is None


def test_how_many_trees_are_pending_and_completed_is_of_all_shards_of_a_streams_topology() -> None:
    registry = Registry()
    stream, other = registry.open(hello("wc-1"), 0.0), registry.open(hello("wc-2"), 0.0)
    registry.apply(stream, inits((10, E1, 1), (11, E1, 1)), 0.0)
    registry.apply(stream, inits((12, E1, 1), shard=1), 0.0)
    registry.apply(stream, acks((12, E1), shard=1), 0.0)
    registry.apply(other, inits((10, E1, 1)), 0.0)
    assert registry.flow(stream) == (2, 1)
    assert registry.flow(other) == (1, 0)
    registry.drop(1, "wc-1")
    assert registry.flow(stream) == (0, 0)
