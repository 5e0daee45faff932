"""What must hold of a stateful topology, whatever happens.

The judge believes what is stored, which is looked at directly, and what the shape of the topology says: each message is
in the states as often as there are paths from its spout. Nothing is asked of a participant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from checkpoint_components import TOTAL
from checkpoint_nouns import ID, Violation
from checkpoint_workers import Worker

from tupletree._checkpoints.coordinator import Phase
from tupletree._checkpoints.record import checkpoint_path, epoch_path
from tupletree._stores.node_encoding import decode_stored
from tupletree._stores.nodes import Create, Put, Write
from tupletree._wire.codec import decode_value
from tupletree.state.memory import Namespace
from tupletree.worker.checkpoint.spout_participant import POSITION

if TYPE_CHECKING:
    from checkpoint_world import World

COMMITTED, PREPARING, COMMITTING = Phase.COMMITTED, Phase.PREPARING, Phase.COMMITTING


class Judge:
    def __init__(self, world: World) -> None:
        self.world = world
        self.shape = world.shape
        self.holder: Worker | None = None  # who raised the epoch last
        self.txid, self.phase = 0, COMMITTED  # as stored
        self.commits = 0
        self.cuts = 0
        self.owners: dict[str, Worker] = {}  # by namespace
        self.initialised: set[tuple[Worker, str]] = set()
        self.positions: Counter[str] = Counter()
        self.paths = {
            (spout, bolt): self.shape.paths(spout, bolt) for spout in self.shape.spouts for bolt in self.shape.stateful
        }
        self.written_rows = 0
        self.found_notes = 0

    def violation(self, what: str) -> Violation:
        return self.world.violation(what)

    # What components do

    def initialises(self, worker: Worker, context: Any, state: Any) -> None:
        """A bolt is given its state: it is what is committed, and nothing else."""
        name = f"{context.component_id}/{context.task_index}"
        found, expected = dict(state.items()), _decoded(self.world.states[name].entries)
        if self.owners[name] is not worker:
            return  # it cannot know, and can save nothing
        read = {key: state.get(key) for key in expected}
        if found != expected or read != expected:
            raise self.violation(f"{worker}: the state of {name} is initialised as {found}; {expected} is committed")
        self.initialised.add((worker, name))

    def executes(self, worker: Worker, task: int, message: str) -> None:
        name = self.world.names[task]
        if name in self.world.states and (worker, name) not in self.initialised and self.owners.get(name) is worker:
            raise self.violation(f"{worker}: {name} executes {message} and is not initialised")

    def acked(self, worker: Worker, name: str, number: int) -> None:
        """A spout hears of an ack: every effect is committed, or in a checkpoint that cannot be taken back any more."""
        self.world.counts["acked"] += 1
        message = f"{name}:{number}"
        for (spout, bolt), paths in self.paths.items():
            if name.startswith(f"{spout}/"):
                safe = sum(self._safe(state).get(message, 0) for state in self._states_of(bolt))
                if safe < paths:
                    raise self.violation(f"{message} is acked; {bolt} has {safe} of its {paths} effects committed")

    def _safe(self, state: Namespace) -> dict[Any, Any]:
        if self.shape.aligned and self.phase is COMMITTING and state.prepared == self.txid:
            return _decoded({**state.entries, **state.changes})
        return _decoded(state.entries)

    def _states_of(self, bolt: str) -> list[Namespace]:
        return [state for name, state in self.world.states.items() if name.startswith(f"{bolt}/")]

    # States

    def opened(self, worker: Worker, name: str) -> None:
        self.world.tell(f"{worker} opens {name}")
        self.owners[name] = worker

    def prepared(self, worker: Worker, name: str, txid: int) -> None:
        self._check_owner(worker, name, f"prepares {txid}")
        if (self.txid, self.phase) != (txid, PREPARING):
            raise self.violation(f"{worker}: {name} prepares {txid}; recorded is {self.phase} {self.txid}")

    def committed(self, worker: Worker, name: str, txid: int) -> None:
        self._check_owner(worker, name, f"commits {txid}")
        if (self.txid, self.phase) != (txid, COMMITTING):
            raise self.violation(f"{worker}: {name} commits {txid}; recorded is {self.phase} {self.txid}")
        self._check_cut()

    def rolled_back(self, worker: Worker, name: str, prepared: int | None) -> None:
        self._check_owner(worker, name, f"rolls {prepared} back")
        if prepared is not None and (self.txid, self.phase) == (prepared, COMMITTING):
            raise self.violation(f"{worker}: {name} rolls {prepared} back, which is committing")

    def goes_back(self, worker: Worker, name: str) -> None:
        """A task knows that its state is rolled back."""
        self.initialised.discard((worker, name))

    def _check_owner(self, worker: Worker, name: str, what: str) -> None:
        self.world.tell(f"{worker}: {name} {what}")
        if self.owners[name] is not worker:
            raise self.violation(f"{worker}: {name} {what}; {self.owners[name]} has opened it since")

    # The record

    def stored(self, writer: Worker, writes: Sequence[Write]) -> None:
        for write in writes:
            if isinstance(write, Create | Put) and write.path == epoch_path(ID):
                self.holder = writer
                self.world.tell(f"{writer} takes the checkpoints over")
            elif isinstance(write, Create | Put) and write.path == checkpoint_path(ID):
                txid, phase, _, _ = decode_stored(write.path, write.data)
                self._recorded(writer, txid, Phase(phase))

    def _recorded(self, writer: Worker, txid: int, phase: Phase) -> None:
        self.world.tell(f"{writer} records {phase} {txid}")
        if writer is not self.holder:
            raise self.violation(f"{writer} records {phase} {txid}; {self.holder} has taken over")
        before, after = (self.txid, self.phase), (txid, phase)
        allowed = {
            COMMITTED: [(self.txid + 1, PREPARING)],
            PREPARING: [(self.txid, COMMITTING), (self.txid - 1, COMMITTED)],
            COMMITTING: [(self.txid, COMMITTED)],
        }
        if after != before and after not in allowed[self.phase]:
            raise self.violation(f"{writer} records {phase} {txid} after {self.phase} {self.txid}")
        self.txid, self.phase = after
        spouts = [worker for worker in self.world.living if worker.slot is writer.slot]
        self.world.counts["recorded by one of two checkpoint spouts"] += len(spouts) > 1
        for name, state in self.world.states.items():
            if phase is COMMITTING and txid not in (state.prepared, state.committed):
                raise self.violation(f"{phase} {txid} is recorded; {name} has prepared {state.prepared}")
            if phase is COMMITTED and (state.committed or 0, state.prepared) != (txid, None):
                held = f"committed {state.committed} and prepared {state.prepared}"
                raise self.violation(f"{phase} {txid} is recorded; {name} has {held}")
        if before == (txid, COMMITTING) and phase is COMMITTED:
            self.commits += 1
            self.check_tables(self.world.positions() if self.world.tables else {})
            self.world.counts["committed amid faults"] += self.world.is_faulty

    def _check_cut(self) -> None:
        """Where every state is of one checkpoint, they hold what the spouts emitted before their positions."""
        if not self.shape.positioned or len({state.committed for state in self.world.states.values()}) > 1:
            return
        self.cuts += 1
        positions = self.world.positions()
        for name, position in positions.items():
            if position < self.positions[name]:
                raise self.violation(f"{name} has gone back from {self.positions[name]} to {position}")
        self.positions.update(Counter(positions) - self.positions)
        self.check_counts(positions, is_exact=True)

    def check_counts(self, positions: dict[str, int], *, is_exact: bool) -> None:
        """The committed states have each message below the positions, once for each path, and no other."""
        for bolt in self.shape.stateful:
            found: Counter[str] = Counter()
            for state in self._states_of(bolt):
                entries = _decoded(state.entries)
                total = entries.pop(TOTAL, 0)
                if total != sum(entries.values()):
                    raise self.violation(f"{bolt} has counted {total} messages, and by message {entries}")
                found.update(entries)
            expected = {
                f"{name}:{number}": self.paths[name.split("/")[0], bolt]
                for name, position in positions.items()
                for number in range(position)
            }
            for message in sorted(found.keys() | expected.keys()):
                count, truth = found[message], expected.get(message, 0)
                if count < truth or (is_exact and count > truth):
                    told = f"with {self.txid} {self.phase} and positions {positions}"
                    raise self.violation(f"{told}, {bolt} has counted {message} {count} times, not {truth}")

    # Systems outside

    def written(self, worker: Worker, name: str, txid: int, rows: int) -> None:
        self.written_rows += rows
        self.found_notes += not rows
        self.world.tell(f"{worker}: {name} writes {rows} rows of {txid}")
        if rows and (self.txid, self.phase) != (txid, COMMITTING):
            raise self.violation(f"{worker}: {name} writes {txid}; recorded is {self.phase} {self.txid}")

    def check_tables(self, positions: dict[str, int]) -> None:
        """The systems outside have each message below the positions, once for each path, and no other."""
        for bolt, table in self.world.tables.items():
            paths = {spout: self.shape.paths(spout, bolt) for spout in self.shape.spouts}
            expected = Counter(
                {
                    f"{name}:{number}": paths[name.split("/")[0]]
                    for name, position in positions.items()
                    for number in range(position)
                    if paths[name.split("/")[0]]
                }
            )
            for message in sorted(table.rows.keys() | expected.keys()):
                if table.rows[message] != expected[message]:
                    raise self.violation(
                        f"with {self.txid} {self.phase} and positions {positions}, {bolt} has written {message} "
                        f"{table.rows[message]} times, not {expected[message]}"
                    )


def _decoded(entries: Any) -> dict[Any, Any]:
    return {decode_value(key): decode_value(value) for key, value in entries.items() if value is not None}


def position(state: Namespace) -> int:
    """The committed position of a spout."""
    found = _decoded(state.entries).get(POSITION, 0)
    assert isinstance(found, int)
    return found
