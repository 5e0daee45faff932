"""What neighbours of a call that hangs have acked is told while the call lasts, and nothing is told twice."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hand_driven import inits, xors
from hypothesis import given
from hypothesis import strategies as st
from local_components import DoBasic, Latch, Log

from tupletree import Spout, TopologyBuilder
from tupletree.testing import LocalCluster
from tupletree.worker.core.ack_updates import AckUpdates
from tupletree.worker.execution.early_updates import remainder, so_far

ENOUGH_S = 60

roots = st.integers(1, 9)  # few, so that entries change after they were told
reports = st.lists(
    st.one_of(
        st.tuples(st.just("ack"), roots, st.integers(0, 2**64 - 1)),
        st.tuples(st.just("init"), st.integers(1, 2**64 - 1), st.integers(0, 2**64 - 1)),
        st.tuples(st.just("fail"), roots),
        st.tuples(st.just("reset"), roots),
    ),
    max_size=30,
)


def add(updates: AckUpdates, given_reports: list[Any]) -> None:
    for kind, root, *value in given_reports:
        match kind:
            case "ack":
                updates.add_ack(root, value[0])
            case "init":
                updates.add_init(root, value[0], 7)
            case "fail":
                updates.fails.add(root)
            case "reset":
                updates.resets.add(root)


def sums(*parts: AckUpdates) -> dict[int, int]:
    """What the acker holds for each root after these parts; roots that come to nothing are left out."""
    found: dict[int, int] = {}
    for part in parts:
        for root, value in [*xors(part).items(), *((root, value) for root, value, _ in inits(part))]:
            found[root] = found.get(root, 0) ^ value
    return {root: value for root, value in found.items() if value}


@given(reports, reports, reports)
def test_what_is_told_in_parts_is_what_is_told_at_once(first: list[Any], second: list[Any], third: list[Any]) -> None:
    updates = AckUpdates()
    add(updates, first)
    early = so_far(updates)
    add(updates, second)
    later = so_far(updates)
    middle = remainder(later, early)
    add(updates, third)
    parts = (early, middle, remainder(updates, later))
    assert sums(*parts) == sums(updates)
    told = [(root, task) for part in parts for root, _, task in inits(part)]
    assert told == [(root, task) for root, _, task in inits(updates)], "each tree is begun once"
    assert set().union(*(part.fails for part in parts)) == updates.fails
    assert set().union(*(part.resets for part in parts)) == updates.resets


@pytest.fixture
def hurried_threads() -> Iterator[None]:
    """Lets threads take turns every few microseconds instead of milliseconds: what is rare happens often."""
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(2e-6)
    yield
    sys.setswitchinterval(before_s)


@pytest.mark.usefixtures("hurried_threads")
def test_updates_may_be_copied_while_another_thread_adds_to_them() -> None:
    updates, parts, told = AckUpdates(), [], AckUpdates()

    def add_many() -> None:
        for number in range(1, 401):
            updates.add_init(number << 20, number, 7)
            updates.add_ack(number << 20, 1 << 40)
            updates.add_ack((number % 5) + 1, number)
            updates.fails.update([number])

    thread = threading.Thread(target=add_many)
    thread.start()
    while thread.is_alive():
        latest = so_far(updates)
        parts.append(remainder(latest, told))
        told = latest
    thread.join()
    parts.append(remainder(updates, told))
    assert sums(*parts) == sums(updates)
    assert [one for part in parts for one, *_ in inits(part)] == [number << 20 for number in range(1, 401)]
    assert set().union(*(part.fails for part in parts)) == set(range(1, 401))


class EmitsForEach(Spout):
    """Emits a tuple for each of two bolts in its first call."""

    outputs = {"left": ["n"], "right": ["n"]}

    def __init__(self, acked: Log, failed: Log) -> None:
        self.acked = acked
        self.failed = failed
        self.has_emitted = False

    def next_tuple(self) -> None:
        if not self.has_emitted:
            self.has_emitted = True
            self.collector.emit([1], "quick", "left")
            self.collector.emit([2], "stuck", "right")

    def ack(self, msg_id: Any) -> None:
        self.acked.append(msg_id)

    def fail(self, msg_id: Any) -> None:
        self.failed.append(msg_id)


def test_what_neighbours_acked_in_the_same_turn_does_not_wait_for_a_call_that_hangs(latch: Latch) -> None:
    """One turn: the spout emits a tuple for each bolt, the quick bolt acks its own, and the other one hangs."""
    acked, failed = Log(), Log()
    builder = TopologyBuilder()
    builder.set_spout("spout", EmitsForEach(acked, failed))
    quick = DoBasic(lambda tup, collector: None, ["n"])
    builder.set_bolt("quick", quick).shuffle_grouping("spout", "left")
    stuck = DoBasic(lambda tup, collector: latch.wait())
    builder.set_bolt("stuck", stuck).shuffle_grouping("spout", "right").shuffle_grouping("quick")
    conf = {"topology.transfer.batch.size": 1, "topology.flush.interval.ms": 600_000}
    with LocalCluster() as cluster:
        cluster.submit("t", builder.create_topology(), conf)
        cluster.wait_until(lambda: list(acked) == ["quick"], ENOUGH_S)
        assert not latch.is_set()
        latch.set()
        cluster.wait_until(lambda: list(acked) == ["quick", "stuck"], ENOUGH_S)
        assert not list(failed)
