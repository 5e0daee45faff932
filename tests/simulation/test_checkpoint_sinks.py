"""Topologies with aligned checkpoints that write to a system outside, in a faulty world: it has every row once.

    python -m pytest tests/simulation/test_checkpoint_sinks.py        60 histories, and every rule broken once
    make test-simulation                                              5,000
    CHECKPOINT_SEEDS=50000 python -m pytest …                         as many as you like

The rows are compared with the committed positions of the spouts at the end of each checkpoint, and with all at the end.
"""

from __future__ import annotations

import os
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any

import pytest
from broken_rules import Search
from checkpoint_nouns import NEVER, Rules, Violation
from checkpoint_sinks import SimulatedSink, Table, Write
from checkpoint_world import World
from histories import run

from tupletree._checkpoints.steps import Action, Step
from tupletree.attempt import TransactionAttempt
from tupletree.errors import StaleAttemptError, UnavailableError
from tupletree.worker.checkpoint.stateful_participant import StatefulParticipant

SEEDS = int(os.environ.get("CHECKPOINT_SEEDS", "60"))
HISTORIES = min(60, SEEDS)  # looked at for what happened in them
BLOCKS = max(5, SEEDS // 100)
SHAPE: Mapping[str, Any] = {"aligned": True, "positioned": True, "writes": True}

pytestmark = pytest.mark.sized


@lru_cache(maxsize=HISTORIES)
def history(seed: int) -> World:
    return run(World, seed, Rules(shape=SHAPE))


def figures(world: World) -> Counter[str]:
    return Counter(
        histories=1,
        commits=world.judge.commits,
        rows=world.judge.written_rows,
        crashes=world.crashes,
        **{"notes found": world.judge.found_notes, "late writes": world.counts["late writes refused"]},
    )


@pytest.mark.parametrize("block", range(BLOCKS))
def test_every_row_is_written_once(block: int, record_property: Callable[[str, object], None]) -> None:
    total: Counter[str] = Counter()
    for seed in range(block, SEEDS, BLOCKS):
        total += figures(history(seed))
    record_property("figures", dict(total))


def test_the_histories_contain_what_they_are_meant_to() -> None:
    """A simulation in which nothing goes wrong proves nothing."""
    total = sum((figures(history(seed)) for seed in range(HISTORIES)), Counter[str]())
    assert total["commits"] > 400
    assert total["rows"] > 2000
    assert total["crashes"] > 150
    assert total["notes found"] > 10
    assert total["late writes"] > 10


class WritesFromMemory(Write):
    """What is written is what this life of the bolt has executed, not what the state has."""

    def pre_prepare(self, txid: int) -> None:
        self.kept = [*getattr(self, "kept", []), *self._rows]
        super().pre_prepare(txid)

    def post_commit(self, txid: int, state: Any) -> None:
        self._open("a")
        kept, self.kept = getattr(self, "kept", []), []
        self.sink.commit(TransactionAttempt(txid, 0), kept)


class EachLifeIsAnOwner(Write):
    def _open(self, lineage: str) -> None:
        super()._open(uuid.uuid4().hex)


class TriesOnce(Write):
    """Goes on with the next checkpoint though the system was away."""

    def post_commit(self, txid: int, state: Any) -> None:
        with suppress(UnavailableError):
            super().post_commit(txid, state)


class WritesWhatIsPrepared(Write):
    """Writes with PREPARE: the checkpoint can still be rolled back."""

    def pre_prepare(self, txid: int) -> None:
        rows = list(self._rows)
        super().pre_prepare(txid)
        self._open("a")
        self.sink.commit(TransactionAttempt(txid, 0), rows)

    def post_commit(self, txid: int, state: Any) -> None:
        pass


class NotesApart(SimulatedSink):
    """The rows are in the table a moment before their note."""

    def put(self, table: Table, attempt: TransactionAttempt, rows: Any) -> bool:
        note = table.notes.get(self.owner)
        if note is not None and note.txid >= attempt.txid:
            return False
        table.rows.update(message for (message,) in rows)
        if self.worker.world.is_faulty and self.worker.world.rng.random() < 0.3:
            raise UnavailableError("the connection is cut between rows and note")
        return table.commit(self.owner, attempt, [])


class LooksForNoNote(SimulatedSink):
    def put(self, table: Table, attempt: TransactionAttempt, rows: Any) -> bool:
        table.notes.pop(self.owner, None)
        return super().put(table, attempt, rows)


class TakesOlder(SimulatedSink):
    """The note says only what was written last."""

    def put(self, table: Table, attempt: TransactionAttempt, rows: Any) -> bool:
        try:
            return super().put(table, attempt, rows)
        except StaleAttemptError:
            del table.notes[self.owner]
            return super().put(table, attempt, rows)


class TellsInitialisedBoltsAlone(StatefulParticipant):
    """As with pre_commit: a task that was restarted amid a checkpoint writes nothing of it."""

    def perform(self, step: Step) -> None:
        if step.action is not Action.COMMIT or self.barriers.is_initialised:
            super().perform(step)
        else:
            self._state.at(step)
            if not self._state.knows(step):
                self._begin_anew()
            self._state.commit(step)


AWAY = {
    **dict.fromkeys(("mishaps", "loss", "torn"), 0.0),
    **dict.fromkeys(("break_every_s", "outage_every_s", "acker_every_s"), NEVER),
    "states": 0.2,
    "end_s": 6.0,
}
"""Requests that fail, and nothing else."""

WRITTEN = "has written .* times, not|recorded is"
BROKEN: dict[str, Rules] = {
    "writes from memory": Rules(write=WritesFromMemory, shape=SHAPE),
    "each life is an owner": Rules(write=EachLifeIsAnOwner, shape=SHAPE),
    "tries once": Rules(write=TriesOnce, shape={**SHAPE, "arrival_s": 4.0}, faults=AWAY),
    "writes what is prepared": Rules(write=WritesWhatIsPrepared, shape=SHAPE),
    "notes apart": Rules(sink=NotesApart, shape=SHAPE),
    "looks for no note": Rules(sink=LooksForNoNote, shape=SHAPE),
    "takes older transactions": Rules(sink=TakesOlder, shape=SHAPE),
    "tells initialised bolts alone": Rules(stateful=TellsInitialisedBoltsAlone, shape=SHAPE),
}

SEARCH = Search(
    "test_checkpoint_sinks", World, Violation, {broken: (rules, WRITTEN) for broken, rules in BROKEN.items()}, 400
)


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_rule_is_found(broken: str) -> None:
    SEARCH.find(broken, SEARCH.found(broken))
