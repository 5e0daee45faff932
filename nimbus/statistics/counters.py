"""Counters as a flat mapping, so that tasks and samples can be added and subtracted generically.

    "executed"                            a task's own counter
    ("stream", "default", "emitted")      counter of one output stream
    ("input", "words", "default", "acked")  counter of one input stream
    ("process", 7)                        latencies in bucket 7 (tupletree/_wire/latency.py), likewise "complete"

``emitted`` and ``transferred`` are sums over user streams. ``system_emitted`` and ``system_transferred`` are sums over
system streams, whose names begin with ``__`` or ``$``. What a task executed, acked and failed is of user streams only.
"""

from __future__ import annotations  # pure

from collections.abc import Mapping, Sequence
from typing import Final

from tupletree._wire.latency import percentile_s
from tupletree._wire.names import is_system
from tupletree._wire.user_counts import of_inputs
from tupletree.v1 import nimbus_pb2 as rpc

Key = str | tuple[str | int, ...]
Counts = dict[Key, float]

TASK_COUNTERS: Final = (
    "executed",
    "acked",
    "failed",
    "execute_s",
    "process_s_sum",
    "process_samples",
    "complete_s_sum",
    "complete_samples",
    "timeouts",
    "unheard",
)
GAUGES: Final = ("queued", "pending")
SUMS: Final = ("emitted", "transferred", "system_emitted", "system_transferred")
STREAM_COUNTERS: Final = ("emitted", "transferred", "acked", "failed", "complete_s_sum", "complete_samples")
USER_COUNTERS: Final = ("executed", "acked", "failed", "execute_s")
INPUT_COUNTERS: Final = ("executed", "acked", "failed", "execute_s", "process_s_sum", "process_samples")


def scalars_of(stats: rpc.TaskStats) -> Counts:
    """Return a task's own counters and sums, without streams, inputs and latency buckets."""
    counts: Counts = {name: getattr(stats, name) for name in TASK_COUNTERS}
    counts.update(zip(USER_COUNTERS, of_inputs(stats, *USER_COUNTERS), strict=True))
    emitted = transferred = system_emitted = system_transferred = 0
    for stream in stats.streams:
        if is_system(stream.stream):
            system_emitted += stream.emitted
            system_transferred += stream.transferred
        else:
            emitted += stream.emitted
            transferred += stream.transferred
    counts.update(zip(SUMS, (emitted, transferred, system_emitted, system_transferred), strict=True))
    return counts


def counts_of(stats: rpc.TaskStats) -> Counts:
    """Return all counters of a task, or of a sum of tasks."""
    counts = scalars_of(stats)
    for stream in stats.streams:
        for name in STREAM_COUNTERS:
            counts["stream", stream.stream, name] = getattr(stream, name)
    for one in stats.inputs:
        for name in INPUT_COUNTERS:
            counts["input", one.source_component, one.stream, name] = getattr(one, name)
    for kind, buckets in (("process", stats.process_buckets), ("complete", stats.complete_buckets)):
        for bucket, count in enumerate(buckets):
            if count:
                counts[kind, bucket] = count
    return counts


def add_counts(total: Counts, more: Mapping[Key, float]) -> None:
    """Add counters to ``total`` in place."""
    for key, count in more.items():
        total[key] = total.get(key, 0) + count


class Figures:
    """Metrics derived from the counters of a task, executor, component or topology in one window."""

    def __init__(self, counts: Mapping[Key, float]) -> None:
        self.counts = counts

    def count(self, key: Key) -> int:
        return round(self.counts.get(key, 0))

    def emitted(self, sys: bool = False) -> int:
        return self.count("emitted") + (self.count("system_emitted") if sys else 0)

    def transferred(self, sys: bool = False) -> int:
        return self.count("transferred") + (self.count("system_transferred") if sys else 0)

    @property
    def execute_ms(self) -> float:
        return self._mean_ms("execute_s", "executed")

    @property
    def process_ms(self) -> float:
        return self._mean_ms("process_s_sum", "process_samples")

    @property
    def complete_ms(self) -> float:
        return self._mean_ms("complete_s_sum", "complete_samples")

    def percentile_ms(self, kind: str, share: float) -> float | None:
        """Return a percentile of ``process`` or ``complete`` latencies; None if nothing was measured."""
        return _percentile_ms(self.buckets(kind), share)

    def buckets(self, kind: str) -> list[int]:
        """Return the number of latencies per bucket; empty if there are none."""
        found = {
            key[1]: round(count) for key, count in self.counts.items() if isinstance(key, tuple) and key[0] == kind
        }
        return [found.get(bucket, 0) for bucket in range(max(map(int, found), default=-1) + 1)]

    def streams(self, sys: bool = False) -> list[str]:
        """Return the output streams, ascending."""
        found = {str(key[1]) for key in self.counts if isinstance(key, tuple) and key[0] == "stream"}
        return sorted(one for one in found if sys or not is_system(one))

    def inputs(self, sys: bool = False) -> list[tuple[str, str]]:
        """Return the source component and stream of each input, ascending."""
        found = {(str(key[1]), str(key[2])) for key in self.counts if isinstance(key, tuple) and key[0] == "input"}
        return sorted(one for one in found if sys or not (is_system(one[0]) or is_system(one[1])))

    def stream(self, stream: str, name: str) -> int:
        return self.count(("stream", stream, name))

    def stream_complete_ms(self, stream: str) -> float:
        return self._mean_ms(("stream", stream, "complete_s_sum"), ("stream", stream, "complete_samples"))

    def input(self, source: tuple[str, str], name: str) -> int:
        return self.count(("input", *source, name))

    def input_ms(self, source: tuple[str, str], total: str, samples: str) -> float:
        return self._mean_ms(("input", *source, total), ("input", *source, samples))

    def _mean_ms(self, total: Key, samples: Key) -> float:
        number = self.counts.get(samples, 0)
        return 1000 * self.counts.get(total, 0) / number if number > 0 else 0.0


def _percentile_ms(buckets: Sequence[int], share: float) -> float | None:
    found = percentile_s(buckets, share)
    return None if found is None else 1000 * found
