"""The trees that a spout waits for: the packed table and the dictionaries are one and the same to whoever uses them."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tupletree.worker.trees import FIRST_ROOM, PackedTrees, RotatingTrees

Trees = PackedTrees | RotatingTrees
TABLES = [PackedTrees, RotatingTrees]

# Few roots, so that steps meet; some of them are first looked for at one and the same place of the index, or its last.
roots = st.sampled_from([*range(1, 12), *(place << 40 | low for place in range(1, 6) for low in (0, 1, 127))])
steps = st.one_of(
    st.tuples(st.sampled_from(["put", "pop", "get"]), roots),
    st.tuples(st.just("pop_many"), st.lists(roots, max_size=5)),
    st.tuples(st.just("rotate"), st.none()),
    st.tuples(st.just("burst"), st.integers(1, 3 * FIRST_ROOM)),
)


def do(trees: Trees, step: str, argument: Any, number: int) -> Any:
    """One step; what is put is told apart by the number of the step."""
    match step:
        case "put":
            return trees.put(argument, ("entry", number))
        case "rotate":
            return list(trees.rotate().items())
        case "burst":  # new roots, half of which end at once
            fresh = [1 << 60 | number << 16 | at for at in range(argument)]
            for root in fresh:
                trees.add(root, root)
            return trees.pop_many(fresh[::2])
        case _:
            return getattr(trees, step)(argument)


@given(st.lists(steps, max_size=60))
def test_both_tables_do_the_same(history: list[tuple[str, Any]]) -> None:
    packed, rotating = PackedTrees(), RotatingTrees()
    for number, (step, argument) in enumerate(history):
        assert do(packed, step, argument, number) == do(rotating, step, argument, number)
        assert (list(packed), packed.oldest(), len(packed)) == (list(rotating), rotating.oldest(), len(rotating))
        assert bool(packed) == bool(rotating)


@pytest.mark.parametrize("table", TABLES)
def test_what_is_not_put_again_is_forgotten_by_the_second_rotation(table: type[Trees]) -> None:
    trees = table()
    trees.add(1, "a")
    trees.add(2, "b")
    assert trees.rotate() == {}
    trees.put(2, "b again")
    assert trees.oldest() == [1]
    assert trees.rotate() == {1: "a"}
    assert trees.get(2) == "b again"
    assert trees.rotate() == {2: "b again"}
    assert len(trees) == 0


@pytest.mark.parametrize("table", TABLES)
def test_trees_come_in_the_order_of_their_last_put_and_end_in_any(table: type[Trees]) -> None:
    trees, rng = table(), random.Random(3)
    order = [rng.getrandbits(64) | 1 for _ in range(20_000)]
    for root in order[:10_000]:
        trees.add(root, root)
    assert trees.rotate() == {}
    for root in order[10_000:]:
        trees.add(root, root)
    ended = set(rng.sample(order, 15_000))
    assert trees.pop_many(ended) == list(ended)
    left = [root for root in order if root not in ended]
    assert list(trees) == left
    assert [trees.get(root) for root in left] == left
    assert list(trees.rotate()) == [root for root in order[:10_000] if root not in ended]
    assert [trees.pop(root) for root in order[10_000:] if root not in ended] == [
        root for root in order[10_000:] if root not in ended
    ]
    assert not trees


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("unknown", [0, 7, 2**64 - 1])
def test_an_unknown_root_is_no_tree(table: type[Trees], unknown: int) -> None:
    trees = table()
    trees.add(9, "a")
    trees.add(8, "ended")
    assert trees.pop(8) == "ended"  # which leaves a trace in the packed table
    assert trees.pop(8) is None
    assert trees.get(unknown) is None
    assert trees.pop(unknown) is None
    assert trees.pop_many([unknown, 9, unknown]) == ["a"]


def test_an_entry_that_ended_is_let_go() -> None:
    released = []

    class Message:
        def __del__(self) -> None:
            released.append(1)

    trees = PackedTrees()
    for root in range(1, 4):
        trees.add(root, Message())
    trees.pop(2)
    assert released == [1]
    trees.rotate()
    trees.rotate()
    assert released == [1, 1, 1]


def test_the_room_follows_what_is_held() -> None:
    trees = PackedTrees()
    for root in range(1, 100_001):
        trees.add(root, root)
    assert trees.room == 131_072
    assert len(trees.pop_many(range(1, 99_991))) == 99_990
    for root in range(100_001, 140_000):  # the log is full once, and moves together
        trees.add(root, root)
        trees.pop(root)
    assert trees.room == FIRST_ROOM
    assert list(trees) == list(range(99_991, 100_001))
