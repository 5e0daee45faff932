"""Chart data of a component: the last ten minutes in points of five seconds, on a monotonic clock."""

from __future__ import annotations  # pure

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from tupletree._wire.user_counts import of_inputs, of_streams
from tupletree.v1 import nimbus_pb2 as rpc

STEP_S: Final = 5.0
KEPT_S: Final = 600.0


@dataclass(frozen=True)
class Moment:
    """All-time sums over a component's tasks, and the present numbers of pending trees and queued tuples."""

    at_s: float
    emitted: float
    executed: float
    acked: float
    failed: float
    latencies: Sequence[float]  # by bucket: complete latencies of a spout, process latencies of a bolt
    pending: int
    queued: int = 0


@dataclass(frozen=True)
class Point:
    """Rates between two samples, and the latencies measured between them, by bucket."""

    at_s: float
    emitted_per_s: float
    executed_per_s: float
    acked_per_s: float
    failed_per_s: float
    latencies: Sequence[int]
    pending: int
    queued: int


class TimeSeries:
    """Points of one component."""

    def __init__(self) -> None:
        self.points: deque[Point] = deque(maxlen=round(KEPT_S / STEP_S))
        self._last: Moment | None = None

    def add_sample(self, now: Moment) -> None:
        """Add a sample of the sums. The first sample makes no point."""
        before, self._last = self._last, now
        if before is None or now.at_s <= before.at_s:
            return
        took_s = now.at_s - before.at_s
        buckets = zip_longest(now.latencies, before.latencies, fillvalue=0)
        self.points.append(
            Point(
                at_s=now.at_s,
                emitted_per_s=max(0.0, now.emitted - before.emitted) / took_s,
                executed_per_s=max(0.0, now.executed - before.executed) / took_s,
                acked_per_s=max(0.0, now.acked - before.acked) / took_s,
                failed_per_s=max(0.0, now.failed - before.failed) / took_s,
                latencies=tuple(max(0, round(new - old)) for new, old in buckets),
                pending=now.pending,
                queued=now.queued,
            )
        )

    def credit(self, more: Moment) -> None:
        """Include a newly reported task in the sums. Its counts so far appear in no point."""
        last = self._last
        if last is not None:
            self._last = Moment(
                at_s=last.at_s,
                emitted=last.emitted + more.emitted,
                executed=last.executed + more.executed,
                acked=last.acked + more.acked,
                failed=last.failed + more.failed,
                latencies=tuple(a + b for a, b in zip_longest(last.latencies, more.latencies, fillvalue=0)),
                pending=last.pending,
            )


def summed(series: Sequence[Sequence[Point]]) -> list[Point]:
    """Add up components that were sampled at the same times, point by point, aligned at the newest point."""
    length = min(map(len, series), default=0)
    together = zip(*(list(one)[len(one) - length :] for one in series), strict=True)
    return [
        Point(
            at_s=points[0].at_s,
            emitted_per_s=sum(one.emitted_per_s for one in points),
            executed_per_s=sum(one.executed_per_s for one in points),
            acked_per_s=sum(one.acked_per_s for one in points),
            failed_per_s=sum(one.failed_per_s for one in points),
            latencies=tuple(map(sum, zip_longest(*(one.latencies for one in points), fillvalue=0))),
            pending=sum(one.pending for one in points),
            queued=sum(one.queued for one in points),
        )
        for points in together
    ]


def moment_of(stats: rpc.TaskStats, now_s: float) -> Moment:
    """Return a sample from the counters of a task or of a sum of tasks."""
    executed, acked, failed = of_inputs(stats, "executed", "acked", "failed")
    return Moment(
        at_s=now_s,
        emitted=of_streams(stats, "emitted"),
        executed=executed,
        acked=acked,
        failed=failed,
        latencies=tuple(stats.complete_buckets or stats.process_buckets),
        pending=stats.pending,
        queued=stats.queued,
    )
