"""The checkpoint's own transaction: compare-and-set under an epoch."""

from __future__ import annotations

import pytest

from tupletree._checkpoints.coordinator import Phase
from tupletree._checkpoints.record import (
    Checkpoint,
    CheckpointRecord,
    checkpoint_path,
    epoch_path,
    load_checkpoint,
    state_ids,
)
from tupletree._checkpoints.settings import check_state_id
from tupletree._stores.memory_nodes import MemoryStore
from tupletree._stores.node_encoding import encode_stored
from tupletree._stores.nodes import Create, Delete, DeposedError, Put
from tupletree._wire.names import topology_name
from tupletree.errors import AuthorityError, InternalError, NotFoundError, UnavailableError, UsageError
from tupletree.transactional.status import transactional_ids

SOME = Checkpoint(7, Phase.COMMITTING, {"count": 3})
MOVED = Checkpoint(7, Phase.COMMITTING, {"count": 3}, 5, {"count": 4})
MIGRATED = Checkpoint(7, Phase.COMMITTING, {"count": 3}, 5, {}, {"count": 2})


def take_over(store, owner="me"):
    return CheckpointRecord.take_over(store, "words", owner)


def test_the_first_checkpoint_spout_finds_nothing():
    record = take_over(MemoryStore())
    assert (record.epoch, record.checkpoint) == (1, Checkpoint())


@pytest.mark.parametrize("saved", [SOME, MOVED, MIGRATED])
def test_a_successor_finds_what_was_saved(saved):
    store = MemoryStore()
    take_over(store).save(saved)
    successor = take_over(store)
    assert (successor.epoch, successor.checkpoint) == (2, saved)
    assert load_checkpoint(store, "words") == (saved, 2, "me")
    assert state_ids(store) == ["words"]


def test_what_is_older_is_named_with_its_version_and_what_is_newer_is_refused():
    stored = Checkpoint(7, Phase.COMMITTED, {"a": 1, "b": 1, "c": 1, "gone": 1}, 1, {}, {"b": 2, "gone": 9})
    assert stored.older_states(["a", "b", "c", "new"], {"a": 3, "b": 2, "new": 4}) == [("a", 1)]
    assert stored.older_states(["b"], {"b": 5}) == [("b", 2)]
    with pytest.raises(UsageError, match=r"'b' was stored by its state_version 2, and this code, which has .* 1,"):
        stored.older_states(["a", "b"], {"a": 3})


def test_a_deposed_one_writes_nothing_and_learns_by_whom():
    store = MemoryStore()
    first = take_over(store, "the first")
    first.save(SOME)
    second = take_over(store, "the second")
    with pytest.raises(DeposedError, match="'words' has taken over: the second"):
        first.save(Checkpoint(8))
    assert second.checkpoint == SOME
    second.save(Checkpoint(8))
    with pytest.raises(DeposedError):
        first.save(Checkpoint(9))
    assert load_checkpoint(store, "words")[0] == Checkpoint(8)


class LosesReplies:
    """A store that does what it is asked to, and says that it cannot be reached."""

    def __init__(self, store):
        self.store = store
        self.is_losing = False

    def get(self, path):
        return self.store.get(path)

    def write(self, writes):
        self.store.write(writes)
        if self.is_losing:
            self.is_losing = False
            raise UnavailableError("the reply was lost")


def test_a_write_whose_reply_was_lost_is_repeated_without_harm():
    store = LosesReplies(MemoryStore())
    record = take_over(store)
    for checkpoint in (SOME, Checkpoint(8, Phase.PREPARING), Checkpoint(7)):
        store.is_losing = True
        with pytest.raises(UnavailableError):
            record.save(checkpoint)
        record.save(checkpoint)
        assert load_checkpoint(store, "words")[0] == checkpoint


def test_an_id_that_was_removed_under_it_ends_its_authority():
    store = MemoryStore()
    record = take_over(store)
    record.save(SOME)
    store.write([Delete(checkpoint_path("words")), Delete(epoch_path("words"))])
    with pytest.raises(AuthorityError, match="were removed"):
        record.save(SOME)
        record.save(Checkpoint(8))


def test_what_a_newer_version_wrote_is_not_taken_over():
    store = MemoryStore()
    take_over(store)
    node = store.get(epoch_path("words"))
    newer = encode_stored(epoch_path("words"), "me").replace(b"\x92\x01", b"\x92\x02", 1)
    store.write([Put(epoch_path("words"), newer, node.version)])
    with pytest.raises(UsageError, match="newer version"):
        take_over(store)
    assert store.get(epoch_path("words")).version == node.version + 1


def test_something_else_in_its_place_is_an_error_that_names_it():
    store = MemoryStore()
    take_over(store)
    path = checkpoint_path("words")
    store.write([Create(path, encode_stored(path, "no checkpoint"))])
    with pytest.raises(InternalError, match=r"/\$checkpoints/words/checkpoint does not hold "):
        take_over(store)


def test_an_unknown_id_is_named_with_those_that_are_known():
    store = MemoryStore()
    take_over(store)
    with pytest.raises(NotFoundError, match="no checkpoint is stored for state id 'other'; known: words"):
        load_checkpoint(store, "other")


def test_checkpoints_are_none_of_the_transactional_ids():
    store = MemoryStore()
    take_over(store)
    assert transactional_ids(store) == []


@pytest.mark.parametrize("id", ["words", "a.b-c_9"])
def test_a_state_id_is_a_plain_name(id):
    check_state_id(id)


@pytest.mark.parametrize("id", ["", "a/b", ".hidden", "with space", "é"])
def test_other_state_ids_are_refused(id):
    with pytest.raises(UsageError, match=r"topology\.state\.id"):
        check_state_id(id)


@pytest.mark.parametrize(
    ("id", "name"), [("words-12-1700000000", "words"), ("a-b-1-2", "a-b"), ("words", "words"), ("a-b-c", "a-b-c")]
)
def test_states_are_kept_under_the_name_of_their_topology(id, name):
    assert topology_name(id) == name


def test_who_has_a_doubt_finds_its_successor_without_writing_anything():
    store = MemoryStore()
    first = take_over(store, "the first")
    take_over(store, "the second")
    first.refresh()
    first.doubt()
    with pytest.raises(DeposedError, match="the second"):
        first.refresh()
