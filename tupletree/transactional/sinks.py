"""SinkCommitter: rows of a transactional topology, written once to a transactional sink."""

from __future__ import annotations

import copy
from typing import Any, Self

from tupletree.connectors.arguments import check
from tupletree.connectors.row_sinks import checked_sink, plain_row, sorted_rows
from tupletree.connectors.transactional_sink import TransactionalSink
from tupletree.errors import ReportedFailedException, UsageError
from tupletree.transactional.bolts import BatchBolt, Committer
from tupletree.tuples import Tuple


class SinkCommitter(BatchBolt, Committer):
    """Writes each tuple of a batch as a row, when the batch commits: each task in one transaction of the sink.

        builder.set_bolt("out", SinkCommitter(sink, "words")).fields_grouping("count", "word")

    A batch that is committed again finds its note, or, behind an opaque spout, takes back what its earlier attempt has
    written. Group the input by the fields of the key: rows of different tasks have no order.

    ``owner``: the id of the notes; use the transactional id of the topology.

    Change the number of tasks when nothing is in flight. A transaction that some tasks had committed is otherwise
    written again: twice where rows have no keys, as in files, in Kafka and in tables to which rows are appended; and
    behind an opaque spout rows of a failed attempt stay. If one was in flight, submit with the number as it was first.

    A row that cannot be stored is reported and emitted on the stream ``rejected``, with the reason. A row that the
    system refuses, as by a constraint, fails its batch, which is retried until the system takes the row; the error says
    why.

    Raises UsageError for a sink that is none, and an owner that is not a text. ``set_bolt`` raises TopologyError for a
    sink that cannot be written behind an opaque spout, a grouping for an input without the fields of the sink.
    """

    outputs = {"rejected": ["row", "reason"]}

    def __init__(self, sink: TransactionalSink, owner: str) -> None:
        is_id = isinstance(owner, str) and bool(owner)
        check("SinkCommitter", "owner", owner, is_id, "the transactional id of the topology")
        self.sink = checked_sink(self, sink)
        self.owner = owner
        self._tuples: list[Tuple] = []

    @property
    def required_fields(self) -> tuple[str, ...]:
        """The fields of the sink, which every input of this bolt must have; checked when the topology is built."""
        return tuple(self.sink.fields)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return the bolt of another batch: batches commit one after the other, over one connection of the sink."""
        made = copy.copy(self)
        made._tuples = []
        return made

    def execute(self, tup: Tuple) -> None:
        self._tuples.append(tup)

    def finish_batch(self) -> None:
        items, refused = sorted_rows(self.sink, self._tuples)
        for tup, fault in refused:
            self.collector.emit([plain_row(tup.values), str(fault)], "rejected")
        for _, fault in refused[:1]:  # the others of a batch are alike
            self.collector.report_error(fault)
        rows: list[Any] = [row for _, row in items]
        if not rows and not self.is_opaque:
            return
        context = self.context
        tasks = len(context.component_tasks(context.component_id))
        owner = f"{self.owner}/{context.component_id}/{context.task_index} of {tasks}"
        self.sink.open(owner, is_opaque=self.is_opaque)
        try:
            self.sink.commit(self.batch_id, rows)
        except UsageError as error:  # ends no worker: another attempt may find the table repaired
            raise ReportedFailedException(str(error)) from error
