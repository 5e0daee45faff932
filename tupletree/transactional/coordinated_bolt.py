"""Bolt that wraps a user's batch bolt or basic bolt, and takes part in the counting on its behalf.

``BatchCounts`` (counting.py) makes the decisions; this module carries them out.
"""

from __future__ import annotations

import copy
import functools
import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, assert_never

from tupletree._log import event
from tupletree._signatures import check_returned
from tupletree.attempt import TransactionAttempt
from tupletree.component import RAISE_FAILED_FOR_BATCH, BasicBolt, Bolt, BoltCollector, TopologyContext
from tupletree.errors import FailedException, ReportedFailedException, UnavailableError
from tupletree.outputs import REPORT_STREAM
from tupletree.transactional.attempt_field import Carried, carry_attempt, without_first_field
from tupletree.transactional.bolts import BatchBolt
from tupletree.transactional.counting import Ack, Batch, BatchCounts, Effect, Fail, Finish, Forget
from tupletree.transactional.emission import Emission, Reports, new_emission
from tupletree.transactional.streams import COMMIT_STREAM, REPORT, attempts_of
from tupletree.tuples import SYSTEM_COMPONENT, Origin, Tuple

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Running:
    """A batch that a task is processing."""

    batch: Batch
    emission: Emission
    execute: Callable[[Tuple], object]
    finish: Callable[[], object]


class CoordinatedBolt(Bolt):
    """Runs one task of a transactional topology's bolt.

    ``sources``: the components that send batches to this bolt; the value is true if the component is late
    (counting.py). ``hidden``: those of them whose tuples the bolt receives without the attempt. ``is_opaque``: true if
    the spout is opaque. The builder sets these three when all components are known.
    ``carried``: the declared fields of each stream, or None if the bolt names the attempt (attempt_field.py).
    """

    _remedy = RAISE_FAILED_FOR_BATCH
    holds_tuples = True
    carried: Carried | None = None  # of the class: bolts submitted by earlier versions name the attempt
    hidden: Collection[str] = frozenset()

    def __init__(self, bolt: BatchBolt | BasicBolt, is_committer: bool) -> None:
        self.bolt = bolt
        self.is_committer = is_committer
        self.sources: Mapping[str, bool] = {}
        self.is_opaque = False
        self.blocking = bolt.blocking
        self.required_fields: Sequence[str] = getattr(bolt, "required_fields", ())

    @property
    def shows_attempt(self) -> bool:
        """True if a bolt that declares no outputs sees the attempt of this bolt's tuples."""
        return self.carried is None

    def declare_output_fields(self, declarer: Any) -> None:
        self.bolt.declare_output_fields(declarer)
        self.carried = carry_attempt(declarer)
        declarer.streams[REPORT.id] = REPORT  # last, so that reports are flushed after the tuples they count

    def component_configuration(self) -> Mapping[str, Any]:
        return self.bolt.component_configuration()

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext, collector: BoltCollector) -> None:
        self._conf = conf
        self.context = context
        self.collector = collector
        upstream = {task: late for source, late in self.sources.items() for task in context.component_tasks(source)}
        self._counts = BatchCounts(upstream, self.is_committer)
        self._reports = Reports(context, collector)
        self._running: dict[TransactionAttempt, Running] = {}
        self._latest: Running | None = None
        self._shown: dict[Origin, Origin] = {}
        if isinstance(self.bolt, BasicBolt):
            self.bolt.context = context
            self.bolt.prepare(conf, context)
            self.bolt.setup()

    def blob_updated(self, name: str, path: str) -> None:
        if isinstance(self.bolt, BasicBolt):  # a BatchBolt is made anew for each batch
            self.bolt.blob_updated(name, path)

    def cleanup(self) -> None:
        if isinstance(self.bolt, BasicBolt):
            self.bolt.teardown()
            self.bolt.cleanup()

    def execute(self, tup: Tuple) -> None:
        origin = tup._origin
        if origin.stream == REPORT_STREAM:
            attempt, count, committed = tup.values
            self._apply(self._counts.report(attempt, origin.task, count, committed, tup))
        elif origin.stream == COMMIT_STREAM and origin.task not in self._counts.upstream:
            self._apply(self._counts.commit(attempts_of(tup.values), tup))
        elif origin.component == SYSTEM_COMPONENT:
            self.collector.ack(tup)  # a tick belongs to no batch
        else:
            self._process(tup)

    def _process(self, tup: Tuple) -> None:
        """Process a tuple of a batch."""
        running = self._latest
        attempt = tup.values[0]
        if running is None or attempt is not running.batch.attempt:
            running = self._latest = self._find(attempt)
        if running is not None:
            origin = tup._origin
            received, sender = running.batch.received, origin.task
            received[sender] = received.get(sender, 0) + 1
            given = tup
            if self.hidden:
                shown = self._shown.get(origin) or self._show(origin)
                if shown is not origin:
                    given = shown.new_tuple(tup.values[1:], 0, 0, None)
            self._guarded(running.emission, "execute", running.execute, given)
        self.collector.ack(tup)

    def _show(self, origin: Origin) -> Origin:
        """Return the origin of the tuples that the component receives: without the attempt if it is hidden."""
        shown = without_first_field(origin) if origin.component in self.hidden else origin
        self._shown[origin] = shown
        return shown

    def _find(self, attempt: TransactionAttempt) -> Running | None:
        """Return the batch of an attempt, prepared if it is new, or None if the attempt is over or has failed."""
        running = self._running.get(attempt)
        if running is not None:
            return running
        batch, effects = self._counts.batch(attempt)
        self._apply(effects)
        if batch is None or batch.is_finished:
            return None
        return self._prepared(batch)

    def _prepared(self, batch: Batch) -> Running | None:
        """Prepare a component instance for a batch. None if ``prepare`` fails the batch."""
        attempt = batch.attempt
        emission = new_emission(attempt, self.context.component_id, self.collector, self.carried)
        bolt = self.bolt
        if isinstance(bolt, BasicBolt):
            running = Running(batch, emission, functools.partial(_execute_basic, bolt, emission), lambda: None)
        else:
            instance = copy.deepcopy(bolt)
            instance.context = self.context
            instance.collector = emission
            instance.batch_id = attempt
            instance.is_opaque = self.is_opaque
            if not self._guarded(emission, "prepare", instance.prepare, self._conf, self.context, emission, attempt):
                return None
            if not self._guarded(emission, "setup", instance.setup):
                return None
            running = Running(batch, emission, instance.execute, instance.finish_batch)
        self._running[attempt] = running
        return running

    def _guarded(self, emission: Emission, method: str, call: Callable[..., object], *arguments: Any) -> bool:
        """Call a method of the component. If it fails the batch, record the failure and return False."""
        attempt = emission.attempt
        try:
            returned = call(*arguments)
            if returned is not None:
                check_returned(self.context.component_id, self.bolt, method, returned, emit_many=emission.emit_many)
        except (FailedException, UnavailableError) as error:
            if not isinstance(error, FailedException) or isinstance(error, ReportedFailedException):
                self.collector.report_error(error)
            event(log, "batch.failed", task=self.context.task_id, attempt=attempt, cause=error)
            self._apply(self._counts.failed(attempt))
            return False
        return True

    def _apply(self, effects: Iterable[Effect]) -> None:
        waiting = deque(effects)
        while waiting:
            effect = waiting.popleft()
            match effect:
                case Ack(held):
                    for control in held:
                        self.collector.ack(control)
                case Fail(held, why):
                    if why:
                        event(log, "batch.incomplete", task=self.context.task_id, cause=why)
                    for control in held:
                        self.collector.fail(control)
                case Finish(attempt, anchor):
                    waiting.extendleft(reversed(self._finish(attempt, anchor)))
                case Forget(attempts):
                    for attempt in attempts:
                        self._running.pop(attempt, None)
                    self._latest = None
                case _:
                    assert_never(effect)

    def _finish(self, attempt: TransactionAttempt, anchor: Tuple) -> Sequence[Effect]:
        running = self._find(attempt)
        if running is None or not self._guarded(running.emission, "finish_batch", running.finish):
            return ()
        self._reports.send(running.emission, self._counts.attempts.committed, anchor)
        return self._counts.finished(attempt)


def _execute_basic(bolt: BasicBolt, emission: Emission, tup: Tuple) -> object:
    """Execute a BasicBolt with the collector of the tuple's batch: one bolt object processes all batches."""
    bolt.collector = emission  # type: ignore[assignment]
    execute: Callable[..., object] = bolt.execute
    return execute(tup, emission)
