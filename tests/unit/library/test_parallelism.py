"""How tasks and executors are counted and numbered."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from tupletree.parallelism import executor_counts, executors_of, task_counts, task_ranges, tasks_of
from tupletree.v1.topology_pb2 import ComponentSpec, TopologySpec

COUNTS = st.dictionaries(st.text(min_size=1, max_size=4), st.integers(1, 40), min_size=1, max_size=8)


def spec(**components: tuple[int, int, dict[str, object]]) -> TopologySpec:
    return TopologySpec(
        components=[
            ComponentSpec(id=name, parallelism=parallelism, tasks=tasks, conf_json=json.dumps(conf) if conf else "")
            for name, (parallelism, tasks, conf) in components.items()
        ]
    )


def test_task_ids_start_at_one_and_go_by_component_id() -> None:
    assert tasks_of(spec(split=(2, 2, {}), count=(2, 5, {})), {}) == {"count": range(1, 6), "split": range(6, 8)}


def test_executors_are_contiguous_and_the_larger_come_first() -> None:
    tasks = {"count": range(1, 6), "split": range(6, 8)}
    assert executors_of(tasks, {"count": 2, "split": 2}) == [(1, 3), (4, 5), (6, 6), (7, 7)]
    assert executors_of(tasks, {"count": 3, "split": 1}) == [(1, 2), (3, 4), (5, 5), (6, 7)]


def test_more_executors_than_tasks_are_as_many_as_tasks() -> None:
    assert executors_of({"a": range(1, 3)}, {"a": 9}) == [(1, 1), (2, 2)]
    assert executors_of({"a": range(1, 3)}, {}) == [(1, 1), (2, 2)]


def test_max_task_parallelism_caps_tasks_and_executors() -> None:
    topology = spec(a=(4, 8, {}), b=(2, 2, {"topology.max.task.parallelism": 1}))
    conf = {"topology.max.task.parallelism": 3}
    assert task_counts(topology, conf) == {"a": 3, "b": 1}
    assert executor_counts(topology, conf) == {"a": 3, "b": 1}


def test_the_topologys_task_count_is_for_components_that_set_none() -> None:
    topology = spec(a=(2, 2, {}), b=(2, 4, {"topology.tasks": 4}))
    assert task_counts(topology, {"topology.tasks": 6}) == {"a": 6, "b": 4}
    assert executor_counts(topology, {"topology.tasks": 6}) == {"a": 2, "b": 2}


@given(COUNTS)
def test_task_ranges_partition_the_ids_from_one(counts: dict[str, int]) -> None:
    ranges = task_ranges(counts)
    assert list(ranges) == sorted(counts)
    assert [task for ids in ranges.values() for task in ids] == list(range(1, sum(counts.values()) + 1))
    assert {component: len(ids) for component, ids in ranges.items()} == counts


@given(COUNTS, st.dictionaries(st.text(min_size=1, max_size=4), st.integers(0, 50)))
def test_executors_partition_the_tasks_evenly(counts: dict[str, int], wanted: dict[str, int]) -> None:
    tasks = task_ranges(counts)
    executors = executors_of(tasks, wanted)
    assert executors == sorted(executors)
    assert [t for first, last in executors for t in range(first, last + 1)] == list(range(1, sum(counts.values()) + 1))
    for component, ids in tasks.items():
        sizes = [last - first + 1 for first, last in executors if first in ids]
        assert len(sizes) == min(max(1, wanted.get(component, len(ids))), len(ids))
        assert max(sizes) - min(sizes) <= 1
        assert sizes == sorted(sizes, reverse=True)
        assert all(last in ids for first, last in executors if first in ids)


@given(COUNTS, st.integers(1, 50), st.one_of(st.none(), st.integers(1, 20)))
def test_executors_never_outnumber_tasks(counts: dict[str, int], parallelism: int, cap: int | None) -> None:
    topology = spec(**{name: (parallelism, tasks, {}) for name, tasks in counts.items()})
    conf = {"topology.max.task.parallelism": cap}
    tasks, executors = task_counts(topology, conf), executor_counts(topology, conf)
    assert all(1 <= executors[name] <= tasks[name] for name in counts)
    assert cap is None or all(tasks[name] <= cap for name in counts)
