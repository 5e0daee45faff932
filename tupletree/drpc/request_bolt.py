"""The bolt that wraps a bolt of a linear DRPC topology, and counts on its behalf (counting.py)."""

from __future__ import annotations

import copy
import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from tupletree._signatures import check_returned
from tupletree.component import (
    RAISE_FAILED_FOR_BATCH,
    BasicBolt,
    Bolt,
    BoltCollector,
    TopologyContext,
    configuration_of,
)
from tupletree.drpc.counting import Batch, RequestCounts
from tupletree.errors import EmitError, FailedException, ReportedFailedException, TopologyError, UnavailableError
from tupletree.outputs import REPORT_STREAM, Stream
from tupletree.transactional.attempt_field import plain_row, without_first_field
from tupletree.transactional.bolts import BatchBolt, BatchCollector
from tupletree.tuples import SYSTEM_COMPONENT, Origin, Tuple

REQUEST: Final = "request"
"""The first field of every stream of a linear DRPC topology. Bolts do not see it; groupings may name it."""

REPORT: Final = Stream(REPORT_STREAM, (REQUEST, "counts"))
_SPARE_S: Final = 5.0


class RequestCollector(BatchCollector):
    """The collector of one request at one task: puts the request before each row, and counts rows by receiver.

    In the last bolt rows wait until the request is finished, and are then anchored to its tree.
    """

    def __init__(
        self, request: str, component_id: str, collector: BoltCollector, fields: Mapping[str, Sequence[str]], last: bool
    ) -> None:
        self.counts: Counter[int] = Counter()
        self.rows: list[tuple[list[Any], str]] = []
        self._request = request
        self._component_id = component_id
        self._collector = collector
        self._fields = fields
        self._is_last = last

    def emit(self, values: Sequence[Any], stream: str = "default") -> tuple[int, ...]:
        row = self._row(values, stream)
        if self._is_last:
            self.rows.append((row, stream))
            return ()
        tasks = self._collector.emit(row, None, stream)
        self.counts.update(tasks)
        return tasks

    def emit_direct(self, task: int, values: Sequence[Any], stream: str = "default") -> None:
        raise EmitError(f"component {self._component_id!r}: a bolt of a linear DRPC topology cannot emit directly")

    def report_error(self, error: BaseException) -> None:
        self._collector.report_error(error)

    def _row(self, values: Any, stream: str) -> list[Any]:
        row = plain_row(values)
        if dataclasses.is_dataclass(row):
            row = [getattr(row, one.name) for one in dataclasses.fields(row)]
        fields = self._fields.get(stream)
        if fields is None or not isinstance(row, list | tuple) or len(row) != len(fields):
            declared = "does not declare" if fields is None else f"declares as [{', '.join(fields)}]"
            raise EmitError(
                f"component {self._component_id!r} emitted {row!r:.100} on stream {stream!r}, which it {declared}"
            )
        return [self._request, *row]


class RequestBolt(Bolt):
    """Runs one task of a bolt of a linear DRPC topology.

    ``upstream``: the component that it receives from. ``expects_one``: one task of it has each request, not all.
    """

    _remedy = RAISE_FAILED_FOR_BATCH
    holds_tuples = True

    def __init__(self, bolt: BatchBolt | BasicBolt, *, is_first: bool, upstream: str) -> None:
        self.bolt = bolt
        self.is_first = is_first
        self.is_last = False
        self.upstream = upstream
        self.expects_one = False
        self.blocking = bolt.blocking
        self._fields: dict[str, tuple[str, ...]] = {}

    def declare_output_fields(self, declarer: Any) -> None:
        self.bolt.declare_output_fields(declarer)
        self._fields = {id: stream.fields for id, stream in declarer.streams.items()}
        for id, stream in declarer.streams.items():
            if stream.direct or REQUEST in stream.fields:
                fault = (
                    f"stream '{id}' must not be direct, and must not declare '{REQUEST}', which is put before its rows"
                )
                raise TopologyError(f"component '{declarer.component_id}': {fault}", component=declarer.component_id)
            declarer.streams[id] = dataclasses.replace(stream, fields=(REQUEST, *stream.fields))
        declarer.streams[REPORT.id] = REPORT  # last, so that reports are flushed after the tuples that they count

    def component_configuration(self) -> Mapping[str, Any]:
        return configuration_of(self.bolt)

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext, collector: BoltCollector) -> None:
        self._conf = conf
        has_timeouts = conf["topology.enable.message.timeouts"]
        limit_s = conf["topology.message.timeout.secs" if has_timeouts else "drpc.request.timeout.secs"]
        expected = 1 if self.expects_one else len(context.component_tasks(self.upstream))
        self._counts = RequestCounts(context.task_id, expected, 2 * limit_s + _SPARE_S)
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
        if origin.component == SYSTEM_COMPONENT:
            self.collector.ack(tup)  # a tick belongs to no request
            return
        request = tup.values[0]
        batch = self._counts.batch(request, self.context.clock())
        if origin.stream == REPORT_STREAM:
            batch.held.append(tup)
            is_complete = self._counts.report(batch, origin.task, tup.values[1])
        else:
            batch.received[origin.task] = batch.received.get(origin.task, 0) + 1
            self._process(request, batch, tup)
            is_complete = self.is_first
            if self.is_first:
                batch.held.append(tup)
            else:
                self.collector.ack(tup)
        if is_complete and batch.error is None:
            self._finish(request, batch)
        if batch.error is not None:
            self._fail(batch)

    def _process(self, request: str, batch: Batch, tup: Tuple) -> None:
        self._begin(request, batch)
        if batch.error is None:
            origin = tup._origin
            shown = self._shown.get(origin)
            if shown is None:
                shown = self._shown[origin] = without_first_field(origin)
            given = shown.new_tuple(tup.values[1:], 0, 0, None)
            collector, instance = batch.work
            if isinstance(self.bolt, BasicBolt):
                self.bolt.collector = collector
                self._guarded(batch, "execute", self.bolt.execute, given, collector)
            else:
                self._guarded(batch, "execute", instance.execute, given)

    def _begin(self, request: str, batch: Batch) -> None:
        """Prepare an instance of a BatchBolt for a request."""
        if batch.work is not None or batch.error is not None:
            return
        collector = RequestCollector(request, self.context.component_id, self.collector, self._fields, self.is_last)
        instance: Any = None
        batch.work = (collector, instance)
        if isinstance(self.bolt, BatchBolt):
            instance = copy.deepcopy(self.bolt)
            instance.context = self.context
            instance.collector = collector
            instance.batch_id = request
            batch.work = (collector, instance)
            if self._guarded(batch, "prepare", instance.prepare, self._conf, self.context, collector, request):
                self._guarded(batch, "setup", instance.setup)

    def _guarded(self, batch: Batch, method: str, call: Callable[..., object], *arguments: Any) -> bool:
        """Call a method of the component. If it fails the request, record the error and return False."""
        try:
            returned = call(*arguments)
            if returned is not None:
                emit_many = batch.work[0].emit_many
                check_returned(self.context.component_id, self.bolt, method, returned, emit_many=emit_many)
        except (FailedException, UnavailableError) as error:
            if not isinstance(error, FailedException) or isinstance(error, ReportedFailedException):
                self.collector.report_error(error)
            batch.error = error
            return False
        return True

    def _finish(self, request: str, batch: Batch) -> None:
        self._begin(request, batch)
        if batch.error is None and isinstance(self.bolt, BatchBolt):
            self._guarded(batch, "finish_batch", batch.work[1].finish_batch)
        if batch.error is not None:
            return
        collector: RequestCollector = batch.work[0]
        anchor = batch.held[0]  # any of them: all belong to the tree of the request
        for row, stream in collector.rows:
            self.collector.emit(row, anchor, stream)
        if not self.is_last:
            flat = [number for pair in collector.counts.items() for number in pair]
            self.collector.emit([request, flat], anchor, REPORT_STREAM)
        self.collector.ack_many(batch.held)
        self._counts.forget(request)

    def _fail(self, batch: Batch) -> None:
        for held in batch.held:
            self.collector.fail(held, batch.error)
        batch.held.clear()
        batch.work = None
