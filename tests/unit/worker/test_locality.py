"""Shuffles that prefer the tasks in their own worker: when they use the others, and when they return."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tupletree import config
from tupletree.errors import ConfigError
from tupletree.worker.core.routing import WHOLE, Shares
from tupletree.worker.execution.load_shares import DOUBLING_S, LoadShares
from tupletree.worker.execution.locality import Locality, LocalityBounds

BOUNDS = LocalityBounds(0.8, 0.2)
TASKS = [4, 5, 6, 7]


def shuffle(local: set[int], bounds: LocalityBounds = BOUNDS) -> tuple[LoadShares, Shares]:
    shares = Shares(len(TASKS))
    return LoadShares(TASKS, shares, 0.0, Locality.among(TASKS, local, bounds)), shares


def test_only_near_tasks_get_tuples_until_they_wait_long_and_again_when_they_wait_briefly() -> None:
    loads, shares = shuffle({4, 5})
    loads.update({}, (), 0.1)
    assert shares.of == [WHOLE, WHOLE, 0, 0]
    loads.update({4: 0.8, 5: 0.7}, (), 0.2)
    assert shares.of[2:] == [0, 0], "0.75 seconds on average"
    loads.update({4: 0.9, 5: 0.9}, (), 0.3)
    assert shares.of[2:] == [WHOLE, WHOLE] and max(shares.of[:2]) < WHOLE, "by their loads"
    loads.update({4: 0.5, 5: 0.3}, (), 0.4)
    assert shares.of[2:] == [WHOLE, WHOLE], "between the bounds nothing changes"
    loads.update({4: 0.2, 5: 0.1, 6: 3.0}, (), 0.5)
    assert shares.of[2:] == [0, 0] and WHOLE in shares.of[:2]


def test_far_tasks_get_the_tuples_while_all_near_ones_are_closed() -> None:
    loads, shares = shuffle({4, 5})
    loads.update({}, {4, 5}, 0.1)
    assert shares.of == [0, 0, WHOLE, WHOLE]
    loads.update({}, {4}, 0.2)
    assert shares.of == [0, WHOLE, 0, 0]
    loads.update({}, {4, 5, 6, 7}, 0.3)
    assert shares.of == [WHOLE] * 4, "who sends all the same sends to all of them"


def test_a_near_task_that_is_slow_leaves_its_turns_to_the_other_near_ones() -> None:
    loads, shares = shuffle({4, 5, 6})
    loads.update({4: 0.1}, (), 0.1)
    assert 0 < shares.of[0] < WHOLE and shares.of[1:] == [WHOLE, WHOLE, 0]


@pytest.mark.parametrize("local", [set(), {4, 5, 6, 7}, {1}])
def test_without_near_or_far_tasks_there_is_no_preference(local: set[int]) -> None:
    assert Locality.among(TASKS, local, BOUNDS) is None
    assert Locality.among(TASKS, {4}, None) is None


@given(
    st.sets(st.sampled_from(TASKS), min_size=1, max_size=3),
    st.lists(
        st.tuples(
            st.dictionaries(st.sampled_from(TASKS), st.floats(0, 30)),
            st.frozensets(st.sampled_from(TASKS)),
            st.floats(0, 2),
        ),
        max_size=20,
    ),
)
def test_some_open_task_takes_all_of_its_turns_and_near_ones_do_when_nothing_is_heard(
    local: set[int], history: list[tuple[dict[int, float], frozenset[int], float]]
) -> None:
    loads, shares = shuffle(local)
    now_s = 0.0
    for waits_s, closed, elapsed_s in history:
        now_s += elapsed_s
        loads.update(waits_s, closed, now_s)
        of = dict(zip(TASKS, shares.of, strict=True))
        assert max(of.values()) == WHOLE
        assert all(of[task] == 0 for task in closed) or closed == set(TASKS)
        near_s = [waits_s.get(task, 0.0) for task in local]
        if sum(near_s) / len(near_s) < BOUNDS.lower_s and not local <= closed:
            assert all(of[task] == 0 for task in TASKS if task not in local)
    for _ in range(10):
        now_s += DOUBLING_S
        loads.update({}, (), now_s)
    assert shares.of == [WHOLE if task in local else 0 for task in TASKS]


def test_the_bounds_of_a_configuration() -> None:
    conf = config.defaults()
    assert LocalityBounds.of(conf) is None
    conf["topology.localityaware.higher.wait.secs"] = 0.5
    assert LocalityBounds.of(conf) == LocalityBounds(0.5, 0.2)
    conf["topology.localityaware.higher.wait.secs"] = 0.1
    assert LocalityBounds.of(conf) == LocalityBounds(0.1, 0.1)
    with pytest.raises(ConfigError, match=r"^configuration key 'topology.localityaware.higher.wait.secs' takes"):
        config.validate({"topology.localityaware.higher.wait.secs": "high"})
