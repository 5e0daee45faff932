"""Sums over incarnations, rates and capacity."""

from __future__ import annotations

import pytest

from tupletree.nimbus.leader.leader_state import LeaderState
from tupletree.nimbus.leader.scheduler import Slot
from tupletree.nimbus.statistics.stats_encoding import decode_memory, encode_memory
from tupletree.nimbus.statistics.task_statistics import CAPACITY_WINDOW_S
from tupletree.nimbus.statistics.topology_statistics import TopologyStatistics, summarize
from tupletree.v1 import nimbus_pb2 as rpc
from tupletree.v1 import topology_pb2 as pb


def task(
    task_id: int = 1, executed: int = 0, execute_s: float = 0.0, emitted: int = 0, queued: int = 0
) -> rpc.TaskStats:
    streams = [rpc.StreamStats(stream="default", emitted=emitted, transferred=emitted)]
    return rpc.TaskStats(
        task_id=task_id, component_id="c", executed=executed, execute_s=execute_s, queued=queued, streams=streams
    )


def report(worker_id: str, *tasks: rpc.TaskStats, uptime_s: float = 0.0) -> rpc.WorkerReport:
    return rpc.WorkerReport(worker_id=worker_id, uptime_s=uptime_s, tasks=tasks)


def test_figures_go_on_rising_when_a_worker_is_restarted() -> None:
    one = TopologyStatistics()
    one.report(report("w1", task(executed=100, emitted=7, queued=3)), 0)
    one.report(report("w2", task(executed=5, emitted=1, queued=4)), 1)
    one.report(report("w3", task(executed=2, emitted=1, queued=1)), 2)
    total = one.component("c")
    assert (total.executed, total.streams[0].emitted, total.queued) == (107, 9, 1)


def test_tasks_that_have_done_nothing_still_count_by_what_waits_for_them() -> None:
    one = TopologyStatistics()
    idle = rpc.TaskStats(task_id=2, component_id="c", queued=5, congested=True)
    one.report(report("w1", task(1, executed=3, queued=1), idle), 0)
    one.report(report("w2", idle), 1)
    total = one.component("c")
    assert (total.executed, total.queued, total.congested, len(total.streams)) == (3, 6, True, 1)


def test_a_few_counters_of_lately_are_as_among_all_counters() -> None:
    one = TopologyStatistics()
    assert one.lately("c", ["failed"], 600, 0) == [0]
    for number in range(40):  # for 800 seconds, with a restart in the middle
        stats = rpc.TaskStats(task_id=1, component_id="c", failed=3 * (number % 20), timeouts=number % 20)
        one.report(report(f"w{number // 20}", stats), 20.0 * number)
    counts = one.counts("c", 600, 790.0)
    assert one.lately("c", ["failed", "timeouts"], 600, 790.0) == [round(counts["failed"]), round(counts["timeouts"])]
    assert 0 < round(counts["timeouts"]) < 38
    assert one.lately("d", ["failed", "timeouts"], 600, 790.0) == [0, 0]


def test_a_late_report_of_a_replaced_worker_is_ignored() -> None:
    one = TopologyStatistics()
    one.report(report("w1", task(executed=100)), 0)
    one.report(report("w2", task(executed=5)), 1)
    one.report(report("w1", task(executed=150)), 2)
    one.report(report("w2", task(executed=6)), 3)
    assert one.component("c").executed == 106


def test_a_task_that_moves_leaves_the_other_tasks_of_its_worker_alone() -> None:
    one = TopologyStatistics()
    one.report(report("w1", task(1, 10), task(2, 20)), 0)
    one.report(report("w2", task(2, 1)), 1)
    one.report(report("w1", task(1, 11)), 2)
    assert one.component("c").executed == 32


def succeeded(one: TopologyStatistics) -> TopologyStatistics:
    """The statistics of the next leader."""
    after = TopologyStatistics()
    after.recall(decode_memory(encode_memory(one.memory())[0]))
    return after


def test_a_new_leader_goes_on_with_the_figures_of_the_last() -> None:
    first = TopologyStatistics()
    first.report(report("w1", task(1, executed=100, emitted=7), task(2, executed=10)), 0)
    first.report(report("w2", task(2, executed=1)), 1)
    second = succeeded(first)
    assert (second.component("c").executed, second.component("c").streams[0].emitted) == (111, 7)
    second.report(report("w1", task(1, executed=103)), 2)
    second.report(report("w2", task(2, executed=2)), 2)
    assert second.component("c").executed == 115
    second.report(report("w3", task(1, executed=5)), 3)
    assert second.component("c").executed == 120
    third = succeeded(second)
    assert third.component("c").executed == 120
    third.report(report("w3", task(1, executed=6)), 4)
    third.report(report("w2", task(2, executed=3)), 4)
    assert third.component("c").executed == 122


def test_a_worker_that_died_while_nobody_led_has_still_done_what_it_did() -> None:
    first = TopologyStatistics()
    first.report(report("w1", task(1, executed=100)), 0)
    second = succeeded(first)
    second.report(report("w2", task(1, executed=4)), 1)
    assert second.component("c").executed == 104
    assert succeeded(second).component("c").executed == 104


def test_the_entry_of_a_worker_that_died_before_it_reported_ends_once_every_task_has_reported() -> None:
    slots = {Slot("s", 1): [(1, 1)], Slot("s", 2): [(2, 2)]}
    leader_state = LeaderState(1, 30.0, 120.0, 0.0)
    leader_state.assigned({"t": slots}, {"t"}, 0.0)
    statistics = leader_state.statistics("t")
    statistics.recall({one: {"c": task(1, executed=100)} for one in ("w1", "w2", "")})
    for worker_id, port, kept in (("w3", 1, {"", "w1", "w2", "w3"}), ("w2", 2, {"", "w2", "w3"})):
        told = report(worker_id, task(port, executed=5))
        told.topology_id, told.supervisor_id, told.port = "t", "s", port
        leader_state.report(told, 1.0)
        assert statistics.memory().keys() == kept
    assert statistics.component("c").executed == 210
    assert round(statistics.counts("c", 600, 1.0)["executed"]) == 10


def test_nothing_is_remembered_of_nothing() -> None:
    assert decode_memory(b"") == {}
    assert TopologyStatistics().memory() == {}


def test_rates_are_over_the_last_seconds() -> None:
    one = TopologyStatistics()
    for second in range(31):
        executed = 10 * second if second <= 20 else 200 + 100 * (second - 20)
        one.report(report("w1", task(executed=executed, emitted=2 * executed)), second)
    rates = one.rates([1], 30)
    assert (rates.executed, rates.emitted) == (100, 200)


def test_rates_are_zero_when_nothing_is_reported_any_more_and_right_after_a_restart() -> None:
    one = TopologyStatistics()
    one.report(report("w1", task(executed=0)), 0)
    one.report(report("w1", task(executed=10)), 1)
    assert one.rates([1], 1).executed == 10
    assert one.rates([1], 7).executed == 0
    one.report(report("w2", task(executed=3)), 8)
    assert one.rates([1], 8).executed == 0
    one.report(report("w2", task(executed=5)), 9)
    assert one.rates([1], 9).executed == 2


def test_capacity_is_the_busiest_executors_share_of_its_time() -> None:
    one = TopologyStatistics()
    for second in (10, 20, 30):
        reports = report("w1", task(1, execute_s=second * 0.5), task(2, execute_s=second * 0.25), uptime_s=second)
        one.report(reports, 100 + second)
    assert one.capacity([[1], [2]], 130) == pytest.approx(0.5)
    assert one.capacity([[1, 2]], 130) == pytest.approx(0.75)
    assert one.capacity([[9]], 130) == 0


def test_capacity_forgets_what_was_more_than_ten_minutes_ago_but_not_a_restart() -> None:
    one = TopologyStatistics()
    busy_s = 0.0
    for minute in range(30):
        busy_s += 60.0 if minute < 15 else 6.0
        worker, reported = ("w1", busy_s) if minute < 20 else ("w2", busy_s - (15 * 60 + 5 * 6))
        one.report(report(worker, task(execute_s=reported), uptime_s=60), 60.0 * minute)
    assert one.capacity([[1]], 60.0 * 29) == pytest.approx(0.1, rel=0.05)
    assert CAPACITY_WINDOW_S == 600


def test_every_component_is_listed_though_nothing_was_reported() -> None:
    record = pb.TopologyRecord(tasks={"b": 2, "a": 1})
    tasks = {"a": range(1, 2), "b": range(2, 4)}
    found = summarize(
        TopologyStatistics(), record, {"a": pb.COMPONENT_KIND_SPOUT}, tasks, [(1, 1), (2, 3)], 0, {"b": "acks none"}
    )
    assert [one.remark for one in found] == ["", "acks none"]
    assert [(one.component_id, one.tasks, one.executors) for one in found] == [("a", 1, 1), ("b", 2, 1)]
    assert found[0].kind == pb.COMPONENT_KIND_SPOUT


def test_a_new_leader_has_all_time_but_takes_windows_as_even_since_a_workers_start() -> None:
    old = TopologyStatistics()
    done = rpc.WorkerReport(topology_id="t", worker_id="w", uptime_s=1200)
    done.tasks.add(task_id=1, component_id="c", acked=1200)
    old.report(done, 1200.0)
    new = TopologyStatistics()
    new.recall(old.memory())
    assert new.counts("c", None, 5.0)["acked"] == 1200
    assert new.counts("c", 600, 5.0) == {}
    new.report(done, 5.0)
    assert new.counts("c", None, 5.0)["acked"] == 1200
    assert new.counts("c", 600, 5.0)["acked"] == pytest.approx(600)
    assert new.task_counts([1], 10_800, 5.0)["acked"] == 1200


def test_windows_go_on_over_a_restart_of_a_worker() -> None:
    statistics = TopologyStatistics()
    for worker_id, acked, now_s in (("w1", 100, 10.0), ("w1", 300, 300.0), ("w2", 0, 320.0), ("w2", 50, 400.0)):
        one = rpc.WorkerReport(topology_id="t", worker_id=worker_id, uptime_s=min(now_s, 10.0))
        one.tasks.add(task_id=1, component_id="c", acked=acked)
        statistics.report(one, now_s)
    assert statistics.counts("c", 600, 400.0)["acked"] == 350
    assert statistics.counts("c", None, 400.0)["acked"] == 350
    assert statistics.task_counts([1], 600, 400.0)["acked"] == 350


def test_windows_hold_what_a_component_did_before_its_first_sample() -> None:
    one = TopologyStatistics()
    one.report(
        report("w1", rpc.TaskStats(task_id=9, component_id="other")), 0
    )  # is sampled at once, and then every 20 s
    one.report(report("w2", task(), uptime_s=0.5), 1)
    for at_s in range(2, 60):
        one.report(report("w2", task(executed=10 * at_s, emitted=at_s)), at_s)
    assert one.counts("c", 600, 60)["executed"] == one.component("c").executed == 590
    assert one.counts("c", 10_800, 60)["executed"] == 590
