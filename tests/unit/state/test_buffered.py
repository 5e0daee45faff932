"""What a buffered state asks of its backend: no more than it must."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from tupletree._wire.codec import encode_value
from tupletree.errors import UnavailableError, UsageError
from tupletree.state.buffered import BufferedState, Changes
from tupletree.state.memory import MemoryBackend, Namespace


class Recorded(MemoryBackend):
    """A backend in memory that keeps a record of what it is asked, and fails if it is told to."""

    def __init__(self) -> None:
        super().__init__("words", Namespace())
        self.reads: list[bytes] = []
        self.writes: list[Changes] = []
        self.is_away = False

    def get(self, key: bytes) -> bytes | None:
        self.reads.append(key)
        self._fail()
        return super().get(key)

    def scan(self) -> Iterator[Iterable[tuple[bytes, bytes]]]:
        self._fail()
        yield from super().scan()

    def prepare(self, txid: int, changes: Changes) -> None:
        self.writes.append(changes)
        self._fail()
        super().prepare(txid, changes)

    def commit(self, txid: int) -> None:
        self._fail()
        super().commit(txid)

    def rollback(self) -> None:
        self._fail()
        super().rollback()

    def _fail(self) -> None:
        if self.is_away:
            raise UnavailableError("the store is away")


@pytest.fixture
def backend() -> Recorded:
    return Recorded()


@pytest.fixture
def state(backend: Recorded) -> BufferedState[Any, Any]:
    return BufferedState("words", backend)


def checkpoint(state: BufferedState[Any, Any], txid: int) -> None:
    state.prepare_commit(txid)
    state.commit(txid)


def test_a_state_that_began_empty_asks_for_no_key_until_it_has_forgotten_one(backend: Recorded) -> None:
    state: BufferedState[Any, Any] = BufferedState("words", backend, cache_entries=10)
    for txid in range(1, 10):
        assert state.get(txid) is None
        state.put(txid, txid)
        checkpoint(state, txid)
    assert [state.get(number) for number in range(12)] == [None, *range(1, 10), None, None]
    assert backend.reads == []
    for number in range(20, 40):
        state.put(number, number)
    checkpoint(state, 10)
    assert [state.get(number) for number in range(12)] == [None, *range(1, 10), None, None]
    assert len(backend.reads) == 12


def test_after_a_rollback_committed_values_are_asked_for_again(
    state: BufferedState[Any, Any], backend: Recorded
) -> None:
    state.put("word", 1)
    state.rollback()
    assert state.get("word") is None
    assert backend.reads == []  # nothing is committed
    state.put("word", 1)
    checkpoint(state, 1)
    state.rollback()
    assert (state.get("word"), state.get("other")) == (1, None)
    assert len(backend.reads) == 2


def test_a_key_is_read_once_whether_it_is_there_or_not(backend: Recorded) -> None:
    checkpoint(BufferedState("words", backend), 1)
    state: BufferedState[Any, Any] = BufferedState("words", backend)
    for _ in range(3):
        assert state.get("word") is None
        state.delete("deleted")
        assert state.get("deleted") is None
        state.put("put", 1)
        assert state.get("put") == 1
    assert backend.reads == [encode_value("word")]
    checkpoint(state, 2)
    assert state.get("put") == 1
    assert len(backend.reads) == 1
    state.rollback()
    assert [state.get("put"), state.get("put")] == [1, 1]
    assert len(backend.reads) == 2


def test_a_checkpoint_writes_what_changed_and_nothing_else(state: BufferedState[Any, Any], backend: Recorded) -> None:
    for number in range(1_000):
        state.put(number, 1)
    checkpoint(state, 1)
    state.put(7, 2)
    state.put(7, 3)
    state.delete(8)
    state.get(9)
    checkpoint(state, 2)
    checkpoint(state, 3)
    assert [len(changes) for changes in backend.writes] == [1_000, 2, 0]
    assert backend.writes[1] == {encode_value(7): encode_value(3), encode_value(8): None}


def test_what_changes_while_it_is_prepared_is_written_next(state: BufferedState[Any, Any], backend: Recorded) -> None:
    state.put("a", 1)
    state.put("b", 1)
    state.prepare_commit(1)
    state.put("a", 2)
    state.commit(1)
    checkpoint(state, 2)
    assert backend.writes[1] == {encode_value("a"): encode_value(2)}


@pytest.mark.parametrize("limit", [1, 2, 10, 99])
def test_no_more_clean_values_are_kept_than_asked_for(backend: Recorded, limit: int) -> None:
    state: BufferedState[Any, Any] = BufferedState("words", backend, cache_entries=limit)
    for number in range(200):
        state.put(number, number)
    assert len(state._live) == 200  # none of them is stored yet
    state.prepare_commit(1)
    for number in range(300):
        state.get(number)
        assert len(state._values) <= 200 + limit
    assert dict(state.items()) == {number: number for number in range(200)}
    assert not any(encode_value(number) in backend.reads for number in range(200))
    state.put("live", 1)
    state.commit(1)
    assert len(state._values) <= 1 + limit
    for number in range(300):
        state.get(number)
        assert len(state._values) <= 1 + limit
    assert state.get("live") == 1


def test_values_that_changed_and_are_not_committed_are_never_forgotten(backend: Recorded) -> None:
    state: BufferedState[Any, Any] = BufferedState("words", backend, cache_entries=1)
    for number in range(10):
        state.put(number, 1)
    checkpoint(state, 1)
    for number in range(10):
        state.put(number, 2)
    state.prepare_commit(2)
    for number in range(5):
        state.put(number, 3)
        state.get(("other", number))
    assert [state.get(number) for number in range(10)] == [3] * 5 + [2] * 5


def test_while_the_store_is_away_nothing_is_lost(backend: Recorded) -> None:
    checkpoint(BufferedState("words", backend), 1)
    state: BufferedState[Any, Any] = BufferedState("words", backend)
    state.put("word", 1)
    backend.is_away = True
    for step in (
        lambda: state.prepare_commit(2),
        state.rollback,
        lambda: state.get("other"),
        lambda: list(state.items()),
    ):
        with pytest.raises(UnavailableError):
            step()
    assert (state.get("word"), state.prepared) == (1, None)
    backend.is_away = False
    state.prepare_commit(2)
    backend.is_away = True
    with pytest.raises(UnavailableError):
        state.commit(2)
    assert (state.committed, state.prepared) == (1, 2)
    backend.is_away = False
    state.commit(2)
    assert backend.committed == 2


def test_a_failed_prepare_is_repeated_with_what_changed_since(
    state: BufferedState[Any, Any], backend: Recorded
) -> None:
    state.put("a", 1)
    backend.is_away = True
    with pytest.raises(UnavailableError):
        state.prepare_commit(1)
    backend.is_away = False
    state.put("b", 1)
    checkpoint(state, 1)
    assert backend.writes[-1].keys() == {encode_value("a"), encode_value("b")}


def test_a_value_that_cannot_be_read_is_named(backend: Recorded) -> None:
    backend.prepare(1, {encode_value("word"): b"\xc7\x00\x70"})  # an extension that nobody registered
    backend.commit(1)
    state: BufferedState[Any, Any] = BufferedState("words", backend)
    for step in (lambda: state.get("word"), lambda: list(state.items())):
        with pytest.raises(UsageError, match=r"state 'words', key 'word': the stored value cannot be decoded: .*112"):
            step()


def test_half_a_character_is_no_key_that_can_be_written(state: BufferedState[Any, Any]) -> None:
    state.put("\ud800", 1)
    with pytest.raises(UsageError, match=r"state 'words': key '.*ud800' cannot be written"):
        state.prepare_commit(1)


def test_a_key_that_changed_again_has_its_newest_value(backend: Recorded) -> None:
    state: BufferedState[Any, Any] = BufferedState("words", backend, cache_entries=1)
    state.put("a", 1)
    state.put("gone", 1)
    checkpoint(state, 1)
    state.put("a", None)
    state.delete("gone")
    for number in range(3):  # more clean values than are kept: those before the changes are forgotten
        state.get(number)
    assert (state.get("a", "absent"), "gone" in state, dict(state.scan())) == (None, False, {"a": None})
    state.prepare_commit(2)
    state.put("gone", 2)
    assert dict(state.scan()) == {"a": None, "gone": 2}
    state.commit(2)
    state.rollback()
    assert dict(state.scan()) == {"a": None}
