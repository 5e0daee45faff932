"""Emission for one batch: the attempt of every tuple is checked, and tuples are counted per receiving task."""

from __future__ import annotations  # pure

from collections import Counter
from collections.abc import Sequence
from typing import Any

from tupletree.attempt import TransactionAttempt
from tupletree.component import BoltCollector, TopologyContext
from tupletree.errors import EmitError
from tupletree.outputs import REPORT_STREAM
from tupletree.transactional.bolts import BatchCollector
from tupletree.tuples import Tuple


class Emission(BatchCollector):
    """The collector of one batch at one task.

    ``counts``: number of tuples sent to each downstream task; ``rows``: number of emitted tuples.
    """

    def __init__(self, attempt: TransactionAttempt, component_id: str, collector: BoltCollector) -> None:
        self.attempt = attempt
        self.counts: Counter[int] = Counter()
        self.rows = 0
        self._component_id = component_id
        self._collector = collector
        self._is_over = False

    def emit(self, values: Sequence[Any], stream: str = "default") -> tuple[int, ...]:
        if self._is_over or not values or values[0] is not self.attempt:
            self._check(values, stream)
        tasks = self._collector.emit(values, None, stream)
        self.rows += 1
        for task in tasks:
            self.counts[task] += 1
        return tasks

    def emit_direct(self, task: int, values: Sequence[Any], stream: str = "default") -> None:
        self._check(values, stream)
        self._collector.emit_direct(task, values, None, stream)
        self.rows += 1
        self.counts[task] += 1

    def report_error(self, error: BaseException) -> None:
        self._collector.report_error(error)

    def end(self) -> None:
        """Forbid further emits for this batch, so that the reported counts stay true."""
        self._is_over = True

    def _check(self, values: Sequence[Any], stream: str) -> None:
        """Raise EmitError if the tuple has another attempt or this batch is finished."""
        first = values[0] if values else None
        if type(first) is not TransactionAttempt:
            raise EmitError(
                f"component {self._component_id!r} emitted a tuple on stream {stream!r} whose first value is "
                f"{first!r}: in a transactional topology it must be the attempt of the batch, here {self.attempt}; "
                f"a BatchBolt has it as self.batch_id, a BasicBolt as tup[0], an emitter as an argument"
            )
        if first != self.attempt:
            raise EmitError(
                f"component {self._component_id!r} emitted a tuple of {first} on stream {stream!r} while processing "
                f"{self.attempt}: a batch may emit only its own tuples"
            )
        if self._is_over:
            raise EmitError(
                f"component {self._component_id!r} emitted a tuple of {first} on stream {stream!r} after that batch "
                f"was finished"
            )


class Reports:
    """Sends a task's reports, which tell downstream tasks that the task has finished a batch."""

    def __init__(self, context: TopologyContext, collector: BoltCollector) -> None:
        subscribers = context.targets.get(REPORT_STREAM, {})
        self._targets = sorted(task for component in subscribers for task in context.component_tasks(component))
        self._collector = collector

    def send(self, emission: Emission, committed: int, anchor: Tuple) -> None:
        """Report the counts of ``emission`` to every downstream task, anchored to a control tuple of the batch."""
        emission.end()
        attempt, counts = emission.attempt, emission.counts
        for task in self._targets:
            self._collector.emit_direct(task, [attempt, counts.get(task, 0), committed], anchor, REPORT_STREAM)
