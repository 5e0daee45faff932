"""Sums over tasks that are kept up as they report."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from tupletree.nimbus.statistics.counters import counts_of
from tupletree.nimbus.statistics.sums import WorkerSum, add, add_gauges, subtract
from tupletree.v1.nimbus_pb2 import InputStats, StreamStats, TaskStats


@dataclass
class Holder:
    """What a sum knows of a task."""

    latest: TaskStats


def stats(rng: random.Random) -> TaskStats:
    """What some task may report; whole seconds, so that sums are exact in any order."""

    def some() -> int:
        return rng.randrange(100)

    return TaskStats(
        component_id="c",
        executed=some(),
        acked=some(),
        execute_s=some(),
        queued=some(),
        pending=some(),
        congested=rng.random() < 0.1,
        found_blocking=rng.random() < 0.1,
        streams=[StreamStats(stream=name, emitted=some()) for name in "ab" if rng.random() < 0.7],
        inputs=[InputStats(source_component=name, acked=some()) for name in "de" if rng.random() < 0.7],
        process_buckets=[some() for _ in range(rng.randrange(4))],
    )


def plain(holders: dict[int, Holder]) -> TaskStats:
    """The sum, added up anew."""
    total = TaskStats(component_id="c")
    for one in holders.values():
        add(total, one.latest)
        add_gauges(total, one.latest)
    return total


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
def test_a_sum_is_always_that_of_what_the_tasks_reported_last(seed: int) -> None:
    rng = random.Random(seed)
    kept, holders = WorkerSum("c"), dict[int, Holder]()
    for _ in range(300):
        for _ in range(rng.choice((0, 1, 2, 20))):
            task_id = rng.randrange(40)
            if task_id not in holders:
                holders[task_id] = Holder(stats(rng))
                kept.add_task(task_id, holders[task_id])
            elif rng.random() < 0.2:
                kept.remove_task(task_id)
                del holders[task_id]
            else:
                kept.changes(task_id)
                holders[task_id].latest = stats(rng)
        found, wanted = kept.read(), plain(holders)
        assert {key: count for key, count in counts_of(found).items() if count} == {
            key: count for key, count in counts_of(wanted).items() if count
        }
        assert (found.queued, found.pending) == (wanted.queued, wanted.pending)
        assert found.congested == any(one.latest.congested for one in holders.values())
        assert found.found_blocking == any(one.latest.found_blocking for one in holders.values())
        assert len(kept) == len(holders)


def test_a_sum_that_reached_its_limit_comes_back() -> None:
    kept, holders = WorkerSum("c"), {at: Holder(TaskStats(executed=2**62)) for at in range(10)}
    for at, one in holders.items():
        kept.add_task(at, one)
    assert kept.read().executed == 2**63
    for at in range(9):
        kept.changes(at)
        holders[at].latest = TaskStats(executed=1)
        kept.read()
    assert kept.read().executed == 2**62 + 9


def test_what_is_subtracted_is_what_was_added() -> None:
    rng = random.Random(1)
    first, second = stats(rng), stats(rng)
    total = TaskStats()
    add(total, first)
    add(total, second)
    subtract(total, second)
    assert {key: count for key, count in counts_of(total).items() if count} == {
        key: count for key, count in counts_of(first).items() if count
    }
