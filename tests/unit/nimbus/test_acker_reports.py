"""The ledgers of a topology, shown as a component: counts over shards, moves and leaderships."""

from __future__ import annotations

from tupletree.nimbus.leader.leader_state import LeaderState
from tupletree.nimbus.leader.scheduler import Slot
from tupletree.nimbus.statistics.acker_stats import COMPONENT, reports_of
from tupletree.nimbus.statistics.counters import Figures
from tupletree.v1.acker_pb2 import DescribeLedgerReply, ShardSummary


def ledger(acker: str, *shards: ShardSummary) -> DescribeLedgerReply:
    return DescribeLedgerReply(acker_id=acker, ready=True, shards=shards)


def shard(number: int, completed: int, topology: str = "words-1-5", **more: int) -> ShardSummary:
    return ShardSummary(
        topology_id=topology, shard=number, inits=completed, acks=completed, completed=completed, **more
    )


def leading(*topologies: str) -> LeaderState:
    made = LeaderState(1, 30, 120, 0.0)
    placements = {one: {Slot("s", 6700 + at): ((1, 3),)} for at, one in enumerate(topologies)}
    made.assigned(placements, topologies, 0.0)
    return made


def test_an_acker_reports_each_topology_apart_whatever_the_order_of_its_shards() -> None:
    reports = list(reports_of(ledger("a", shard(1, 5, "x-1-1"), shard(0, 7, "y-2-1"), shard(0, 3, "x-1-1")), 9.0))
    found = {one.topology_id: {task.task_id: task.executed for task in one.tasks} for one in reports}
    assert found == {"x-1-1": {0: 6, 1: 10}, "y-2-1": {0: 14}}


def test_the_counts_are_of_all_shards_and_streams_are_named_as_in_storm() -> None:
    state = leading("words-1-5")
    state.report_ledger(ledger("a", shard(0, 100, fails=2, timeouts=3, resets=4, pending=5)), 0.0, 0.0)
    state.report_ledger(ledger("b", shard(1, 50, pending=1)), 0.0, 0.0)
    found = state.acker_statistics("words-1-5")
    figures = Figures(found.counts(COMPONENT, None, 0.0))
    assert (figures.count("executed"), figures.count("acked")) == (306, 306)
    assert {one: figures.stream(one, "emitted") for one in figures.streams(sys=True)} == {
        "__ack_ack": 150,
        "__ack_fail": 5,
        "__ack_reset_timeout": 4,
    }
    assert (figures.emitted(), figures.emitted(sys=True)) == (0, 159)
    assert found.gauges(range(2))["pending"] == 6


def test_a_shard_that_moves_goes_on_counting() -> None:
    state = leading("words-1-5")
    state.report_ledger(ledger("a", shard(0, 100)), 3600.0, 0.0)
    state.report_ledger(ledger("b", shard(0, 10)), 3600.0, 60.0)
    found = state.acker_statistics("words-1-5")
    assert Figures(found.counts(COMPONENT, None, 60.0)).count("executed") == 220
    assert Figures(found.counts(COMPONENT, 600, 60.0)).count("executed") == 50, "evenly since the acker began"


def test_what_is_not_assigned_is_not_kept() -> None:
    state = leading("words-1-5")
    state.report_ledger(ledger("a", shard(0, 1, "left-over-1")), 0.0, 0.0)
    state.report_ledger(ledger("a", shard(0, 1)), 0.0, 0.0)
    assert set(state._of_ackers) == {"words-1-5"}
    state.assigned({}, (), 1.0)
    assert not state._of_ackers
