"""Emission for one batch: every tuple carries the attempt, and tuples are counted per receiving task."""

from __future__ import annotations  # pure

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import Any

from tupletree.attempt import TransactionAttempt
from tupletree.component import BoltCollector, TopologyContext
from tupletree.errors import EmitError
from tupletree.outputs import REPORT_STREAM
from tupletree.transactional.attempt_field import ATTEMPT, Carried, plain_row
from tupletree.transactional.bolts import BatchCollector
from tupletree.tuples import Tuple


class Emission(BatchCollector):
    """The collector of one batch at one task of a component that names the attempt (attempt_field.py).

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
                f"{first!r}: its first declared field is {ATTEMPT!r}, so the value must be the attempt of the batch, "
                f"here {self.attempt} (a BatchBolt has it as self.batch_id, a BasicBolt as tup[0], an emitter is given "
                f"it); or remove {ATTEMPT!r} from outputs, and the row is complete without it"
            )
        if first != self.attempt:
            raise EmitError(
                f"component {self._component_id!r} emitted a tuple of {first} on stream {stream!r} while processing "
                f"{self.attempt}: a batch may emit only its own tuples"
            )
        if self._is_over:
            raise self._late(stream)

    def _late(self, stream: str) -> EmitError:
        return EmitError(
            f"component {self._component_id!r} emitted a tuple of {self.attempt} on stream {stream!r} after that batch "
            f"was finished"
        )


class CarryingEmission(Emission):
    """The collector of one batch at one task of a component for which the attempt is carried.

    ``carried``: the declared fields of each stream.
    """

    def __init__(
        self, attempt: TransactionAttempt, component_id: str, collector: BoltCollector, carried: Carried
    ) -> None:
        super().__init__(attempt, component_id, collector)
        self._carried = carried

    def emit(self, values: Sequence[Any], stream: str = "default") -> tuple[int, ...]:
        tasks = self._collector.emit(self._row(values, stream), None, stream)
        self.rows += 1
        for task in tasks:
            self.counts[task] += 1
        return tasks

    def emit_direct(self, task: int, values: Sequence[Any], stream: str = "default") -> None:
        self._collector.emit_direct(task, self._row(values, stream), None, stream)
        self.rows += 1
        self.counts[task] += 1

    def _row(self, values: Sequence[Any], stream: str) -> Sequence[Any]:
        """Return the values after the attempt.

        Raises:
            EmitError: the batch is finished, or the values are not a row of the stream.
        """
        fields = self._carried.get(stream)
        if self._is_over:
            raise self._late(stream)
        if fields is None:
            return values  # which the collector refuses, with the streams that there are
        if type(values) is not list and type(values) is not tuple:
            values = self._listed(values, stream, fields)
        if len(values) != len(fields):
            raise self._misfit(f"{len(values)} value{'s' * (len(values) != 1)}", values, stream, fields)
        return [self.attempt, *values]

    def _listed(self, values: Any, stream: str, fields: Sequence[str]) -> Sequence[Any]:
        """Return a row that is neither a list nor a tuple as a list. The names of a dataclass are those of fields."""
        row = plain_row(values)
        if dataclasses.is_dataclass(values) and all(hasattr(values, name) for name in fields):
            row = [getattr(values, name) for name in fields]
        if type(row) is not list:
            raise self._misfit(f"an object of {type(values).__name__}", (), stream, fields)
        return row

    def _misfit(self, found: str, values: Sequence[Any], stream: str, fields: Sequence[str]) -> EmitError:
        row = ", ".join(fields)
        advice = f"write [{row}]"
        if values and type(values[0]) is TransactionAttempt:
            found += ", the first of which is the attempt,"
            advice += f" without the attempt, or declare {ATTEMPT!r} as the first field of the component's streams"
        return EmitError(
            f"component {self._component_id!r} emitted {found} on stream {stream!r}, which declares {len(fields)}: "
            f"{row}; {advice}"
        )


def new_emission(
    attempt: TransactionAttempt, component_id: str, collector: BoltCollector, carried: Carried | None
) -> Emission:
    """Return the collector of a batch. ``carried``: as ``carry_attempt`` returned it for the component."""
    if carried is None:
        return Emission(attempt, component_id, collector)
    return CarryingEmission(attempt, component_id, collector, carried)


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
