"""The spout of all file sources: its emitter emits the ranges of a batch. Spark's executors read them.

A split is ``[path, start, end]``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tupletree.attempt import TransactionAttempt
from tupletree.component import TopologyContext
from tupletree.connectors.files import FileLog
from tupletree.connectors.log_source import LogSource
from tupletree.transactional.bolts import BatchCollector
from tupletree.transactional.planned_log import PlannedLogSpout, RangesEmitter


class FilesSpout(PlannedLogSpout):
    """Emits ``[attempt, split]`` for each range of a batch."""

    outputs = ["attempt", "split"]

    def __init__(self, source: FileLog, limit: int) -> None:
        super().__init__(source, limit=limit)

    def declare_output_fields(self, declarer: Any) -> None:
        declarer.declare(self.outputs)

    def emitter(self, conf: Mapping[str, Any], context: TopologyContext) -> RangesEmitter:
        return SplitsEmitter(self, context)


class SplitsEmitter(RangesEmitter):
    """Emits ranges instead of their messages."""

    def emit_range(
        self, source: LogSource, attempt: TransactionAttempt, range: Sequence[Any], collector: BatchCollector
    ) -> None:
        assert isinstance(source, FileLog)
        name, start, end = range
        collector.emit([attempt, [source.path(name), start, end]])
