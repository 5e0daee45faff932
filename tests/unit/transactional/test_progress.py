"""Progress: epochs, what is recorded, and that neither a lost reply nor another coordinator can spoil it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import pytest
from interrupted_store import InterruptedStore, interruptions
from progress_scene import ID, attempt, insist, run_to
from stored_metadata import store_metadata

from tupletree._stores.memory_nodes import MemoryStore
from tupletree._stores.node_encoding import encode_stored
from tupletree._stores.nodes import TRIES, Check, Create, Delete, Node, Put, StateStore, Write
from tupletree.errors import AuthorityError, ConflictError, InternalError, UnavailableError, UsageError
from tupletree.transactional import layout
from tupletree.transactional.progress import Progress
from tupletree.transactional.status import load_status

T = TypeVar("T")


def test_the_first_coordinator_has_epoch_1_and_everything_before_it() -> None:
    progress = Progress.take_over(MemoryStore(), ID, "topology-1 / 1 / host:1")
    assert (progress.epoch, progress.committed, progress.committing, progress.metadata.txids) == (1, 0, (), [])


def test_the_next_coordinator_has_the_next_epoch_and_goes_on_where_the_last_one_was() -> None:
    store = MemoryStore()
    progress = run_to(store, 4)
    for txid in (5, 6):
        store_metadata(progress, txid, [txid])
    progress.record(4, (attempt(5, number=3),))
    following = Progress.take_over(store, ID, "second")
    assert (following.epoch, following.committed, following.committing) == (2, 4, (attempt(5, number=3),))
    assert following.metadata.txids == [4, 5, 6]
    assert following.metadata.previous(5) == "metadata 4"
    assert store_metadata(following, 6, "other") == [6]


def test_metadata_behind_the_commit_is_forgotten_however_many_transactions_there_are() -> None:
    store = MemoryStore()
    progress = run_to(store, 300)
    assert progress.metadata.txids == [300]
    assert store.children(layout.metadata_folder(ID)) == ["300"]


def test_metadata_is_what_a_restart_would_find_not_what_was_handed_in() -> None:
    progress = Progress.take_over(MemoryStore(), ID, "first")
    offsets = {"partition": 1}
    kept = store_metadata(progress, 1, offsets)
    offsets["partition"] = kept["partition"] = 2
    assert store_metadata(progress, 1, "other") == {"partition": 1}


def test_a_deposed_coordinator_writes_nothing_and_hears_who_deposed_it() -> None:
    store = MemoryStore()
    old = run_to(store, 2)
    new = Progress.take_over(store, ID, "count-2 / task 3 / host:77")
    sentence = "another coordinator of transactional id 'global-count' has taken over: count-2 / task 3 / host:77"
    for _ in range(2):
        with pytest.raises(AuthorityError, match=sentence):
            old.record(2, (attempt(3),))
        with pytest.raises(AuthorityError, match=sentence):
            store_metadata(old, 3, "old")
    store_metadata(new, 3, "new")
    new.record(2, (attempt(3, epoch=2),))
    again = Progress.take_over(store, ID, "third")
    assert (again.epoch, again.committing, again.metadata.get(3)) == (3, (attempt(3, epoch=2),), "new")


def test_writes_of_an_emitter_for_an_attempt_of_a_deposed_coordinator_are_refused() -> None:
    store = MemoryStore()
    progress = run_to(store, 1)
    state = Create(layout.partition_path(ID, 0), b"state")
    store.write([layout.epoch_check(ID, attempt(2, progress.epoch)), state])
    Progress.take_over(store, ID, "second")
    with pytest.raises(ConflictError, match="/global-count/coordinator/epoch"):
        store.write([layout.epoch_check(ID, attempt(2, progress.epoch)), Delete(state.path)])


def once(step: Callable[[], T]) -> T:
    return step()


def carry_on(store: StateStore, run: Callable[[Callable[[], Any]], Any]) -> Progress:
    """What a coordinator does up to the end of transaction 4, with two active at a time."""
    progress: Progress = run(lambda: Progress.take_over(store, ID, "first"))
    for txid in range(progress.committed + 1, 5):
        for ahead in (txid, txid + 1):
            kept = run(partial(store_metadata, progress, ahead, f"metadata {ahead}"))
            assert kept == f"metadata {ahead}"
        run(partial(progress.record, txid - 1, (attempt(txid, progress.epoch),)))
        assert (progress.committed, progress.committing) == (txid - 1, (attempt(txid, progress.epoch),))
    run(partial(progress.record, 4))
    return progress


def test_a_coordinator_interrupted_at_any_step_goes_on_as_if_it_had_not_been() -> None:
    for at, lateness in interruptions():
        store = MemoryStore()
        interrupted = InterruptedStore(store, at, lateness)
        progress = carry_on(interrupted, insist)
        found = Progress.take_over(store, ID, "second")
        assert (found.committed, found.committing, found.metadata.txids) == (4, (), [4, 5]), (at, lateness)
        assert found.epoch == progress.epoch + 1
        if not interrupted.interrupted:
            break


def test_a_coordinator_that_dies_at_any_step_is_continued_by_the_next() -> None:
    for at, lateness in interruptions():
        store = MemoryStore()
        interrupted = InterruptedStore(store, at, lateness)
        with suppress(UnavailableError):
            carry_on(interrupted, once)
        carry_on(interrupted, insist)
        found = Progress.take_over(store, ID, "third")
        assert (found.committed, found.committing, found.metadata.txids) == (4, (), [4, 5]), (at, lateness)
        if not interrupted.interrupted:
            break


class Usurped:
    """``store``, in which another coordinator takes over just before operation number ``at``."""

    def __init__(self, store: StateStore, at: int) -> None:
        self.store = store
        self.usurper: Progress | None = None
        self.left_by_usurper: list[Node | None] = []
        self._left = at

    def coordinators_nodes(self) -> list[Node | None]:
        txids = self.store.children(layout.metadata_folder(ID))
        paths = [layout.epoch_path(ID), layout.progress_path(ID)]
        return [self.store.get(path) for path in (*paths, *(f"{layout.metadata_folder(ID)}/{txid}" for txid in txids))]

    def get(self, path: str) -> Node | None:
        self._operate()
        return self.store.get(path)

    def children(self, path: str) -> list[str]:
        self._operate()
        return self.store.children(path)

    def write(self, writes: Sequence[Write]) -> None:
        self._operate()
        self.store.write(writes)

    def close(self) -> None:
        self.store.close()

    def _operate(self) -> None:
        self._left -= 1
        if self._left == -1:
            self.usurper = Progress.take_over(self.store, ID, "second")
            self.left_by_usurper = self.coordinators_nodes()


def test_whoever_takes_over_at_any_step_ends_the_authority_of_the_other_for_good() -> None:
    for at in range(1000):
        store = Usurped(MemoryStore(), at)
        try:
            progress = carry_on(store, once)
        except AuthorityError as error:
            assert str(error).endswith("has taken over: second"), at
            assert store.coordinators_nodes() == store.left_by_usurper, at
            assert store.usurper is not None
            store.usurper.record(store.usurper.committed)
        else:
            if store.usurper is None:
                break
            assert progress.epoch > store.usurper.epoch, at  # it was first to take over, and then the other
            with pytest.raises(AuthorityError, match="has taken over: first"):
                store.usurper.record(4)


def test_a_node_that_somebody_else_changed_is_read_again_and_written() -> None:
    store = MemoryStore()
    progress = run_to(store, 3)
    store.write([Delete(layout.progress_path(ID)), Delete(f"{layout.metadata_folder(ID)}/3")])
    progress.record(4)
    assert Progress.take_over(store, ID, "second").committed == 4


class Contended:
    """A store in which somebody else is always first."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.writes = 0

    def get(self, path: str) -> Node | None:
        return self.store.get(path)

    def children(self, path: str) -> list[str]:
        return self.store.children(path)

    def write(self, writes: Sequence[Write]) -> None:
        self.writes += 1
        raise ConflictError("somebody was first")

    def close(self) -> None:
        self.store.close()


def test_who_is_never_first_gives_up_after_a_bounded_number_of_tries() -> None:
    store = Contended()
    with pytest.raises(ConflictError, match="other coordinators keep taking over transactional id 'global-count'"):
        Progress.take_over(store, ID, "first")
    assert store.writes == TRIES
    progress = Progress.take_over(store.store, ID, "first")
    contended = Progress(store, ID, progress.epoch)
    with pytest.raises(ConflictError, match="keeps changing: another writer is active"):
        contended.record(1)
    assert store.writes == 2 * TRIES


def test_metadata_comes_in_order_without_a_gap() -> None:
    store = MemoryStore()
    progress = run_to(store, 3)
    with pytest.raises(InternalError, match="transaction 5 cannot begin: its predecessor has no metadata"):
        store_metadata(progress, 5, "five")
    with pytest.raises(InternalError, match="transaction 2 was begun before, but its metadata is gone"):
        store_metadata(progress, 2, "two")
    for txid in (4, 5):
        store_metadata(progress, txid, txid)
    store.write([Delete(f"{layout.metadata_folder(ID)}/4")])
    with pytest.raises(InternalError, match="transaction 4 was begun before, but its metadata is gone"):
        store_metadata(Progress.take_over(store, ID, "second"), 4, "four")


def test_what_is_committed_stays_committed() -> None:
    progress = run_to(MemoryStore(), 3)
    with pytest.raises(InternalError, match="the last commit cannot go from 3 to 2"):
        progress.record(2, (attempt(3),))


def test_metadata_that_is_too_large_is_refused_with_its_path_and_leaves_the_rest_usable() -> None:
    progress = run_to(MemoryStore(), 1)
    with pytest.raises(UsageError, match=r"^/global-count/coordinator/meta/2 would take 1,500,0\d\d bytes"):
        store_metadata(progress, 2, b"x" * 1_500_000)
    assert store_metadata(progress, 2, "small") == "small"


@pytest.mark.parametrize("path", [layout.epoch_path(ID), layout.progress_path(ID), f"{layout.metadata_folder(ID)}/3"])
def test_progress_of_a_newer_version_is_refused(path: str) -> None:
    store = MemoryStore()
    run_to(store, 3)
    node = store.get(path)
    assert node is not None
    store.write([Put(path, b"\x92\x02\xc1", node.version)])
    with pytest.raises(UsageError, match=f"^{path} was written by a newer version of Tupletree \\(format 2, this one"):
        Progress.take_over(store, ID, "second")


def test_a_newer_version_that_runs_is_not_disturbed_by_the_refusal() -> None:
    store = MemoryStore()
    store.write([Create(layout.epoch_path(ID), b"\x92\x02\xc1")])
    with pytest.raises(UsageError, match="newer version"):
        Progress.take_over(store, ID, "second")
    store.write([Check(layout.epoch_path(ID), 0)])


def test_who_is_deposed_by_a_newer_version_stands_down_like_everybody() -> None:
    store = MemoryStore()
    progress = run_to(store, 1)
    store.write([Put(layout.epoch_path(ID), b"\x92\x02\xc1", progress.epoch)])
    with pytest.raises(AuthorityError, match="has taken over: a newer version"):
        progress.record(1)


def test_a_group_is_recorded_with_every_attempt_in_it() -> None:
    store = MemoryStore()
    progress = run_to(store, 4)
    group = (attempt(5, number=7), attempt(6, number=9), attempt(7, number=10))
    progress.record(4, group)
    assert progress.committing == group
    assert Progress.take_over(store, ID, "second").committing == group
    assert load_status(store, ID).committing == group[0]


@pytest.mark.parametrize(
    "value", [["x", None], [1, [2]], [1], [None, None], [1, "2"], [1, None, [2]], [1, [2, 3], ["4"]], [1, [2, 3], 4]]
)
def test_progress_that_is_none_is_an_internal_error_that_names_the_path(value: list[Any]) -> None:
    store = MemoryStore()
    path = layout.progress_path(ID)
    store.write([Create(path, encode_stored(path, *value))])
    with pytest.raises(InternalError, match=f"{path} does not hold "):
        Progress.take_over(store, ID, "first")


class Overtaken(InterruptedStore):
    """A store at which, before operation number ``at``, somebody else takes over and commits three transactions."""

    def _operate(self, writes: Sequence[Write] = ()) -> None:
        self._operation += 1
        if self._operation == self._at:
            self.interrupted = True
            run_to(self.store, 7)


def test_a_coordinator_that_is_overtaken_while_it_reads_finds_out_instead_of_taking_two_moments_for_one() -> None:
    for at in range(1000):
        store = MemoryStore()
        run_to(store, 4)
        overtaken = Overtaken(store, at)
        try:
            progress = Progress.take_over(overtaken, ID, "second")
        except AuthorityError as error:
            assert str(error).endswith("has taken over: first"), at
        else:
            assert progress.committed in progress.metadata.txids, at
        if not overtaken.interrupted:
            break
