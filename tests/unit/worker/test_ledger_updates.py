"""What a run loop tells the ackers: combined for each root, split among shards without a loss."""

from __future__ import annotations

from functools import reduce
from operator import xor

from hypothesis import given, settings
from hypothesis import strategies as st

from tupletree._wire.packed import unpack_u32, unpack_u64
from tupletree.worker.tracking import Updates, encode, split

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


def updates_of(given_reports: list[tuple]) -> Updates:
    updates = Updates()
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


@settings(max_examples=100, deadline=None)
@given(reports)
def test_acks_of_one_root_are_one_xor(given_reports: list[tuple]) -> None:
    values: dict[int, list[int]] = {}
    for report in given_reports:
        if report[0] == "ack":
            values.setdefault(report[1], []).append(report[2])
    assert updates_of(given_reports).acks == {root: reduce(xor, items, 0) for root, items in values.items()}


@settings(max_examples=100, deadline=None)
@given(reports, st.integers(1, 7))
def test_split_loses_nothing_and_adds_nothing(given_reports: list[tuple], shards: int) -> None:
    whole = updates_of(given_reports)
    parts = split(updates_of(given_reports), shards)
    assert all(0 <= shard < shards for shard in parts)
    for shard, part in parts.items():
        assert all(root % shards == shard for root in part.roots())
    together = Updates()
    for part in parts.values():
        assert not together.acks.keys() & part.acks.keys()
        together.acks |= part.acks
        together.fails |= part.fails
        together.resets |= part.resets
    assert (together.acks, together.fails, together.resets) == (whole.acks, whole.fails, whole.resets)
    inits = [
        init for part in parts.values() for init in zip(part.init_roots, part.init_values, part.init_tasks, strict=True)
    ]
    assert sorted(inits) == sorted(zip(whole.init_roots, whole.init_values, whole.init_tasks, strict=True))
    assert {root for part in parts.values() for root in part.roots()} == whole.roots()


@settings(max_examples=100, deadline=None)
@given(reports)
def test_updates_survive_the_wire(given_reports: list[tuple]) -> None:
    updates = updates_of(given_reports)
    message = encode(3, updates)
    assert message.shard == 3
    assert list(unpack_u64(message.init_roots)) == updates.init_roots
    assert list(unpack_u64(message.init_values)) == updates.init_values
    assert list(unpack_u32(message.init_tasks)) == updates.init_tasks
    acks = dict(zip(unpack_u64(message.ack_roots), unpack_u64(message.ack_values), strict=True))
    assert acks == updates.acks
    assert set(unpack_u64(message.fail_roots)) == updates.fails
    assert set(unpack_u64(message.reset_roots)) == updates.resets


def test_updates_are_true_when_there_is_something_to_tell() -> None:
    assert not Updates()
    assert all(updates_of([report]) for report in [("ack", 1, 0), ("init", 1, 0, 1), ("fail", 1), ("reset", 1)])
