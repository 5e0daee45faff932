"""A node that is written for the 2^31st time: its version goes on below zero, as ZooKeeper counts."""

from __future__ import annotations

from tupletree._checkpoints.coordinator import Phase
from tupletree._checkpoints.record import Checkpoint, CheckpointRecord, checkpoint_path
from tupletree._stores.memory_nodes import MemoryStore
from tupletree._stores.node_encoding import encode_stored
from tupletree._stores.nodes import Node, next_version
from tupletree.attempt import TransactionAttempt, first_attempt
from tupletree.transactional.layout import partition_path, progress_path
from tupletree.transactional.partition_states import Partitions
from tupletree.transactional.progress import Progress

LAST, FIRST = 2**31 - 1, -(2**31)


def test_versions_are_counted_in_32_bits_with_a_sign() -> None:
    assert [next_version(version) for version in (0, 41, LAST - 1, LAST, FIRST)] == [1, 42, LAST, FIRST, FIRST + 1]


def aged(path: str, data: bytes) -> MemoryStore:
    """A store that holds one node, which was written so often that its next version is the first below zero."""
    store = MemoryStore()
    store._set(path, Node(data, LAST))
    return store


def version(store: MemoryStore, path: str) -> int:
    node = store.get(path)
    assert node is not None
    return node.version


def test_progress_is_recorded_beyond_the_last_version() -> None:
    path = progress_path("t")
    store = aged(path, encode_stored(path, 5, None))
    progress = Progress.take_over(store, "t", "me")
    progress.record(6)
    assert version(store, path) == FIRST
    progress.record(7)
    assert version(store, path) == FIRST + 1


def test_states_of_a_partition_are_written_beyond_the_last_version() -> None:
    path = partition_path("t", 3)
    store = aged(path, encode_stored(path, "kind", {1: "a"}))
    epoch = Progress.take_over(store, "t", "me").epoch
    partitions = Partitions(store, "t", "kind")
    attempt = TransactionAttempt(2, first_attempt(epoch))
    partitions.write(attempt, {3: {2: "b"}})
    partitions.write(attempt, {3: {2: "c"}})
    assert (partitions[3].version, version(store, path)) == (FIRST + 1, FIRST + 1)


def test_a_checkpoint_is_saved_beyond_the_last_version() -> None:
    path = checkpoint_path("s")
    store = aged(path, encode_stored(path, 1, Phase.COMMITTED.value, {}, 0))
    record = CheckpointRecord.take_over(store, "s", "me")
    for txid in (2, 3):
        record.save(Checkpoint(txid))
    assert version(store, path) == FIRST + 1
