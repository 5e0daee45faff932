"""Counters of tasks, added and read."""

from __future__ import annotations

import pytest

from tupletree.nimbus.statistics.counters import Figures, add_counts, counts_of, scalars_of
from tupletree.v1 import nimbus_pb2 as rpc


def bolt() -> rpc.TaskStats:
    stats = rpc.TaskStats(task_id=1, component_id="b", executed=4, acked=3, failed=1, execute_s=0.002)
    stats.process_s_sum, stats.process_samples = 0.006, 2
    stats.process_buckets[:] = [0, 2]
    stats.streams.add(stream="default", emitted=5, transferred=10)
    stats.streams.add(stream="__tick", emitted=7, transferred=7)
    stats.inputs.add(source_component="s", stream="default", executed=4, acked=3, failed=1, execute_s=0.002)
    stats.inputs.add(source_component="$checkpoint", stream="$c", executed=1)
    return stats


def test_figures_of_a_task() -> None:
    figures = Figures(counts_of(bolt()))
    assert (figures.emitted(), figures.emitted(sys=True), figures.transferred()) == (5, 12, 10)
    assert (figures.count("acked"), figures.count("failed"), figures.count("nothing")) == (3, 1, 0)
    assert (figures.execute_ms, figures.process_ms, figures.complete_ms) == (0.5, 3.0, 0.0)
    assert figures.streams() == ["default"] and figures.streams(sys=True) == ["__tick", "default"]
    assert figures.inputs() == [("s", "default")]
    assert figures.inputs(sys=True) == [("$checkpoint", "$c"), ("s", "default")]
    assert figures.input(("s", "default"), "acked") == 3
    assert figures.input_ms(("s", "default"), "execute_s", "executed") == 0.5
    assert figures.buckets("process") == [0, 2]
    assert figures.percentile_ms("complete", 0.5) is None
    assert figures.percentile_ms("process", 0.5) == pytest.approx(0.00104)


def test_what_is_executed_and_acked_of_the_system_does_not_count() -> None:
    stats = bolt()
    stats.executed, stats.acked, stats.execute_s = 54, 53, 0.502
    stats.inputs.add(source_component="__system", stream="__tick", executed=50, acked=50, execute_s=0.5)
    figures = Figures(counts_of(stats))
    assert (figures.count("executed"), figures.count("acked"), figures.execute_ms) == (4, 3, 0.5)


def test_counters_of_several_tasks_are_added() -> None:
    total = counts_of(bolt())
    add_counts(total, counts_of(bolt()))
    figures = Figures(total)
    assert (figures.emitted(), figures.count("acked"), figures.process_ms) == (10, 6, 3.0)
    assert figures.buckets("process") == [0, 4]
    assert figures.input(("s", "default"), "executed") == 8


def test_sums_need_no_streams() -> None:
    assert scalars_of(bolt())["system_emitted"] == 7
    assert not any(isinstance(key, tuple) for key in scalars_of(bolt()))
