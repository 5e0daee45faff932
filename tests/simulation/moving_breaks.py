"""Rules of moving states broken on purpose: each takes the place of the real one, with one rule left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from checkpoint_breaks import UnfencedBackend
from moving_nouns import Rules

from tupletree._checkpoints import spout as checkpoint_spout
from tupletree._checkpoints.coordinator import Phase
from tupletree._checkpoints.record import Checkpoint, CheckpointRecord
from tupletree._checkpoints.spout import CheckpointSpout
from tupletree._wire.codec import decode_value
from tupletree.keyed.progress import TIMERS, Progress
from tupletree.keyed.windows.record import is_empty
from tupletree.supervisor import local_assignment
from tupletree.v1 import topology_pb2 as pb
from tupletree.worker.checkpoint import contents, membership, redistribution
from tupletree.worker.checkpoint.contents import HeldContents
from tupletree.worker.checkpoint.redistribution import Division
from tupletree.worker.checkpoint.spout_participant import POSITION
from tupletree.worker.checkpoint.task_state import TaskState

# What is moved


def fill_without(is_left: Any) -> Any:
    """Write the entries of a new state, but those of which ``is_left`` says so."""
    fill = contents._fill

    def filled(state: Any, held: Any, txid: int) -> None:
        left = {key for key, data in held.encoded.items() if is_left(decode_value(key), decode_value(data))}
        held.encoded = {key: data for key, data in held.encoded.items() if key not in left}
        fill(state, held, txid)

    return filled


def is_timer(key: Any, value: Any) -> bool:
    return type(key) is tuple and key[0] == TIMERS


def is_window(key: Any, value: Any) -> bool:
    """A record of windows (keyed/windows/record.py)."""
    return type(key) is str and type(value) is list and len(value) == 2 and not is_empty(value)


class Apart(dict[int, Any]):
    """The position of each task, by its index."""


def keep_positions(part: Any, spout: Any, positions: Sequence[Any], tasks: int, tasks_after: int) -> Apart:
    """Give each task the position of the task that had its index."""
    return Apart(enumerate(positions))


def put_apart(self: HeldContents, entries: Mapping[Any, Any]) -> None:
    """Put positions that are apart where they belong."""
    if not isinstance(entries, Apart):
        PUT_SHARED(self, entries)
        return
    for held, position in zip(self._held, entries.values(), strict=False):
        held.plain[POSITION] = position


PUT_SHARED = HeldContents.put_shared


def join_first(part: Any, spout: Any, positions: Sequence[Any], tasks: int, tasks_after: int) -> Mapping[str, Any]:
    """Give each task the positions of the first task."""
    return {POSITION: positions[0]}


class StaysDivision(Division):
    """An entry stays at the index that it had, where there is one."""

    def target_of_text(self, encoded: bytes, index: int) -> int:
        found = super().target_of_text(encoded, index)
        return found if found < 0 else index % self._after


def put_twice(self: HeldContents, index: int, key: bytes, value: bytes) -> None:
    """Give an entry to the next task too."""
    self._held[index].encoded[key] = value
    self._held[(index + 1) % len(self._held)].encoded.setdefault(key, value)


def take_back_all(name: str, state: Any, txid: int) -> None:
    """Discard what is prepared, whatever the stored checkpoint says."""
    if state.prepared is not None:
        state.rollback()


def commit_all(name: str, state: Any, txid: int) -> None:
    """Commit what is prepared, whatever the stored checkpoint says."""
    if state.prepared is not None:
        state.commit(state.prepared)


def each_goes_on(self: Progress, newest: dict[Any, int], counts: Any) -> None:
    """Take a sender for the one that had its index, also when the number of senders has changed."""


# Which states are valid


def first_layout(state_id: str, component: str, index: int, tasks: int, layout: int) -> str:
    """Name the states as before they moved."""
    return f"{state_id}/{component}/{index}"


def record_first(what: str, state_id: str, record: CheckpointRecord, make: Any, clock: Any) -> None:
    """Store that the new states are valid, and make them afterwards."""
    before = record.checkpoint

    def made() -> Any:
        after, remove = make()
        return after, remove

    txid = before.txid - (before.phase is Phase.PREPARING)
    tasks = make.args[1]
    changed = [id for id, count in tasks.items() if before.tasks.get(id, count) != count]
    layouts = {**before.layouts, **dict.fromkeys(changed, txid)}
    record.save(replace(before, tasks={**before.tasks, **{id: tasks[id] for id in changed}}, layouts=layouts))
    made()


def remove_first(what: str, state_id: str, record: CheckpointRecord, make: Any, clock: Any) -> None:
    """Remove the states of before, and store afterwards that the new ones are valid."""
    after, remove = make()
    remove()
    record.save(after)


def carry_out_without_versions(self: CheckpointSpout, effect: Any) -> None:
    """Store nothing of the ``state_version`` with which the states were stored."""
    before, self._versions = self._versions, {}
    try:
        CARRIED_OUT(self, effect)
    finally:
        self._versions = before


CARRIED_OUT = CheckpointSpout._carry_out


def reads_all(self: Checkpoint, components: Any, versions: Any) -> list[tuple[str, int]]:
    """Go on with states of a later version as if they were of this code's."""
    older = []
    for id in sorted(self.tasks.keys() & components):
        before, now = self.versions.get(id, 1), versions.get(id, 1)
        if before < now:
            older.append((id, before))
    return older


def check_without_clearing(self: TaskState, step: Any, *, is_unused: bool) -> None:
    """Leave what an earlier component of the same name has stored."""
    if not self.is_new(step):
        CHECKED(self, step, is_unused=is_unused)


CHECKED = TaskState.check


def migrate_at_once(self: TaskState, step: Any, bolt: Any) -> None:
    """Commit the migrated values before there is a checkpoint with them."""
    version = dict(step.older).get(self._component)
    MIGRATED(self, step, bolt)
    if version is not None:
        backend = self.state._backend  # type: ignore[attr-defined]
        for key, value in self._migrated[1] if self._migrated else ():
            backend.inner._stored.entries[key] = value


MIGRATED = TaskState.migrate


# Who is who


def any_tasks(record: pb.TopologyRecord, worker: Any) -> bool:
    """Take an assignment for one of the record, whatever its tasks are."""
    return True


MOVES = ("rescale",)
CALM = {"haste": 0.1, "steps": 8, "pause_s": 0.5}
OFTEN = {"haste": 1.0, "steps": 12, "pause_s": 0.1, "wait_s": 0.0}
COUNTED = "has counted .* times, not"
MISPLACED = "is in the state of task"
UNCOMMITTED = "is recorded; .* has committed"

# Not among them: ids of tasks that are used again. Supervisors restart every worker whose tasks have changed, and tasks
# discard what is of an earlier generation, so no history shows it. And what one history in some hundreds shows: a
# component that was away does not commit what was decided on (tests/unit/worker/test_lost_commits.py).
BROKEN: dict[str, tuple[Rules, str]] = {
    "states move without their timers": (
        Rules({(contents, "_fill"): fill_without(is_timer)}, steps=MOVES, shape={**CALM, "bolts": ("timers",)}),
        "timers: .* have not come|the clock has fired",
    ),
    "windows lose their values at a move": (
        Rules({(contents, "_fill"): fill_without(is_window)}, steps=MOVES, shape={**CALM, "bolts": ("tumbling",)}),
        "tumbling: .* has|have not come",
    ),
    "sessions lose their values at a move": (
        Rules({(contents, "_fill"): fill_without(is_window)}, steps=MOVES, shape={**CALM, "bolts": ("sessions",)}),
        "sessions: .* has|have not come",
    ),
    "positions stay where they are": (
        Rules(
            {(redistribution, "joined_positions"): keep_positions, (HeldContents, "put_shared"): put_apart},
            steps=MOVES,
            shape=CALM,
        ),
        COUNTED,
    ),
    "positions are those of one task": (
        Rules({(redistribution, "joined_positions"): join_first}, steps=MOVES, shape=CALM),
        COUNTED,
    ),
    "a key stays where it is": (
        Rules({(redistribution, "Division"): StaysDivision}, steps=MOVES, shape=CALM),
        MISPLACED,
    ),
    "a key has two tasks": (
        Rules({(HeldContents, "put_encoded"): put_twice}, steps=MOVES, shape=CALM),
        MISPLACED,
    ),
    "a move discards what is being committed": (
        Rules({(redistribution, "_settle"): take_back_all}, steps=MOVES),
        f"{COUNTED}|{UNCOMMITTED}|have not come|the clock has fired",
    ),
    "a move commits what is being prepared": (
        Rules({(redistribution, "_settle"): commit_all}, steps=MOVES),
        f"{COUNTED}|{UNCOMMITTED}",
    ),
    "senders go on where others stood": (
        Rules(
            {(Progress, "_divide_anew"): each_goes_on},
            steps=MOVES,
            shape={**CALM, "bolts": ("timers", "tumbling"), "lags_s": (0.0, 2.0, 2.0)},
        ),
        "late:|timers: .* has|tumbling: .* has",
    ),
    "the states of before the move are opened": (
        Rules({(membership, "namespace_of"): first_layout}, steps=MOVES),
        f"{COUNTED}|{UNCOMMITTED}|not every event",
    ),
    "a move is valid before it is made": (
        Rules({(checkpoint_spout, "replace_states"): record_first}, steps=MOVES),
        f"{UNCOMMITTED}|not every event",
    ),
    "states are removed before the move is valid": (
        Rules({(checkpoint_spout, "replace_states"): remove_first}, steps=MOVES),
        f"{UNCOMMITTED}|not every event|do not come to an end",
    ),
    "an earlier checkpoint spout takes over again": (
        Rules(
            {(checkpoint_spout, "_task_of"): lambda owner: 0}, steps=MOVES, shape=OFTEN, faults={"crash_every_s": 0.7}
        ),
        "takes the checkpoints over from a later version",
    ),
    "an earlier worker commits late": (
        Rules(backend=UnfencedBackend, steps=MOVES),
        "has opened it since",
    ),
    "versions of values are not stored": (
        Rules({(CheckpointSpout, "_carry_out"): carry_out_without_versions}, steps=("migrate", "rescale")),
        "is of version",
    ),
    "a rollback goes back to code that cannot read": (
        Rules({(Checkpoint, "older_states"): reads_all}, steps=("migrate", "rollback"), shape=CALM),
        "is of version|has counted",
    ),
    "migrated values are stored before their checkpoint": (
        Rules({(TaskState, "migrate"): migrate_at_once}, steps=("migrate", "rescale", "rollback")),
        "is of version|has counted",
    ),
    "a component that comes back goes on with what it had": (
        Rules({(TaskState, "check"): check_without_clearing}, steps=("update",), shape={**CALM, "has_extra": True}),
        COUNTED,
    ),
    "supervisors take any assignment": (
        Rules({(local_assignment, "_is_of"): any_tasks}, steps=MOVES, shape=OFTEN),
        "Error|do not come to an end",
    ),
}
