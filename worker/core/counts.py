"""Counters of a task: totals, counts per input stream, and counts per stream on which a spout begins trees.

No separate counts are kept where the totals suffice. A task that subscribes to one stream counts only totals, which all
belong to this stream (reporting/task_stats.py fills in the counts per stream). With several streams, each run of rows
is counted once for its stream. Acks and fails are counted individually, at the cost of one dictionary lookup each.

A pending tree that a spout began on another stream than its first has a pointer to the counts of its stream
(spout_task.py): dead letters beside messages cost the messages nothing.

Latencies are sampled, by default from every 20th tuple (``topology.stats.sample.rate``), and kept as sums and as counts
per bucket.
"""

from __future__ import annotations  # pure

from array import array
from collections.abc import Iterable

from tupletree._wire.latency import FINE_BOUNDS_S
from tupletree.outputs import CHECKPOINT_STREAM, RESERVED_PREFIXES
from tupletree.tuples import Origin

NEVER = 1 << 60
"""Larger than any count of a task: the number of the next tuple to sample when sampling is off."""


_BOUNDS_S = array("d", FINE_BOUNDS_S)  # when compiled, read as raw memory, without objects


def sample_every(rate: float) -> int:
    """Return n, where every n-th tuple is to be measured."""
    return round(1 / rate) if rate else NEVER


class InputCounts:
    """Counts of the tuples of one input stream; see InputStats in nimbus.proto."""

    __slots__ = ("acked", "execute_s", "executed", "failed", "process_s_sum", "process_samples")

    def __init__(self) -> None:
        self.executed = 0
        self.acked = 0
        self.failed = 0
        self.execute_s = 0.0
        self.process_s_sum = 0.0
        self.process_samples = 0

    def ran(self, executed: int, elapsed_s: float) -> None:
        """Count executed tuples and the time that they took."""
        self.executed += executed
        self.execute_s += elapsed_s

    def count_executed(self, executed: int, failed: int, elapsed_s: float) -> None:
        """Count executed tuples, of which some failed and the others were acked."""
        self.executed += executed
        self.execute_s += elapsed_s
        self.acked += executed - failed
        self.failed += failed

    def processed(self, latency_s: float) -> None:
        """Record the latency of a sampled tuple that was acked."""
        self.process_s_sum += latency_s
        self.process_samples += 1


def count_in(counts: list[int], latency_s: float) -> None:
    """Count a latency in its bucket (latency.py). Like ``bisect_left``, but creates no objects when compiled."""
    bounds = _BOUNDS_S
    low, high = 0, len(bounds)
    while low < high:
        middle = (low + high) // 2
        if bounds[middle] < latency_s:
            low = middle + 1
        else:
            high = middle
    missing = low + 1 - len(counts)
    if missing > 0:
        counts.extend([0] * missing)
    counts[low] += 1


class Counters(InputCounts):
    """Counters of a task since it started; TaskStats in nimbus.proto describes each."""

    __slots__ = ("complete_counts", "complete_s_sum", "complete_samples", "process_counts", "timeouts", "unheard")

    def __init__(self) -> None:
        super().__init__()
        self.timeouts = 0
        self.unheard = 0
        self.complete_s_sum = 0.0
        self.complete_samples = 0
        self.process_counts: list[int] = []
        self.complete_counts: list[int] = []

    def processed(self, latency_s: float) -> None:
        """Record the latency of a sampled tuple that was acked."""
        self.process_s_sum += latency_s
        self.process_samples += 1
        count_in(self.process_counts, latency_s)

    def completed(self, latency_s: float) -> None:
        """Record the latency of a sampled tree that is complete."""
        self.complete_s_sum += latency_s
        self.complete_samples += 1
        count_in(self.complete_counts, latency_s)


class Inputs(dict[Origin, InputCounts]):
    """Counts of a task with several input streams, by origin. All tasks of a source component share the counts.

    Written only by the task's thread. ``by_stream`` maps (component, stream) to counts; any thread may read it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.by_stream: dict[tuple[str, str], InputCounts] = {}

    def __missing__(self, origin: Origin) -> InputCounts:
        counts = self.by_stream.setdefault((origin.component, origin.stream), InputCounts())
        self[origin] = counts
        return counts


def inputs_of(sources: Iterable[tuple[str, str]], has_ticks: bool) -> Inputs | None:
    """Return counts per stream if a task with these sources has several input streams; ticks count as a stream."""
    return Inputs() if len(data_streams(sources)) + has_ticks > 1 else None


def data_streams(sources: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the streams whose tuples the task executes: all streams except those of checkpoint steps."""
    return [source for source in sources if source[1] != CHECKPOINT_STREAM]


class TreeCounts:
    """Counts of the trees that a spout has begun on one stream; see StreamStats in nimbus.proto."""

    __slots__ = ("acked", "complete_s_sum", "complete_samples", "failed")

    def __init__(self) -> None:
        self.acked = 0
        self.failed = 0
        self.complete_s_sum = 0.0
        self.complete_samples = 0

    def completed(self, latency_s: float) -> None:
        """Record the latency of a sampled tree that is complete."""
        self.complete_s_sum += latency_s
        self.complete_samples += 1


def own_streams(streams: Iterable[str]) -> list[str]:
    """Return the streams of a component that its user declared, or all streams if the user declared none."""
    declared = list(streams)
    return [name for name in declared if not name.startswith(RESERVED_PREFIXES)] or declared
