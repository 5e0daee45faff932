"""The counts of a component in a LocalCluster."""

from __future__ import annotations  # pure

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tupletree.outputs import RESERVED_PREFIXES
from tupletree.v1 import nimbus_pb2

ERRORS_SHOWN: Final = 3
"""The number of reported errors, the newest, that ``progress_lines`` shows."""


@dataclass(frozen=True, slots=True)
class ComponentCounts:
    """The counts of all tasks of a component since the topology started, without checkpoints and watermarks.

    Attributes:
        executed: the tuples that a bolt has executed.
        emitted: the tuples that were emitted, on all streams.
        acked: the messages of a spout that are processed, also those without a tuple; the tuples that a bolt has acked.
        failed: the trees of a spout, or the tuples of a bolt, that failed.
        waiting: the tuples that wait for a bolt, or the pending trees of a spout, now.
    """

    executed: int = 0
    emitted: int = 0
    acked: int = 0
    failed: int = 0
    waiting: int = 0

    def __add__(self, other: ComponentCounts) -> ComponentCounts:
        return ComponentCounts(
            self.executed + other.executed,
            self.emitted + other.emitted,
            self.acked + other.acked,
            self.failed + other.failed,
            self.waiting + other.waiting,
        )


def counts_of(stats: nimbus_pb2.TaskStats) -> ComponentCounts:
    """Return the counts of a task from its statistics."""
    own = [one.emitted for one in stats.streams if not one.stream.startswith(RESERVED_PREFIXES)]
    return ComponentCounts(stats.executed, sum(own), stats.acked, stats.failed, stats.queued + stats.pending)


def progress_lines(
    name: str,
    counts: Mapping[str, ComponentCounts],
    statuses: Mapping[tuple[str, int], Mapping[str, Any]],
    errors: Sequence[tuple[str, BaseException]],
) -> Iterator[str]:
    """Yield what a topology has done so far, for somebody who waits for it in vain."""
    yield f"topology {name!r} so far:"
    for component, count in counts.items():
        done = ", ".join(f"{field} {getattr(count, field)}" for field in count.__slots__ if getattr(count, field))
        yield f"  {component}: {done or 'nothing'}"
    for (component, task), status in statuses.items():
        yield f"  {component}, task {task}: {status}"
    if len(errors) > ERRORS_SHOWN:
        yield f"  {len(errors)} errors were reported; the last {ERRORS_SHOWN} are:"
    for component, error in errors[-ERRORS_SHOWN:]:
        yield f"  {component} reported {type(error).__name__}: {error}"
