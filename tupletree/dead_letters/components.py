"""The bolt that stores dead letters, and the spout that replays letters on request."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from typing import Any

from tupletree.batching_bolt import BatchingBolt
from tupletree.component import Outputs
from tupletree.dead_letters.addresses import checked_store, open_store
from tupletree.dead_letters.letter import Letter
from tupletree.errors import ProtocolError, ReportedFailedException, UnavailableError, UsageError
from tupletree.outputs import FieldsDeclarer
from tupletree.reliable_spout import Message, ReliableSpout

_ID = re.compile(r"-\d+-\d{9,}$")  # what nimbus adds to the name of a topology
_MAX_UNDERWAY = 1000  # letters


class DeadLetterBolt(BatchingBolt):
    """Stores the tuples of a stream of dead letters (``set_dead_letters``).

    A letter is acked when it is in the store; if the store cannot be reached, the letter fails and is emitted again.
    ``store``: as for ``open_store``; a path is relative to the directory where this object is made.
    """

    blocking = True
    max_batch, max_wait_s = 100, 0.5

    def __init__(self, store: str) -> None:
        self.url = checked_store(store)

    def setup(self) -> None:
        self.store = open_store(self.url)

    def execute_batch(self, tuples: list[Any]) -> None:
        name = _ID.sub("", self.context.topology_id)
        try:
            self.store.add([Letter.of(tup, name, time.time()) for tup in tuples])
        except UnavailableError as error:
            raise ReportedFailedException(str(error)) from error


class DeadLetterSpout(ReliableSpout):
    """Emits the rows of letters that are marked for replay (``tupletree dead-letters replay``).

        again = builder.set_spout("again", DeadLetterSpout("sqlite:letters.db", ["order"])).set_dead_letters("rejected")

    A letter leaves the store when its row is processed. If the row is given up again, it becomes a letter of
    this spout if ``set_dead_letters`` was called; otherwise it is lost. Run one task: each task reads all letters.
    A damaged entry of the store, and a letter whose row does not fit ``outputs``, are reported once as an error of the
    spout, and skipped; they stay in the store.

    At least once, with aligned checkpoints, too: a row is emitted again if the worker ends before its letter is gone,
    or if the store is away then. An ExactlyOnceSinkBolt writes it twice, unless it replaces the row of its key.

    ``store``: as of DeadLetterBolt.
    ``outputs``: the outputs of the spout that gave the messages up; each row is emitted on its original stream.
    ``every_s``: the pause between two reads of the store.
    """

    blocking = True

    def __init__(self, store: str, outputs: Outputs, every_s: float = 1.0) -> None:
        self.url = checked_store(store)
        self.outputs = outputs  # type: ignore[misc]  # set per instance, unlike in other spouts
        self.every_s = every_s

    def setup(self) -> None:
        self.store = open_store(self.url)
        self.underway: set[str] = set()
        self.damaged: set[str] = set()  # ids that were reported
        declarer = FieldsDeclarer(self.context.component_id)
        self.declare_output_fields(declarer)
        self.streams = declarer.streams

    def read(self) -> Iterator[Message | None]:
        name = _ID.sub("", self.context.topology_id)
        next_s = 0.0
        self.underway.clear()  # after a lost connection, all letters under way are read again
        while True:
            if self.context.clock() < next_s:
                yield None
                continue
            next_s = self.context.clock() + self.every_s
            limit = _MAX_UNDERWAY + len(self.damaged)
            for letter in self.store.letters(name, replayed=True, limit=limit, damaged=self.report_damaged):
                if letter.id in self.underway or letter.id in self.damaged:
                    continue
                try:
                    row = letter.decoded()
                    self.check(letter, row)
                except (ProtocolError, UsageError) as error:
                    self.report_damaged(letter.id, error)
                    continue
                self.underway.add(letter.id)
                yield Message(row, id=letter.id, stream=letter.stream)

    def check(self, letter: Letter, row: Sequence[Any]) -> None:
        """Raise UsageError if a row cannot be emitted on its stream: the attempt would end the worker each time."""
        stream = self.streams.get(letter.stream)
        if stream is None:
            known = ", ".join(self.streams) or "none"
            fault = f"its stream '{letter.stream}' is not among the outputs of the DeadLetterSpout: {known}"
        elif stream.direct:
            fault = f"its stream '{letter.stream}' is direct, and a letter does not say for which task"
        elif len(row) != len(stream.fields):
            fault = f"its row has {len(row)} values, and stream '{letter.stream}' has {len(stream.fields)} fields"
        else:
            return
        raise UsageError(f"letter '{letter.id}' is not replayed: {fault}")

    def report_damaged(self, id: str, error: ProtocolError | UsageError) -> None:
        if id not in self.damaged:
            self.damaged.add(id)
            self.collector.report_error(error)

    def finished(self, id: Any) -> None:
        try:
            self.store.remove([id])
        except UnavailableError as error:  # the letter is emitted once more
            self.collector.report_error(error)
        self.underway.discard(id)
