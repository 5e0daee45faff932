"""Rotating state: what it plans, what it finds, and that it believes only what the store has taken."""

from __future__ import annotations

from typing import Any

import pytest

from tupletree._stores.memory_nodes import MemoryStore
from tupletree._stores.nodes import Check, Delete, Node, Put, Write
from tupletree.attempt import TransactionAttempt
from tupletree.errors import ConflictError, InternalError, UnregisteredTypeError, UsageError
from tupletree.transactional.progress import load_states
from tupletree.transactional.rotating_state import RotatingState

FOLDER = "/counts/user/0"


def write(store: MemoryStore, states: RotatingState, *writes: Write) -> None:
    store.write(writes)
    states.applied(writes)


def stored(states: dict[int, Any]) -> tuple[MemoryStore, RotatingState]:
    store, rotating = MemoryStore(), RotatingState(FOLDER, {})
    write(store, rotating, *(rotating.plan_create(txid, state) for txid, state in states.items()))
    return store, rotating


def test_a_new_folder_has_no_state() -> None:
    states = load_states(MemoryStore(), FOLDER)
    assert states.txids == []
    assert not states.has(1)
    assert states.get(1) is None
    assert states.previous(1) is None
    assert not states.has_later(0)


@pytest.mark.parametrize(
    "state", [None, 7, "text", b"bytes", [1, [2]], (1, 2), {"offset": 2**70}, {1, 2}, [TransactionAttempt(3, 4), 9]]
)
def test_a_state_is_any_value_and_is_found_again_after_a_restart(state: Any) -> None:
    store, states = stored({5: state})
    assert states.has(5)
    assert states.get(5) == state
    again = load_states(store, FOLDER)
    assert again.has(5)
    assert (again.get(5), type(again.get(5))) == (state, type(state))


def test_the_previous_state_is_the_closest_earlier_one() -> None:
    _, states = stored({2: "two", 9: "nine", 10: "ten"})
    assert [states.previous(txid) for txid in (2, 3, 9, 10, 11)] == [None, "two", "two", "nine", "ten"]
    assert [states.has_later(txid) for txid in (1, 9, 10)] == [True, True, False]


def test_changing_a_state_that_was_looked_up_changes_nothing() -> None:
    _, states = stored({1: {"offset": 1}})
    states.get(1)["offset"] = 2
    states.previous(2)["offset"] = 3
    assert states.get(1) == {"offset": 1}


def test_a_plan_changes_nothing_until_the_store_has_taken_it() -> None:
    _, states = stored({1: "one"})
    states.plan_create(2, "two")
    states.plan_cleanup(9)
    assert (states.txids, states.get(1)) == ([1], "one")


def test_a_state_that_exists_cannot_be_planned_to_be_created() -> None:
    _, states = stored({1: "one"})
    with pytest.raises(ValueError, match="/counts/user/0/1 exists"):
        states.plan_create(1, "other")


def test_cleaning_up_deletes_every_transaction_below() -> None:
    store, states = stored({txid: txid for txid in range(1, 12)})
    write(store, states, *states.plan_cleanup(10))
    assert states.txids == [10, 11]
    assert store.children(FOLDER) == ["10", "11"]
    assert states.plan_cleanup(10) == []


def test_what_somebody_else_created_first_is_a_conflict_and_is_found_by_loading_anew() -> None:
    store, states = stored({1: "one"})
    other = load_states(store, FOLDER)
    write(store, other, other.plan_create(2, "theirs"))
    with pytest.raises(ConflictError, match=r"/counts/user/0/2 "):
        write(store, states, states.plan_create(2, "mine"))
    assert not states.has(2)
    assert load_states(store, FOLDER).get(2) == "theirs"


def test_writes_for_other_folders_are_passed_over() -> None:
    _, states = stored({1: "one"})
    states.applied([Check("/counts/coordinator/epoch", 1), Delete("/counts/user/1/1"), Put(FOLDER, b"", 0)])
    assert states.txids == [1]


def test_a_state_that_no_codec_carries_is_refused_with_its_path() -> None:
    states = RotatingState(FOLDER, {})
    with pytest.raises(UnregisteredTypeError, match="the value for /counts/user/0/3 cannot be encoded"):
        states.plan_create(3, object())


@pytest.mark.parametrize("data", [b"", b"\x92", b"garbage", b"\x92\x01", b"\x92\x00\x01", b"\x92\x01\xc1", b"\xc0\x01"])
def test_garbage_is_an_internal_error_that_names_the_path(data: bytes) -> None:
    with pytest.raises(InternalError, match="/counts/user/0/7"):
        RotatingState(FOLDER, {"7": Node(data, 0)})


@pytest.mark.parametrize("name", ["x", "07", "-1", "", "1 "])
def test_a_name_that_is_no_transaction_is_an_internal_error(name: str) -> None:
    with pytest.raises(InternalError, match=f"/counts/user/0/{name} was not written by Tupletree"):
        RotatingState(FOLDER, {name: Node(b"\x92\x01\x01", 0)})


def test_a_newer_version_is_said_so_even_if_what_it_wrote_cannot_be_decoded() -> None:
    with pytest.raises(UsageError) as refusal:
        RotatingState(FOLDER, {"7": Node(b"\x93\x02\xc1\xc1", 0)})
    assert str(refusal.value) == (
        "/counts/user/0/7 was written by a newer version of Tupletree (format 2, this one reads up to 1); "
        "upgrade, or use another transactional id"
    )
