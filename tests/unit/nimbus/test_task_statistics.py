"""Reports that repeat the one before: they cost little, and nothing that is shown may tell that they do.

Each story is told twice: as it is, and with a mark in every other report by which it differs from the one before.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest

from tupletree.nimbus.statistics.task_statistics import CAPACITY_STEP_S, CAPACITY_WINDOW_S
from tupletree.nimbus.statistics.topology_statistics import TopologyStatistics
from tupletree.nimbus.statistics.windowed_counters import WINDOWS_S
from tupletree.v1.nimbus_pb2 import InputStats, StreamStats, TaskStats, WorkerReport

TASKS = range(1, 5)
REPORT_SEEDS = int(os.environ.get("REPORT_SEEDS", "1"))


def story(rng: random.Random, seconds: int) -> Iterator[tuple[float, WorkerReport]]:
    """A worker's reports, each second or so: tasks stand still for long, work for a while, fail, or move."""
    tasks = {one: TaskStats(task_id=one, component_id="c", streams=[StreamStats(stream="s")]) for one in TASKS}
    works_until_s = dict.fromkeys(TASKS, 0.0)
    now_s, workers = 0.0, 0
    while now_s < seconds:
        now_s += rng.uniform(0.9, 1.1)
        if rng.random() < 0.002:
            workers += 1
            for one in TASKS:
                tasks[one] = TaskStats(task_id=one, component_id="c", streams=[StreamStats(stream="s")])
        for one, stats in tasks.items():
            if rng.random() < 0.005:
                works_until_s[one] = now_s + rng.choice((1, 5, 30, 200))
                stats.queued = rng.choice((0, 7))
            if now_s < works_until_s[one]:
                count_up(rng, stats)
        yield now_s, WorkerReport(worker_id=f"w{workers}", uptime_s=5.0, tasks=tasks.values())


def count_up(rng: random.Random, stats: TaskStats) -> None:
    """A second of work."""
    done = rng.randrange(1, 100)
    stats.executed += done
    stats.execute_s += done / 128
    stats.streams[0].emitted += 2 * done
    if rng.random() < 0.7:
        stats.acked += done
    else:
        stats.failed += done
    if not stats.inputs:
        stats.inputs.append(InputStats(source_component="a", stream="s"))
    stats.inputs[0].executed = stats.executed


def shown(one: TopologyStatistics, now_s: float) -> list[object]:
    """What is read of it, but for the capacity."""
    rates, still, answers = one.rates(TASKS, now_s), one.standstill(TASKS, 20.0), one.answers(TASKS)
    return [
        *(rates.emitted, rates.executed, rates.acked),
        *(still.stuck, still.stuck_s, still.fails, still.fails_s),
        *(answers.executed, answers.settled, answers.since_s),
        *(one.counts("c", window_s, now_s) for window_s in (None, *WINDOWS_S)),
        *(one.task_counts([task], window_s, now_s) for task in TASKS for window_s in (None, *WINDOWS_S)),
        one.gauges(TASKS),
    ]


@pytest.mark.sized
@pytest.mark.parametrize("seed", range(REPORT_SEEDS))
def test_reports_that_repeat_are_as_good_as_others(seed: int) -> None:
    rng = random.Random(seed)
    short, full = TopologyStatistics(), TopologyStatistics()
    for number, (now_s, told) in enumerate(story(rng, 2500)):
        copy = WorkerReport()
        copy.CopyFrom(told)
        short.report(copy, now_s)
        marked = WorkerReport()
        marked.CopyFrom(told)
        for stats in marked.tasks:
            stats.timeouts = 0
            stats.holds_tuples = number % 2 == 0
        full.report(marked, now_s)
        if rng.random() < 0.05:
            at_s = now_s + rng.uniform(0, 0.5)
            for found, wanted in zip(shown(short, at_s), shown(full, at_s), strict=True):
                assert found == pytest.approx(wanted, rel=1e-9, abs=1e-9), (now_s, found, wanted)
            found_share, wanted_share = (each.capacity([[1, 2], [3], [4]], at_s) for each in (short, full))
            assert found_share == pytest.approx(wanted_share, abs=CAPACITY_STEP_S / CAPACITY_WINDOW_S)
    assert list(short.series("c")) == list(full.series("c"))
    assert [one.component("c").executed for one in (short, full)] == [full.component("c").executed] * 2


def test_a_repeated_report_takes_the_place_of_the_one_before() -> None:
    """A message keeps all that it was received with: the report of minutes ago, of all tasks, for one of them."""
    one = TopologyStatistics()
    for at_s in range(3):
        told = WorkerReport(worker_id="w", tasks=[TaskStats(task_id=1, component_id="c", executed=5)])
        one.report(told, at_s)
        assert one.latest(1) is told.tasks[0]
    assert one.latest(2) is None
