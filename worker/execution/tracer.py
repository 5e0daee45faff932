"""The tracer as executors see it; the implementation is worker/debugging/tracing.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tupletree.tuples import Origin

from ..core.basic_bolt_task import BasicBoltTask
from ..core.batches import EncodedBatch, Rows
from ..core.bolt_task import BoltTask
from ..core.spout_task import SpoutTask


class Tracer(Protocol):
    """Recorder of every hop of the traced trees. Each method is called on the thread that does the traced work."""

    def sent(self, origin: Origin, target: int, rows: Rows) -> None:
        """Record the traced rows of a batch that is sent to its target, or to several."""

    def received(self, message: EncodedBatch) -> None:
        """Record the traced rows of a batch from another worker."""

    def run(self, task: BasicBoltTask | BoltTask, rows: Rows, start: int, stop: int, origin: Origin) -> int:
        """Run rows as the task's ``run`` does, but the rows of traced trees one at a time."""

    def judged(self, spout: SpoutTask, verdict: str, roots: Sequence[int]) -> None:
        """Record verdicts that a spout is about to receive."""
