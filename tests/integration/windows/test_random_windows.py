"""Windowed bolts in running topologies: all combinations of lengths evaluate what a plain computation does, in event
and in processing time, and every tuple is acked once, as soon as it has been in its last window, and not before.
"""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
from local_components import Keep, Log
from window_reference import Reference, late

from tupletree import Topology, TopologyBuilder, Window, WindowedBolt
from tupletree.testing import FeederSpout, LocalCluster
from tupletree.windows import Count, Duration

Length = Count | Duration
COMBINATIONS = [
    *itertools.product((Count(5), Duration(4)), (Count(2), Duration(2))),
    *((length, length) for length in (Count(3), Duration(3))),
    (Count(2), Count(5)),
    (Duration(2), Duration(5)),
]
SECOND = 1_000_000


class Numbers(WindowedBolt):
    """Emits the numbers in each window, the new and the expired ones, and its times."""

    outputs = ["all", "new", "expired", "start", "end"]

    def execute_window(self, window: Window) -> None:
        parts: list[Any] = [[tup["n"] for tup in part] for part in (window, window.new, window.expired)]
        self.collector.emit([*parts, window.start, window.end])


def numbers(feeders: dict[str, FeederSpout], bolt: WindowedBolt, log: Log) -> Topology:
    builder = TopologyBuilder()
    declarer = builder.set_bolt("numbers", bolt)
    for name, feeder in feeders.items():
        builder.set_spout(name, feeder)
        declarer.shuffle_grouping(name)
    builder.set_bolt("keep", Keep(log)).shuffle_grouping("numbers")
    return builder.create_topology()


def found(log: Log) -> list[tuple[Any, ...]]:
    return [tuple(values[:3]) for _, values in log]


def expected(reference: Reference) -> list[tuple[Any, ...]]:
    return [
        tuple([arrival for _, arrival in part] for part in (window.tuples, window.new, window.expired))
        for window in reference.windows
    ]


@pytest.mark.long
@pytest.mark.parametrize(("length", "slide"), COMBINATIONS)
@pytest.mark.parametrize("seed", range(2))
def test_processing_time(cluster: LocalCluster, length: Length, slide: Length, seed: int) -> None:
    rng = random.Random(seed)
    log, feeder, reference = Log(), FeederSpout(["n"]), Reference(length, slide)
    cluster.submit("t", numbers({"a": feeder}, Numbers().with_window(length, slide), log))
    now_us = 0
    for _ in range(60):
        if rng.random() < 0.6:
            row = reference.add(now_us)
            feeder.feed([row[1]], row[1])
        else:
            pause_s = rng.choice([1, 1, 1, 2, 7])
            cluster.advance(pause_s)
            now_us += pause_s * SECOND
        cluster.wait_quiet()
        reference.advance(now_us)
        held = {arrival for _, arrival in reference.held()}
        assert sorted(feeder.acked) == sorted({arrival for _, arrival in reference.rows} - held)
    assert found(log) == expected(reference)
    assert feeder.failed == []
    first_end_s = log[0][1][4] - reference.windows[0].end / SECOND  # the Unix time at which the bolt began
    for (_, values), window in zip(log, reference.windows, strict=True):
        assert values[4] - first_end_s == pytest.approx(window.end / SECOND, abs=1e-4)
        assert (values[3] is None) == isinstance(length, Count)


@pytest.mark.long
@pytest.mark.parametrize(("length", "slide"), COMBINATIONS)
@pytest.mark.parametrize(("seed", "lag"), [(0, 0), (1, 3)])
def test_event_time_of_two_streams_with_late_tuples(
    cluster: LocalCluster, length: Length, slide: Length, seed: int, lag: int
) -> None:
    rng = random.Random(seed)
    log, reference = Log(), Reference(length, slide)
    feeders = {name: FeederSpout(["n", "at"]) for name in ("a", "b")}
    bolt = Numbers().with_window(length, slide).with_timestamp_field("at").with_lag(Duration(lag))
    cluster.submit("t", numbers(feeders, bolt, log))
    events: list[tuple[str, int] | None] = []
    late_ids: list[str] = []
    for step in range(80):
        if rng.random() < 0.8:
            name, at_s = rng.choice("ab"), step // 3 + rng.randint(-4, 4)
            events.append((name, at_s * SECOND))
            if late(events, {"a", "b"}, lag * SECOND)[-1]:
                late_ids.append(f"late {step}")
                feeders[name].feed([-1, at_s], late_ids[-1])
            else:
                row = reference.add(at_s * SECOND)
                feeders[name].feed([row[1], at_s], row[1])
        else:
            events.append(None)
            cluster.advance(1)
        cluster.wait_quiet()
        came = [event for event in events[: _last_look(events)] if event is not None]
        if {name for name, _ in came} == {"a", "b"}:
            latest = [max(at_us for one, at_us in came if one == name) for name in "ab"]
            watermark_us = min(latest) - lag * SECOND
            reference.advance(max(watermark_us, watermark_us if reference.reached is None else reference.reached))
        held = {arrival for _, arrival in reference.held()}
        acked = feeders["a"].acked + feeders["b"].acked
        assert sorted(map(str, acked)) == sorted(
            [*late_ids, *(str(arrival) for _, arrival in reference.rows if arrival not in held)]
        )
    assert len(reference.windows) > 3
    assert found(log) == expected(reference)
    assert [values[4] for _, values in log] == [window.end / SECOND for window in reference.windows]
    assert [values[3] for _, values in log] == [
        None if window.start is None else window.start / SECOND for window in reference.windows
    ]
    assert late_ids or lag


def _last_look(events: list[tuple[str, int] | None]) -> int:
    """Up to where the watermark has looked."""
    return max((at for at, event in enumerate(events) if event is None), default=0)
