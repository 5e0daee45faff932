"""What a task counts: in all, by the stream that a tuple came on, and by the stream that a tree was begun on.

Nothing is counted twice. A task that subscribes to one stream, and a spout with one stream, count only totals: all of
them belong to that stream (reporting/task_stats.py fills them in). With several streams, each run of rows is counted
once for its stream, while acks, fails and trees are counted one by one, at the cost of a dictionary lookup each.

Latencies are of every 20th tuple or so (``topology.stats.sample.rate``): sums, and counts by bucket.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass

from tupletree._wire.latency import FINE_BOUNDS_S
from tupletree.outputs import CHECKPOINT_STREAM, RESERVED_PREFIXES
from tupletree.tuples import Origin

NEVER = 1 << 60
"""No task counts as far: the tuple to be sampled next where none is."""


_BOUNDS_S = array("d", FINE_BOUNDS_S)  # compiled, as memory: without objects


def sample_every(rate: float) -> int:
    """One tuple in so many is to be measured."""
    return round(1 / rate) if rate else NEVER


class InputCounts:
    """What came of the tuples of one stream; see InputStats in nimbus.proto."""

    __slots__ = ("acked", "execute_s", "executed", "failed", "process_s_sum", "process_samples")

    def __init__(self) -> None:
        self.executed = 0
        self.acked = 0
        self.failed = 0
        self.execute_s = 0.0
        self.process_s_sum = 0.0
        self.process_samples = 0

    def ran(self, executed: int, elapsed_s: float) -> None:
        """So many were executed, in so much time."""
        self.executed += executed
        self.execute_s += elapsed_s

    def settled(self, executed: int, failed: int, elapsed_s: float) -> None:
        """So many were executed; some failed, and the others were acked."""
        self.executed += executed
        self.execute_s += elapsed_s
        self.acked += executed - failed
        self.failed += failed

    def processed(self, latency_s: float) -> None:
        """A sampled tuple was acked."""
        self.process_s_sum += latency_s
        self.process_samples += 1


def count_in(counts: list[int], latency_s: float) -> None:
    """Count a latency in its bucket (latency.py): ``bisect_left``, but compiled no comparison makes an object."""
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
    """What a task has done since it started; see TaskStats in nimbus.proto for the meaning of each."""

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
        """A sampled tuple was acked."""
        self.process_s_sum += latency_s
        self.process_samples += 1
        count_in(self.process_counts, latency_s)

    def completed(self, latency_s: float) -> None:
        """A sampled tree is complete."""
        self.complete_s_sum += latency_s
        self.complete_samples += 1
        count_in(self.complete_counts, latency_s)


class Inputs(dict[Origin, InputCounts]):
    """The counts of a task with several input streams, by where a tuple comes from: one for all tasks of a component.

    Written by the task's thread. ``by_stream`` may be read by any: (component, stream) to counts.
    """

    def __init__(self) -> None:
        super().__init__()
        self.by_stream: dict[tuple[str, str], InputCounts] = {}

    def __missing__(self, origin: Origin) -> InputCounts:
        counts = self.by_stream.setdefault((origin.component, origin.stream), InputCounts())
        self[origin] = counts
        return counts


def inputs_of(sources: Iterable[tuple[str, str]], has_ticks: bool) -> Inputs | None:
    """Counts by stream for a task that gets tuples on several, given what it subscribes to; ticks are one of them."""
    return Inputs() if len(data_streams(sources)) + has_ticks > 1 else None


def data_streams(sources: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Of the streams that a task subscribes to, those that it executes: not the steps of checkpoints."""
    return [source for source in sources if source[1] != CHECKPOINT_STREAM]


@dataclass(slots=True)
class TreeCounts:
    """What came of the trees that a spout has begun on one stream; see StreamStats in nimbus.proto."""

    acked: int = 0
    failed: int = 0
    complete_s_sum: float = 0.0
    complete_samples: int = 0

    def completed(self, latency_s: float) -> None:
        """A sampled tree of it is complete."""
        self.complete_s_sum += latency_s
        self.complete_samples += 1


class TreesByStream:
    """The counts of a spout with several streams: on which of them each pending tree was begun."""

    def __init__(self, streams: Iterable[str]) -> None:
        self.counts = {stream: TreeCounts() for stream in streams}
        self._pending: dict[int, TreeCounts] = {}

    def began(self, root: int, stream: str) -> None:
        """A tree was begun by an emit on a stream."""
        self._pending[root] = self.counts[stream]

    def acked(self, roots: Iterable[int]) -> None:
        """These trees are complete. One that is not pending any more is not counted."""
        for root in roots:
            if (counts := self._pending.pop(root, None)) is not None:
                counts.acked += 1

    def failed(self, roots: Iterable[int]) -> None:
        """These trees failed, or timed out."""
        for root in roots:
            if (counts := self._pending.pop(root, None)) is not None:
                counts.failed += 1

    def of(self, root: int) -> TreeCounts | None:
        """The counts of the stream of a pending tree."""
        return self._pending.get(root)

    def forget(self) -> None:
        """Nobody waits for the pending trees any more."""
        self._pending.clear()


def own_streams(streams: Iterable[str]) -> list[str]:
    """Of a component's streams, those that its user declared; all of them where there is no such."""
    declared = list(streams)
    return [name for name in declared if not name.startswith(RESERVED_PREFIXES)] or declared
