"""Each grouping sends to the tasks it promises, in every task and every process alike."""

from __future__ import annotations

import datetime as dt
import json
import math
import os
import random
import re
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tupletree.errors import EmitError, UnregisteredTypeError
from tupletree.worker.core import routing

TARGETS = [3, 4, 5, 6, 7]

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.binary(max_size=8),
    st.datetimes(),
    st.datetimes(timezones=st.just(dt.UTC)),
)
keys = st.one_of(
    scalars,
    st.lists(scalars, max_size=3),
    st.tuples(scalars, scalars),
    st.dictionaries(st.text(max_size=3), scalars, max_size=3),
    st.frozensets(st.integers(), max_size=3),
)


def by_fields(targets: list[int], width: int) -> Any:
    return routing.fields(targets, range(width), "split", [f"f{i}" for i in range(width)])


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("seed", range(3))
def test_shuffle_gives_each_task_one_tuple_of_every_turn(count: int, seed: int) -> None:
    choose = routing.shuffle(TARGETS[:count], random.Random(seed))
    for _ in range(20):
        assert sorted(choose([0]) for _ in range(count)) == TARGETS[:count]


def test_shuffle_orders_differ_between_tasks() -> None:
    turns = {
        tuple(choose([0]) for _ in TARGETS)
        for choose in (routing.shuffle(TARGETS, random.Random(seed)) for seed in range(20))
    }
    assert len(turns) > 5


@given(st.lists(keys, min_size=1, max_size=3), st.integers(1, 9))
def test_fields_agree_between_two_tasks_and_with_themselves(values: list[Any], count: int) -> None:
    targets = list(range(10, 10 + count))
    one, other = by_fields(targets, len(values)), by_fields(targets, len(values))
    other([0] * len(values))  # another history
    assert one(values) == one(values) == other(values) in targets


@pytest.mark.parametrize(
    "equal",
    [
        (1, 1.0, True),
        (0, 0.0, -0.0, False),
        ((1, 2), (1.0, 2.0)),
        ({"a": 1, "b": 2}, {"b": 2.0, "a": True}),
        ({1, 2}, frozenset([2, 1])),
        (2**70, float(2**70)),
        (
            dt.datetime(2020, 1, 1, 12, tzinfo=dt.UTC),
            dt.datetime(2020, 1, 1, 14, tzinfo=dt.timezone(dt.timedelta(hours=2))),
        ),
    ],
)
def test_equal_keys_of_different_types_reach_one_task(equal: tuple[Any, ...]) -> None:
    assert all(value == equal[0] for value in equal)
    for count in (2, 3, 7, 101):
        targets = list(range(count))
        assert len({by_fields(targets, 1)([value]) for value in equal}) == 1
        remembering = by_fields(targets, 1)
        assert len({remembering([value]) for value in equal}) == 1


def test_nan_reaches_one_task_whichever_object_it_is() -> None:
    choose = by_fields(list(range(101)), 1)
    assert len({choose([float("nan")]) for _ in range(50)} | {choose([math.nan])}) == 1
    assert len({choose([[1, float("nan")]]) for _ in range(50)}) == 1


def test_all_rows_with_one_key_reach_one_task_and_all_tasks_get_keys() -> None:
    rng = random.Random(5)
    chosen: dict[str, set[int]] = {}
    choose = routing.fields(TARGETS, [1], "split", ["word"])
    for _ in range(5000):
        word = f"word{rng.randrange(300)}"
        chosen.setdefault(word, set()).add(choose([rng.random(), word]))
    assert all(len(tasks) == 1 for tasks in chosen.values())
    keys_of = Counter(task for tasks in chosen.values() for task in tasks)
    assert set(keys_of) == set(TARGETS)
    assert max(keys_of.values()) < 2 * 300 / len(TARGETS)


def test_fields_remember_a_bounded_number_of_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "KEYS_REMEMBERED", 10)
    choose = by_fields(TARGETS, 1)
    first = [choose([i + 0.5]) for i in range(100)]
    remembered = choose._remembered
    assert 0 < len(remembered) <= 10
    assert [choose([i + 0.5]) for i in range(100)] == first


def test_the_order_of_the_fields_is_part_of_the_key() -> None:
    targets = list(range(1009))
    a = routing.fields(targets, [0, 1], "c", ["x", "y"])
    b = routing.fields(targets, [1, 0], "c", ["y", "x"])
    assert a(["p", "q"]) == b(["q", "p"])
    assert a(["p", "q"]) != a(["q", "p"])


KEYS_OF_ALL_KINDS = """[
    "word", "", 7, -1, 2**80, 1.5, float("nan"), True, None, b"bytes", (1, "two"), [1, [2.0, None]],
    {"b": 1, "a": [2]}, {1, 2, 3}, frozenset({"x", "y", "z"}), datetime.datetime(2024, 2, 29, 1, 2, 3),
    datetime.datetime(2024, 2, 29, tzinfo=datetime.timezone.utc), float("inf"),
]"""


@pytest.mark.parametrize("grouping", ["fields", "partial_key"])
def test_tasks_in_other_processes_agree(grouping: str) -> None:
    """Strings hash differently in each Python process; routes must not."""
    program = (
        "import datetime, json; from tupletree.worker.core import routing\n"
        f"choose = routing.{grouping}(list(range(1000)), [0], 'c', ['key'])\n"
        f"print(json.dumps([choose([key]) for key in {KEYS_OF_ALL_KINDS}]))"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert runs[0] == runs[1]
    assert len(set(json.loads(runs[0]))) > 10


def test_a_key_of_a_type_that_cannot_travel_is_refused_by_name() -> None:
    class Odd:
        pass

    choose = routing.fields(TARGETS, [1], "split", ["odd"])
    with pytest.raises(UnregisteredTypeError, match=r"'split'.*Odd.*'odd'"):
        choose(["x", Odd()])


@given(st.lists(st.text(max_size=4), min_size=1, max_size=200), st.integers(2, 9))
def test_partial_key_sends_a_key_to_two_tasks_at_most(words: list[str], count: int) -> None:
    choose = routing.partial_key(list(range(count)), [0], "c", ["word"])
    chosen: dict[str, set[int]] = {}
    for word in words * 3:
        chosen.setdefault(word, set()).add(choose([word]))
    assert all(len(tasks) <= 2 for tasks in chosen.values())


def test_partial_key_balances_a_key_that_dominates() -> None:
    """One word makes half of all tuples: fields grouping puts all of it on one task, partial key halves it."""
    rng = random.Random(3)
    words = [["the"] if rng.random() < 0.5 else [f"word{rng.randrange(1000)}"] for _ in range(10_000)]
    targets = list(range(4))
    load = Counter(map(routing.partial_key(targets, [0], "c", ["word"]), words))
    naive = Counter(map(routing.fields(targets, [0], "c", ["word"]), words))
    assert max(naive.values()) > 5000
    assert max(load.values()) < 3_100  # a sixth of the other words has these two candidates and no other
    assert min(load.values()) > 1_900


def test_partial_key_candidates_are_two_different_tasks() -> None:
    for count in (2, 3, 8):
        for number in range(100):
            choose = routing.partial_key(list(range(count)), [0], "c", ["n"])
            assert len({choose([number]) for _ in range(2)}) == 2


def test_global_is_the_lowest_task_and_all_is_every_task() -> None:
    assert {routing.global_(TARGETS)([i]) for i in range(10)} == {3}
    assert list(routing.all_(TARGETS)([1])) == TARGETS


def test_custom_gets_the_emitting_task_and_may_choose_any_subset() -> None:
    asked = []

    def choose_tasks(task: int, values: Any) -> list[int]:
        asked.append((task, values))
        return [5, 3] if values[0] else []

    choose = routing.custom(choose_tasks, 12, {task: f"buffer {task}" for task in TARGETS}, "c", "s")
    assert choose([1]) == ["buffer 5", "buffer 3"]
    assert choose([0]) == []
    assert asked == [(12, [1]), (12, [0])]


def test_custom_that_chooses_a_stranger_is_refused_by_name() -> None:
    choose = routing.custom(lambda task, values: [99], 12, dict.fromkeys(TARGETS), "maps", "tiles")
    with pytest.raises(EmitError, match=r"'tiles'.*'maps'.*task 99.*\[3, 4, 5, 6, 7\]"):
        choose([1])


@pytest.mark.parametrize("chosen", [None, 3, [[3]]])
def test_custom_that_chooses_no_tasks_is_refused_by_name(chosen: Any) -> None:
    choose = routing.custom(lambda task, values: chosen, 12, dict.fromkeys(TARGETS), "maps", "tiles")
    with pytest.raises(EmitError, match=rf"'tiles'.*'maps' returned {re.escape(repr(chosen))}: return a list "):
        choose([1])


def test_each_subscriber_of_a_stream_gets_its_share() -> None:
    choose = routing.one_of_many(
        [routing.as_many(routing.global_([1, 2])), routing.all_([3, 4]), routing.as_many(routing.fixed(5))]
    )
    assert list(choose([0])) == [1, 3, 4, 5]
