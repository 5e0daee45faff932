"""The last ten minutes of a component, in points of five seconds, for charts. Seconds of a monotonic clock."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from tupletree.v1 import nimbus_pb2 as rpc

STEP_S: Final = 5.0
KEPT_S: Final = 600.0


@dataclass(frozen=True)
class Moment:
    """Sums over a component's tasks since ever, and what is pending or waiting now."""

    at_s: float
    emitted: float
    executed: float
    acked: float
    failed: float
    latencies: Sequence[float]  # by bucket: of a spout complete, of a bolt process latencies
    pending: int
    queued: int = 0


@dataclass(frozen=True)
class Point:
    """What happened between two moments, per second; the latencies measured then, by bucket."""

    at_s: float
    emitted_per_s: float
    executed_per_s: float
    acked_per_s: float
    failed_per_s: float
    latencies: Sequence[int]
    pending: int
    queued: int


class TimeSeries:
    """The points of one topology."""

    def __init__(self) -> None:
        self.points: deque[Point] = deque(maxlen=round(KEPT_S / STEP_S))
        self._last: Moment | None = None

    def note(self, now: Moment) -> None:
        """The sums at this moment. The first one makes no point."""
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
        """A task that was not heard of before is part of the sums from now on: what it did so far is no news."""
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
    """Several components as one, point by point of the newest; of components noted at the same moments."""
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
    """What a task, or the sum of some, stands at."""
    return Moment(
        at_s=now_s,
        emitted=sum(stream.emitted for stream in stats.streams),
        executed=stats.executed,
        acked=stats.acked,
        failed=stats.failed,
        latencies=tuple(stats.complete_buckets or stats.process_buckets),
        pending=stats.pending,
        queued=stats.queued,
    )
