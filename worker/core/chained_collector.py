"""The collector of a spout whose rows pass a chain (tupletree/_chained.py).

Compiled with the hot path: every row of such a spout passes it twice, into the chain and out of it.
"""

from __future__ import annotations  # pure

from collections.abc import Callable, Iterable
from typing import Any

from tupletree._chained import Chain, Chained, Row
from tupletree.collector import SpoutCollector
from tupletree.context import TopologyContext
from tupletree.outputs import DEFAULT_STREAM
from tupletree.tuples import Origin

from .collectors import TaskSpoutCollector, stream_and_values
from .output_streams import OutStream


def bound(chain: Chain, collector: Any) -> Callable[[Row], None]:
    """Bind a chain to ``stage`` of a collector. The argument has no C type, so that this is the collector's method."""
    return chain.bind(collector.stage)


class ChainedCollector(SpoutCollector):
    """The collector of one spout task with a chain.

    Rows of the default stream pass the chain, and what it emits is emitted as one tree per message. All else is emitted
    as it is. No exception of the chain is raised in the spout, which might take it for one of its source.
    """

    def __init__(self, chained: Chained, context: TopologyContext, collector: TaskSpoutCollector) -> None:
        self._chain = chained.chain
        self._context = context
        self._collector = collector
        origin = Origin(context.component_id, context.task_id, DEFAULT_STREAM, chained.fields)
        self._input = OutStream(origin, False, 1)  # which nobody receives: it checks rows
        self._run: Any = None

    def setup(self) -> None:
        """Set the chain up."""
        self._chain.setup(self._context)
        self._run = bound(self._chain, self._collector)

    def teardown(self) -> None:
        """Tear the chain down."""
        self._chain.teardown()

    def emit(self, values: Row, msg_id: Any = None, stream: str = DEFAULT_STREAM) -> tuple[int, ...]:
        collector = self._collector
        if stream != DEFAULT_STREAM:
            return collector.emit(values, msg_id, stream)
        if self._pass(values, msg_id):
            collector.emit_staged(msg_id)
        return ()

    def has_room(self) -> bool:
        return self._collector.has_room()

    def emit_many(self, rows: Iterable[Row], msg_ids: Iterable[Any] | None = None) -> int:
        count = 0
        if msg_ids is None:
            for values in rows:
                self.emit(values)
                count += 1
        else:
            for values, msg_id in zip(rows, msg_ids, strict=True):
                self.emit(values, msg_id)
                count += 1
        return count

    def emit_tree(self, rows: Iterable[tuple[str, Row]], msg_id: Any = None) -> int:
        collector = self._collector
        try:
            for given in list(rows):
                stream, values = stream_and_values(self._context.component_id, given)
                if stream != DEFAULT_STREAM:
                    collector.stage(stream, values)
                elif not self._pass(values, msg_id):
                    return 0
        except BaseException:
            collector.unstage()
            raise
        return collector.emit_staged(msg_id)

    def _pass(self, values: Row, msg_id: Any) -> bool:
        """Stage what the chain emits for a row. If the chain raises, fail the message and return False."""
        row = self._input.checked(values)
        try:
            self._run(row)
        except (Exception, SystemExit) as error:
            self._collector.unstage()
            self._collector.fail_message(msg_id, error)
            return False
        return True

    def emit_direct(self, task: int, values: Row, msg_id: Any = None, stream: str = DEFAULT_STREAM) -> None:
        self._collector.emit_direct(task, values, msg_id, stream)

    def report_error(self, error: BaseException) -> None:
        self._collector.report_error(error)

    @property
    def pending(self) -> int:
        return self._collector.pending
