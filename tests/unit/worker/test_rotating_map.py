"""RotatingMap: an entry expires after exactly `buckets` rotations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tupletree.errors import UsageError
from tupletree.worker.rotating_map import RotatingMap


@pytest.mark.parametrize("buckets", [2, 3, 5])
def test_an_entry_expires_with_exactly_the_nth_rotation(buckets: int) -> None:
    pending: RotatingMap[str, int] = RotatingMap(buckets)
    pending.put("a", 1)
    for _ in range(buckets - 1):
        assert pending.rotate() == {}
        assert "a" in pending
    assert pending.rotate() == {"a": 1}
    assert "a" not in pending
    assert len(pending) == 0


@pytest.mark.parametrize("buckets", [2, 3])
@pytest.mark.parametrize("phase", [0.0, 0.25, 0.999])
def test_the_expiry_window_in_seconds(buckets: int, phase: float) -> None:
    """Rotated at 1, 2, 3, ... seconds, an entry put at `phase` lives more than N-1 and at most N seconds."""
    pending: RotatingMap[str, int] = RotatingMap(buckets)
    pending.put("a", 1)
    now = 0
    while "a" in pending:
        now += 1
        pending.rotate()
    assert buckets - 1 < now - phase <= buckets


@pytest.mark.parametrize("already", [0, 1, 2])
def test_a_second_put_resets_the_countdown_wherever_the_entry_was(already: int) -> None:
    pending: RotatingMap[str, int] = RotatingMap(3)
    pending.put("a", 1)
    for _ in range(already):
        pending.rotate()
    pending.put("a", 2)
    assert len(pending) == 1
    assert [pending.rotate() for _ in range(3)] == [{}, {}, {"a": 2}]


def test_looking_does_not_make_an_entry_younger() -> None:
    pending: RotatingMap[str, int] = RotatingMap(2)
    pending.put("a", 1)
    pending.rotate()
    assert pending.get("a") == 1
    assert pending.rotate() == {"a": 1}


def test_get_and_pop_of_an_absent_key_give_the_default() -> None:
    pending: RotatingMap[str, int] = RotatingMap(2)
    assert pending.get("a") is None
    assert pending.get("a", 7) == 7
    assert pending.pop("a") is None
    assert pending.pop("a", 7) == 7


def test_pop_takes_the_entry_out_of_an_older_bucket() -> None:
    pending: RotatingMap[str, int] = RotatingMap(3)
    pending.put("a", 1)
    pending.rotate()
    assert pending.pop("a") == 1
    assert pending.rotate() == {}
    assert pending.rotate() == {}


def test_what_is_set_in_the_youngest_bucket_expires_like_what_was_put() -> None:
    aged: RotatingMap[str, int] = RotatingMap(2)
    buckets = aged.buckets
    buckets[0]["a"] = 1
    assert aged.rotate() == {}
    buckets[0]["b"] = 2
    assert aged.rotate() == {"a": 1}
    assert list(aged) == ["b"]
    assert aged.clear() == {"b": 2}
    buckets[0]["c"] = 3
    assert list(aged) == ["c"]


def test_many_keys_are_popped_in_their_order_from_whatever_bucket() -> None:
    aged: RotatingMap[str, int] = RotatingMap(3)
    aged.put("a", 1)
    aged.rotate()
    aged.put("b", 2)
    aged.rotate()
    aged.put("c", 3)
    assert aged.pop_many(["b", "missing", "c", "a", "b"]) == [2, 3, 1]
    assert len(aged) == 0


def test_expired_entries_come_in_the_order_of_their_last_put() -> None:
    pending: RotatingMap[str, int] = RotatingMap(2)
    for key in "abc":
        pending.put(key, 0)
    pending.put("a", 1)
    assert list(pending) == ["b", "c", "a"]
    pending.rotate()
    pending.put("b", 2)
    assert list(pending.items()) == [("c", 0), ("a", 1), ("b", 2)]
    assert list(pending.rotate()) == ["c", "a"]


def test_clear_returns_everything_oldest_first() -> None:
    pending: RotatingMap[str, int] = RotatingMap(3)
    pending.put("a", 1)
    pending.rotate()
    pending.put("b", 2)
    assert list(pending.clear().items()) == [("a", 1), ("b", 2)]
    assert len(pending) == 0
    assert pending.rotate() == {}


def test_fewer_than_two_buckets_are_refused() -> None:
    with pytest.raises(UsageError, match="at least 2 buckets"):
        RotatingMap(1)


@given(
    st.integers(2, 4),
    st.lists(st.one_of(st.tuples(st.just("put"), st.integers(0, 9)), st.just("rotate"), st.just("pop")), max_size=60),
)
def test_it_agrees_with_a_map_of_remaining_rotations(buckets: int, steps: list[object]) -> None:
    pending: RotatingMap[int, int] = RotatingMap(buckets)
    left: dict[int, int] = {}
    for number, step in enumerate(steps):
        match step:
            case ("put", int(key)):
                pending.put(key, number)
                left[key] = buckets
            case "rotate":
                expired = pending.rotate()
                left = {key: rotations - 1 for key, rotations in left.items()}
                assert set(expired) == {key for key, rotations in left.items() if rotations == 0}
                left = {key: rotations for key, rotations in left.items() if rotations}
            case "pop":
                assert (pending.pop(0) is None) == (left.pop(0, None) is None)
        assert set(pending) == set(left)
        assert len(pending) == len(left)
