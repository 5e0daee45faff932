"""The bolt of the simulated topology that writes rows once, and the simulated system that it writes to.

A row is a message. The system adds rows instead of replacing them, so that it shows what is written twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tupletree._sinks.sql_rules import Note, Step, decide
from tupletree.attempt import TransactionAttempt
from tupletree.connectors.exactly_once import ExactlyOnceSinkBolt
from tupletree.connectors.transactional_sink import TransactionalSink
from tupletree.errors import FailedException, StaleAttemptError

if TYPE_CHECKING:
    from checkpoint_workers import Worker


class Table:
    """What one bolt has written, and the notes of its tasks. It outlives them."""

    def __init__(self) -> None:
        self.rows: Counter[str] = Counter()
        self.notes: dict[str, Note] = {}

    def commit(self, owner: str, attempt: TransactionAttempt, rows: list[Any]) -> bool:
        """Write rows and note, or find the note. True if something was written."""
        note = self.notes.get(owner, Note(owner, 0, 0))
        if decide("table", note, owner, attempt, is_opaque=False) is Step.NOTHING:
            return False
        self.rows.update(message for (message,) in rows)
        self.notes[owner] = Note(owner, *attempt)
        return True


class SimulatedSink(TransactionalSink):
    """A table as one life of a task reaches it: requests fail half-way, and may be done after they were given up."""

    fields = ("message",)
    worker: Worker

    @property
    def target(self) -> str:
        return "the table"

    def open(self, owner: str, *, is_opaque: bool = False) -> None:
        self.owner = owner

    def commit(self, attempt: TransactionAttempt, rows: Any) -> None:
        world = self.worker.world
        _, component, index, _ = self.owner.split("/")
        name = f"{component}/{index}"

        def perform() -> None:
            news = self.put(world.tables[component], attempt, rows)
            world.judge.written(self.worker, name, attempt.txid, len(rows) if news else 0)

        if world.is_faulty and world.rng.random() < 0.2:  # a transaction hangs, or a worker that was replaced
            world.at(world.rng.uniform(0, 5), lambda: self._late(perform))
        world.outside.request(f"write {attempt.txid} of {name}", perform, world.faults.states)

    def _late(self, perform: Callable[[], None]) -> None:
        try:
            perform()
        except StaleAttemptError:
            self.worker.world.counts["late writes refused"] += 1

    def put(self, table: Table, attempt: TransactionAttempt, rows: Any) -> bool:
        return table.commit(self.owner, attempt, list(rows))

    def close(self) -> None:
        pass


class Write(ExactlyOnceSinkBolt):
    """Writes messages, and passes them on."""

    outputs = {"default": ["message"], "rejected": ["row", "reason"]}
    worker: Worker

    def __init__(self) -> None:
        super().__init__(SimulatedSink())

    def live_in(self, worker: Worker) -> None:
        """Become part of a worker."""
        self.worker = self.sink.worker = worker  # type: ignore[attr-defined]
        self.__class__ = worker.world.rules.write
        self.sink.__class__ = worker.world.rules.sink

    def init_state(self, state: Any) -> None:
        self.worker.world.mishap("raises")
        self.worker.world.judge.initialises(self.worker, self.context, state)
        super().init_state(state)

    def execute_batch(self, tuples: list[Any]) -> None:
        world = self.worker.world
        for tup in tuples:
            world.judge.executes(self.worker, self.context.task_id, tup["message"])
        try:
            world.mishap("fails", "dies")
        except FailedException:
            for tup in tuples:
                self.collector.fail(tup)
            return
        for tup in tuples:
            self.collector.emit([tup["message"]], tup)
        super().execute_batch(tuples)

    def pre_prepare(self, txid: int) -> None:
        self.worker.world.mishap("raises", "dies")
        super().pre_prepare(txid)

    def post_commit(self, txid: int, state: Any) -> None:
        self.worker.world.mishap("raises", "dies")
        super().post_commit(txid, state)
        self.worker.world.mishap("raises", "dies")
