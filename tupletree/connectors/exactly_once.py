"""ExactlyOnceSinkBolt: rows of aligned checkpoints, written once to a transactional sink.

The life of a row, with the checkpoint ``t`` that comes after it:

    execute          the row is in memory; its tuple is acked
    PREPARE t        the row is in the bolt's state, prepared under t
    COMMIT t         the state is committed, then the rows that it has of t are written, with t as their transaction
    PREPARE t + 1    the rows of t make room for those of t + 1

docs/adr/0035-rows-wait-in-the-state-until-commit.md has the proof.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tupletree._checkpoints.settings import state_id
from tupletree.attempt import TransactionAttempt
from tupletree.component import BoltCollector, StatefulBolt, TopologyContext
from tupletree.connectors.row_sinks import checked_sink, plain_row, sorted_rows
from tupletree.connectors.transactional_sink import TransactionalSink
from tupletree.errors import ConfigError, ConflictError
from tupletree.state.contract import KeyValueState
from tupletree.state.providers import is_durable
from tupletree.tuples import Tuple

ROWS_PER_ENTRY: Final = 1000
"""The most rows in one entry of the state. Stores limit the size of a value."""

CHECKPOINT: Final = "checkpoint"
"""The key of [lineage, txid, number of entries with rows, fields]. The rows are under ("rows", 0), ("rows", 1), …"""

NEEDED_PROVIDER: Final = (
    "topology.state.provider to a durable provider, such as sqlite",
    'topology.state.provider.config to its options, such as {"directory": "/var/lib/states"}',
)
"""The settings of states that outlive their worker."""


class ExactlyOnceSinkBolt(StatefulBolt):
    """Writes each tuple as a row, exactly once, in a topology with aligned checkpoints.

        topology.state.checkpoint.aligned: true
        topology.state.provider: sqlite                 # or another that survives its worker
        topology.state.provider.config: {"directory": "/var/lib/states"}

    The rows of a checkpoint become visible together, for each task, when the checkpoint commits: about once a second.
    Rows of different tasks become visible one after the other; so group the input by the fields of the key.

    All spouts before the bolt must be positioned (``checkpoint_state``), and its inputs must have the fields of the
    sink. Both are checked when the topology is built.

    **A row that cannot be stored** (``TransactionalSink.faults``) is reported as an error and emitted on the stream
    ``rejected``, with the reason; its tuple is acked, because a failed tuple would be replayed forever. A row that the
    system refuses at the commit, as by a constraint of the table, stops the checkpoints, with an error that names the
    reason, until the system takes the row. Nothing is lost meanwhile.

    Not guaranteed: an order between the rows of different tasks. A topology that is killed between the two steps of a
    checkpoint has its last rows written when it is submitted again under its ``topology.state.id``. If its sink has
    other fields then, a field that these rows lack is None.

    Raises UsageError for a sink that is none, and ConfigError, at submission and in ``prepare``, if checkpoints are not
    aligned or the state provider is not durable.
    """

    outputs = {"rejected": ["row", "reason"]}
    blocking = True
    needs_positions = True
    is_divisible = False

    def __init__(self, sink: TransactionalSink) -> None:
        self.sink = checked_sink(self, sink)
        self._rows: list[list[Any]] = []  # executed since the last PREPARE
        self._owner = ""

    @property
    def required_fields(self) -> tuple[str, ...]:
        """The fields of the sink, which every input of this bolt must have; checked when the topology is built."""
        return tuple(self.sink.fields)

    def check_conf(self, component_id: str, conf: Mapping[str, Any]) -> None:
        faults, needed = [], []
        if not conf["topology.state.checkpoint.aligned"]:
            faults.append("topology.state.checkpoint.aligned is false")
            needed.append("topology.state.checkpoint.aligned to true")
        if not is_durable(conf):
            provider = conf["topology.state.provider"] or "memory"
            faults.append(f"the states of topology.state.provider {provider!r} do not survive their worker")
            needed += NEEDED_PROVIDER
        if faults:
            settings = " and ".join([part for part in (", ".join(needed[:-1]), needed[-1]) if part])
            raise ConfigError(
                f"component {component_id!r} writes each row once with aligned checkpoints and durable states, and "
                f"{' and '.join(faults)}: set {settings}, or use RowSinkBolt, which writes at least once"
            )

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext, collector: BoltCollector) -> None:
        self.check_conf(context.component_id, conf)

    def init_state(self, state: KeyValueState[Any, Any]) -> None:
        super().init_state(state)
        self._rows = []

    def execute_batch(self, tuples: list[Tuple]) -> None:
        if tuples[0].is_tick:
            return
        items, refused = sorted_rows(self.sink, tuples)
        self._rows += [list(row) for _, row in items]
        for tup, fault in refused:
            self.collector.emit([plain_row(tup.values), str(fault)], tup, "rejected")
        for _, fault in refused[:1]:  # the others of a batch are alike
            self.collector.report_error(fault)
        self.collector.ack_many(tuples)

    def pre_prepare(self, txid: int) -> None:
        lineage, _, before, *_ = self.state.get(CHECKPOINT) or (uuid.uuid4().hex, 0, 0)
        rows, self._rows = self._rows, []
        if not rows and not before:
            return
        entries = [rows[start : start + ROWS_PER_ENTRY] for start in range(0, len(rows), ROWS_PER_ENTRY)]
        for number, entry in enumerate(entries):
            self.state.put(("rows", number), entry)
        for number in range(len(entries), before):
            self.state.delete(("rows", number))
        self.state.put(CHECKPOINT, [lineage, txid, len(entries), list(self.sink.fields)])

    def post_commit(self, txid: int, state: KeyValueState[Any, Any]) -> None:
        lineage, of, count, *fields = state.get(CHECKPOINT) or ("", 0, 0)  # no fields: of an earlier version
        if of != txid or not count:
            return  # no rows in this checkpoint
        rows: list[Any] = []
        for number in range(count):
            entry = state.get(("rows", number))
            if entry is None:
                raise ConflictError(f"the rows of checkpoint {txid} have made room for those of a later checkpoint")
            rows += entry
        self._open(lineage)
        self.sink.commit(TransactionAttempt(txid, 0), self._of_sink(rows, *fields))

    def cleanup(self) -> None:
        self.sink.close()

    def _of_sink(self, rows: list[Any], fields: Sequence[str] = ()) -> list[Any]:
        """Return rows with the fields of the sink. ``fields``: those that they have, of an earlier sink."""
        wanted = list(self.sink.fields)
        if not fields or fields == wanted:
            return rows
        return [[row.get(name) for name in wanted] for row in (dict(zip(fields, each, strict=True)) for each in rows)]

    def _open(self, lineage: str) -> None:
        """Open the sink as the owner of this task's state, in any life of the task.

        A task whose state was emptied counts its transactions from 1 again: it has another lineage, and another note.
        """
        context = self.context
        own = state_id(context.conf, context.topology_id)
        owner = f"{own}/{context.component_id}/{context.task_index}/{lineage}"
        if owner != self._owner:
            self.sink.open(owner)
            self._owner = owner
