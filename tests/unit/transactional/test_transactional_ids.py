"""Transactional ids: names that an id may have, and forgetting the progress of an id."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

import pytest
from interrupted_store import InterruptedStore, interruptions
from progress_scene import ID, insist, run_to

from tupletree._stores.memory_nodes import MemoryStore
from tupletree._stores.nodes import Create
from tupletree.errors import AuthorityError, UnavailableError, UsageError
from tupletree.transactional import layout
from tupletree.transactional.progress import Progress, forget
from tupletree.transactional.status import load_status, transactional_ids


def test_a_forgotten_id_begins_anew_and_others_stay() -> None:
    store = MemoryStore()
    old = run_to(store, 5)
    store.write([Create(layout.partition_path(ID, partition)) for partition in range(3)])
    other = Progress.take_over(store, f"{ID}-2", "other")
    for _ in range(2):
        forget(store, ID)
        assert store.children("/") == [f"{ID}-2"]
    with pytest.raises(AuthorityError, match="the progress of transactional id 'global-count' was removed"):
        old.record(5)
    new = Progress.take_over(store, ID, "new")
    assert (new.epoch, new.committed, new.metadata.txids) == (1, 0, [])
    other.record(0)


def test_forgetting_that_is_interrupted_at_any_step_is_done_by_calling_it_again() -> None:
    for at, lateness in interruptions():
        interrupted = InterruptedStore(MemoryStore(), at, lateness)
        run_to(interrupted.store, 2)
        insist(partial(forget, interrupted, ID))
        assert interrupted.store.get(f"/{ID}") is None
        if not interrupted.interrupted:
            break


def test_an_id_that_is_forgotten_in_part_is_known_and_its_coordinator_writes_nothing() -> None:
    for at, _ in interruptions():
        interrupted = InterruptedStore(MemoryStore(), at)
        store = interrupted.store
        old = run_to(store, 2)
        store.write([Create(layout.partition_path(ID, 0))])
        with suppress(UnavailableError):
            forget(interrupted, ID)
        if not interrupted.interrupted:
            break
        has_begun = store.get(layout.partition_path(ID, 0)) is None
        if has_begun:
            with pytest.raises(AuthorityError):
                old.record(2)
        if store.get(layout.progress_path(ID)) is None:
            assert Progress.take_over(store, ID, "new").committed == 0
        else:
            assert transactional_ids(store) == [ID]
            assert not has_begun or load_status(store, ID).owner == "none: forgotten in part, repeat --forget"


@pytest.mark.parametrize("name", ["global-count", "wörter zählen", "数", "...", "a.b:c@d%2F", "Zookeeper"])
def test_an_id_may_be_any_name(name: str) -> None:
    layout.check_id(name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "zookeeper",
        "a/b",
        "/",
        "a\n",
        "a\x00",
        "\x7f",
        "\ud800",
        "\ue000",
        "😀",
    ],
)
def test_an_id_that_cannot_be_the_name_of_a_node_is_refused(name: str) -> None:
    for refuse in (
        layout.check_id,
        lambda id: Progress.take_over(MemoryStore(), id, "x"),
        partial(forget, MemoryStore()),
    ):
        with pytest.raises(UsageError, match="transactional id"):
            refuse(name)


@pytest.mark.parametrize("name", ["$states", "$checkpoints"])
def test_the_states_of_all_topologies_are_not_forgotten_as_if_they_were_one(name: str) -> None:
    store = MemoryStore()
    store.write([Create(f"/{name}"), Create(f"/{name}/a")])
    with pytest.raises(UsageError, match="of all topologies"):
        forget(store, name)
    assert store.children(f"/{name}") == ["a"]
