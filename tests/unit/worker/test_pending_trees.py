"""The trees that a spout waits for: the packed table and the dictionaries are one and the same to whoever uses them."""

from __future__ import annotations

import gc
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tupletree._compiled import IS_COMPILED
from tupletree.worker.core.pending_trees import FIRST_ROOM, PackedTrees, RotatingTrees

Trees = PackedTrees | RotatingTrees
TABLES = [PackedTrees, RotatingTrees]

# Few roots, so that steps meet; some of them are first looked for at one and the same place of the index, or its last.
INDEX = 2 * FIRST_ROOM
roots = st.sampled_from([*range(1, 12), INDEX, *(place << 40 | low for place in range(1, 6) for low in (0, 1, 127))])
steps = st.one_of(
    st.tuples(st.just("put"), roots),
    st.tuples(st.sampled_from(["pop", "get"]), st.one_of(roots, st.just(0))),
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
    trees.add(INDEX, "ended")  # is looked for where root 0 would be
    assert trees.pop(INDEX) == "ended"
    assert trees.pop(INDEX) is None
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


@pytest.mark.parametrize("room", [FIRST_ROOM, 4 * FIRST_ROOM])
@pytest.mark.parametrize("unknown", [0, 1000, 2**64 - 1])
def test_an_unknown_root_is_none_in_a_full_log_either(unknown: int, room: int) -> None:
    trees = PackedTrees()
    for root in range(1, room + 1):
        trees.add(root, root)
    assert trees.room == room == len(trees)
    assert trees.pop(unknown) is None
    assert trees.get(room) == room


@pytest.mark.parametrize("old", range(FIRST_ROOM + 1))
def test_cohorts_stay_apart_when_the_log_moves_together(old: int) -> None:
    trees = PackedTrees()
    for root in range(1, FIRST_ROOM + 2):  # the last one does not fit
        if root == old + 1:
            trees.rotate()
        trees.add(root, root)
    assert trees.room == 2 * FIRST_ROOM
    assert trees.oldest() == list(range(1, old + 1))
    assert list(trees.rotate()) == list(range(1, old + 1))


def test_the_log_moves_together_seldom() -> None:
    """As often as its room doubles, and with half of the room left: so adding costs O(1) on the average."""
    trees, rooms = PackedTrees(), []
    for root in range(1, 10_001):
        trees.add(root, root)
        if root > 5_000:
            trees.pop(root - 5_000)
        rooms.append(trees.room)
    assert sorted(set(rooms)) == [FIRST_ROOM << doubling for doubling in range(8)] + [16_384]
    assert rooms.index(16_384) == 8_192  # 5,000 live: twice that does not fit into 8,192


def test_a_burst_is_given_back_by_the_next_rotation() -> None:
    trees = PackedTrees()
    for root in range(1, 100_001):
        trees.add(root, root)
    assert trees.room == 131_072
    assert len(trees.pop_many(range(1, 99_991))) == 99_990
    assert trees.rotate() == {}
    assert trees.room == FIRST_ROOM
    assert trees.oldest() == list(trees) == list(range(99_991, 100_001))


def test_without_memory_to_grow_nothing_has_changed(tmp_path: Path) -> None:
    """In a process of its own, whose memory is bounded when the table is full."""
    script = tmp_path / "grow.py"
    script.write_text(GROW)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.splitlines() == [*2 * ["MemoryError"], "1048576 1048576", "found True", "grown 1048577"]


GROW = """
import re, resource
from pathlib import Path
from tupletree.worker.core.pending_trees import PackedTrees
trees = PackedTrees()
for root in range(1, 2**20 + 1):
    trees.add(root, 7)
used = int(re.search(r"VmSize:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) << 10
resource.setrlimit(resource.RLIMIT_AS, (used + (20 << 20), resource.RLIM_INFINITY))
for change, root in (trees.add, 2**20 + 1), (trees.put, 1):
    try:
        change(root, 7)
    except MemoryError:
        print("MemoryError")
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(len(trees), trees.room)
print("found", all(trees.get(root) == 7 for root in range(1, 2**20 + 1)))
trees.add(2**20 + 1, 7)
print("grown", len(trees))
"""


@pytest.mark.long
@pytest.mark.parametrize("burst", [1, FIRST_ROOM - 1, FIRST_ROOM, 500])
def test_what_a_finalizer_adds_while_the_log_moves_together_is_there(burst: int) -> None:
    """Making a list may collect garbage, and its finalizers are the user's: they may emit."""
    trees = PackedTrees()

    class Emitter:
        def __init__(self) -> None:
            self.itself = self

        def __del__(self) -> None:
            for root in range(1001, 1001 + burst):
                trees.add(root, root)

    for root in range(1, FIRST_ROOM + 1):
        trees.add(root, root)
    thresholds = gc.get_threshold()
    gc.collect()
    gc.disable()
    try:
        Emitter()
        gc.set_threshold(1, 1, 1)
        gc.enable()
        trees.add(999, 999)  # the next to make anything that is collected
    finally:
        gc.set_threshold(*thresholds)
        gc.enable()
    assert len(trees) == FIRST_ROOM + burst + 1, "it did not run while the log moved"
    # Since Python 3.12 a collection waits for the interpreter's next check, which compiled code does not make.
    emitted, is_later = [*range(1001, 1001 + burst)], IS_COMPILED and sys.version_info >= (3, 12)
    assert list(trees) == [*range(1, FIRST_ROOM + 1), *([999, *emitted] if is_later else [*emitted, 999])]
    assert all(trees.get(root) == root for root in trees)
    trees.add(998, 998)
    assert trees.get(998) == 998
