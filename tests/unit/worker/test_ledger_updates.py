"""What a run loop tells the ackers: neighbours combined, split among shards without a loss."""

from __future__ import annotations

from functools import reduce
from operator import xor

from hand_driven import inits, xors
from hypothesis import given
from hypothesis import strategies as st

from tupletree._wire.packed import unpack_u32, unpack_u64
from tupletree.worker.core.ack_updates import NEWEST_MASK, AckUpdates, encode, split

ids = st.integers(0, 2**64 - 1)
roots = st.sampled_from([1, 2, 3, 17, 2**63, 2**64 - 1]) | st.integers(1, 2**64 - 1)
reports = st.lists(
    st.one_of(
        st.tuples(st.just("ack"), roots, ids),
        st.tuples(st.just("init"), roots, ids, st.integers(1, 99)),
        st.tuples(st.just("fail"), roots),
        st.tuples(st.just("reset"), roots),
    ),
    max_size=30,
)


def updates_of(given_reports: list[tuple]) -> AckUpdates:
    updates = AckUpdates()
    for report in given_reports:
        match report:
            case ("ack", root, value):
                updates.add_ack(root, value)
            case ("init", root, value, task):
                updates.add_init(root, value, task)
            case ("fail", root):
                updates.fails.add(root)
            case ("reset", root):
                updates.resets.add(root)
    return updates


@given(reports)
def test_inits_and_acks_come_to_the_xor_of_each_root(given_reports: list[tuple]) -> None:
    values: dict[int, list[int]] = {}
    for kind, root, *more in given_reports:
        if kind in ("ack", "init"):
            values.setdefault(root, []).append(more[0])
    updates = updates_of(given_reports)
    sums = xors(updates)
    for root, value, _ in inits(updates):
        sums[root] = sums.get(root, 0) ^ value
    assert sums == {root: reduce(xor, items, 0) for root, items in values.items()}


def test_acks_of_one_root_in_a_row_are_one_update() -> None:
    updates = AckUpdates.of(acks=[(1, 2), (1, 4), (2, 8), (1, 16)])
    assert list(zip(*updates.acks.columns(), strict=True)) == [(1, 6), (2, 8), (1, 16)]
    assert len(updates) == 3


def test_an_ack_of_a_tree_that_is_just_begun_changes_what_its_init_says() -> None:
    updates = AckUpdates()
    updates.add_ack(1, 1)  # before the init, it is not known where that will be told
    for root in (1, 2, 3):
        updates.add_init(root, 16, 9)
    for root, value in ((3, 1), (2, 4), (3, 16), (4, 8), (1, 2)):
        updates.add_ack(root, value)
    assert inits(updates) == [(1, 18, 9), (2, 20, 9), (3, 1, 9)]
    assert xors(updates) == {1: 1, 4: 8}
    assert len(updates) == 5


@given(st.lists(st.integers(1, 40), max_size=60))
def test_acks_in_any_order_are_found_to_belong_to_their_inits(acked: list[int]) -> None:
    updates = AckUpdates()
    for root in range(1, 41):
        updates.add_init(root << 20 | root, 0, 9)
    for bit, root in enumerate(acked):
        updates.add_ack(root << 20 | root, 1 << bit)
    told = {root & 63: value for root, value, _ in inits(updates)}
    assert told == {root: sum(1 << bit for bit, other in enumerate(acked) if other == root) for root in range(1, 41)}
    assert not xors(updates)


def test_of_two_inits_with_the_same_lowest_bits_the_newer_one_is_found() -> None:
    updates, far = AckUpdates(), NEWEST_MASK + 1
    for root in (1, 2, 3, 1 + far):
        updates.add_init(root, 16, 9)
    for root in (3, 1, 1 + far):
        updates.add_ack(root, 1)
    assert inits(updates) == [(1, 16, 9), (2, 16, 9), (3, 17, 9), (1 + far, 17, 9)]
    assert xors(updates) == {1: 1}


def test_a_successor_knows_nothing_of_the_inits_before() -> None:
    before = updates_of([("init", root, 16, 9) for root in range(1, 9)])
    after = before.successor()
    assert not after
    after.add_init(9, 16, 9)
    for root in range(9, 0, -1):
        after.add_ack(root, root)
    assert inits(before) == [(root, 16, 9) for root in range(1, 9)]
    assert inits(after) == [(9, 16 ^ 9, 9)]
    assert xors(after) == {root: root for root in range(1, 9)}


def test_more_inits_than_there_are_numbers_for_lose_no_ack() -> None:
    """The places that inits are found at have 16 bits: one that is not found leaves its acks apart."""
    updates, count = AckUpdates(), 0x10000 + 20
    for root in range(1, count + 1):
        updates.add_init(root, 16, 9)
    for root in range(count, 0, -1):
        updates.add_ack(root, root)
    sums = xors(updates)
    assert all(value ^ sums.get(root, 0) == 16 ^ root for root, value, _ in inits(updates))
    assert 0 < len(sums) < count


@given(reports, st.integers(1, 7))
def test_split_loses_nothing_and_adds_nothing(given_reports: list[tuple], shards: int) -> None:
    whole = updates_of(given_reports)
    parts = split(updates_of(given_reports), shards)
    assert all(0 <= shard < shards for shard in parts)
    for shard, part in parts.items():
        assert all(root % shards == shard for root in part.roots())
    together: dict[int, int] = {}
    for part in parts.values():
        assert not together.keys() & xors(part).keys()
        together |= xors(part)
    assert together == xors(whole)
    for kind in ("fails", "resets"):
        assert set().union(*(getattr(part, kind) for part in parts.values())) == getattr(whole, kind)
    assert sorted(init for part in parts.values() for init in inits(part)) == sorted(inits(whole))
    assert {root for part in parts.values() for root in part.roots()} == whole.roots()


@given(reports)
def test_updates_survive_the_wire(given_reports: list[tuple]) -> None:
    updates, more = updates_of(given_reports), updates_of([("ack", 5, 6), ("init", 7, 8, 9), ("fail", 10)])
    message = encode(3, [updates, more])
    assert message.shard == 3
    columns = [first + second for first, second in zip(updates.columns(), more.columns(), strict=True)]
    init_roots, init_values, init_tasks, ack_roots, ack_values, fails, resets = columns
    assert (unpack_u64(message.init_roots), unpack_u64(message.init_values)) == (init_roots, init_values)
    assert unpack_u32(message.init_tasks) == init_tasks
    assert (unpack_u64(message.ack_roots), unpack_u64(message.ack_values)) == (ack_roots, ack_values)
    assert (unpack_u64(message.fail_roots), unpack_u64(message.reset_roots)) == (fails, resets)


def test_updates_are_true_when_there_is_something_to_tell() -> None:
    assert not AckUpdates()
    assert all(updates_of([report]) for report in [("ack", 1, 0), ("init", 1, 0, 1), ("fail", 1), ("reset", 1)])
