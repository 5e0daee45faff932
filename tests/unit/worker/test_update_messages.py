"""Updates for an acker leave in messages of bounded size, whatever a topology makes of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tupletree._wire.fail_reasons import MAX_PER_FLUSH, MAX_WAITING_BYTES, FailReason
from tupletree._wire.packed import unpack_u32, unpack_u64
from tupletree._wire.reason_messages import unpacked
from tupletree.worker.core.ack_updates import AckUpdates, encode, split
from tupletree.worker.network.update_messages import count, messages


def updates_of(inits: int, acks: int, fails: int, resets: int, first: int) -> AckUpdates:
    updates = AckUpdates()
    for root in range(first, first + inits):
        updates.add_lone_init(root, root + 1, root + 2)
    for root in range(first, first + acks):
        updates.acks.append(root, root + 3)
    updates.fail(range(first, first + fails), FailReason("step", first))
    updates.resets.update(range(first, first + resets))
    return updates


numbers = st.integers(0, 40)


@given(st.lists(st.tuples(numbers, numbers, numbers, numbers), max_size=3), st.integers(1, 30))
def test_every_update_is_in_one_message_and_none_holds_too_many(shards: list[tuple[int, ...]], most: int) -> None:
    whole = [encode(shard, [updates_of(*counts, first=1000 * shard)]) for shard, counts in enumerate(shards)]
    parted = list(messages(whole, most))
    assert all(sum(map(count, message)) <= most for message in parted)
    if sum(map(count, whole)) <= most:
        assert parted == [whole]
    for given_ in whole:
        parts = [part for message in parted for part in message if part.shard == given_.shard]
        for name in ("init_roots", "init_values", "ack_roots", "ack_values", "fail_roots", "reset_roots"):
            joined = [value for part in parts for value in unpack_u64(getattr(part, name))]
            assert joined == list(unpack_u64(getattr(given_, name)))
        assert [root for part in parts for root in unpacked(part.fail_reasons)] == list(unpacked(given_.fail_reasons))
        assert set(unpacked(given_.fail_reasons)) == set(unpack_u64(given_.fail_roots))
        assert [task for part in parts for task in unpack_u32(part.init_tasks)] == list(unpack_u32(given_.init_tasks))


def test_a_flush_of_millions_of_acks_fits_messages_of_a_few_megabytes() -> None:
    updates = AckUpdates()
    for root in range(1, 400_001):
        updates.acks.append(root, root)
    parted = list(messages([encode(0, [updates])]))
    assert len(parted) > 1
    assert max(part.ByteSize() for message in parted for part in message) < 4 * 1024 * 1024


def test_the_reasons_in_a_message_are_bounded_over_all_shards() -> None:
    whole = []
    for shard in range(30):
        parts = []
        for part in range(5):
            updates = AckUpdates()
            for number in range(MAX_PER_FLUSH):
                root = 1_000_000 * shard + 1_000 * part + number + 1
                updates.fail([root], FailReason("step", 1, f"order {root} " + "x" * 600))
            parts.append(updates)
        whole.append(encode(shard, parts))
    (message,) = messages(whole)
    assert sum(part.ByteSize() for part in message) < 2 * MAX_WAITING_BYTES
    assert len(unpacked(message[0].fail_reasons)) == 5 * MAX_PER_FLUSH
    assert sum(map(count, message)) == 30 * 5 * MAX_PER_FLUSH


def test_reasons_go_to_the_shards_of_their_roots_and_are_few() -> None:
    updates = AckUpdates()
    updates.fail(range(1, 2 * MAX_PER_FLUSH), FailReason("step", 1))
    updates.fail([7_000_001], FailReason("step", 2))
    assert len(updates.reasons) == MAX_PER_FLUSH and len(updates) == 2 * MAX_PER_FLUSH
    parts = split(updates, 3)
    assert {root: part.reasons[root] for part in parts.values() for root in part.reasons} == updates.reasons
    assert all(root % 3 == shard for shard, part in parts.items() for root in part.reasons)
