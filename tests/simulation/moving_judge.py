"""What must hold of a topology whose states move, whatever happens.

The judge believes what is stored, which is looked at directly, and what the log says. Whenever the checkpoint record
says that a checkpoint is decided on, or that states have moved, the states that the record names are one cut: they hold
the events before the positions, each once, in the task that their key belongs to; timers have fired and windows were
emitted at most once, with all their events.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from moving_components import CLOCK
from moving_nouns import BUCKET_MS, ENDS, EXTRA, GAP_MS, ID, PARTITIONS, SIZE_MS, Event, owner

from tupletree._checkpoints.coordinator import Phase
from tupletree._checkpoints.places import namespace_of
from tupletree._checkpoints.record import Checkpoint, checkpoint_path, epoch_path, stored_checkpoint
from tupletree._stores.nodes import Create, Put, Write
from tupletree._wire.codec import decode_value
from tupletree._wire.value_hash import hash_values
from tupletree.keyed.progress import key_of
from tupletree.state.memory import Namespace
from tupletree.worker.checkpoint.spout_participant import POSITION

if TYPE_CHECKING:
    from moving_workers import Worker
    from moving_world import World

Windows = Mapping[tuple[str, int], Sequence[str]]
"""The ids of the events of each key and start."""


class Judge:
    def __init__(self, world: World) -> None:
        self.world = world
        self.checkpoint = Checkpoint()
        self.holder: Worker | None = None  # who raised the epoch last
        self.owners: dict[str, Worker] = {}  # by namespace
        self.cuts = 0
        self.commits = 0
        self.extra_since: dict[int, int] | None = None  # the positions at which the component came that comes and goes
        normal = [event for event in world.log.events if event.at <= world.log.end_ms]
        self.truths = {
            "timers": grouped(normal, lambda event: event.at // BUCKET_MS * BUCKET_MS),
            "tumbling": grouped(normal, lambda event: event.at // SIZE_MS * SIZE_MS),
            "sessions": sessions(normal),
        }

    # What tasks do with states

    def opened(self, worker: Worker, name: str) -> None:
        self.world.tell(f"{worker} opens {name}")
        self.owners[name] = worker

    def prepared(self, worker: Worker, name: str, txid: int) -> None:
        self._check_owner(worker, name, f"prepares {txid}")

    def committed(self, worker: Worker, name: str, txid: int) -> None:
        self._check_owner(worker, name, f"commits {txid}")

    def rolled_back(self, worker: Worker, name: str, prepared: int | None) -> None:
        self._check_owner(worker, name, f"rolls {prepared} back")

    def goes_back(self, worker: Worker, name: str) -> None:
        """A task knows that its state is rolled back."""

    def _check_owner(self, worker: Worker, name: str, what: str) -> None:
        self.world.tell(f"{worker}: {name} {what}")
        if self.owners[name] is not worker:
            raise self.world.violation(f"{worker}: {name} {what}; {self.owners[name]} has opened it since")

    # The record

    def stored(self, writer: Worker, writes: Sequence[Write]) -> None:
        for write in writes:
            if isinstance(write, Create | Put) and write.path == epoch_path(ID):
                self.world.tell(f"{writer} takes the checkpoints over")
                if self.holder is not None and writer.first_task < self.holder.first_task:
                    raise self.world.violation(
                        f"{writer} takes the checkpoints over from a later version's {self.holder}"
                    )
                self.holder = writer
            elif isinstance(write, Create | Put) and write.path == checkpoint_path(ID):
                self._recorded(writer, stored_checkpoint(self.world.store, ID))

    def _recorded(self, writer: Worker, after: Checkpoint) -> None:
        before, self.checkpoint = self.checkpoint, after
        self.world.tell(f"{writer} records {after}")
        if writer is not self.holder:
            raise self.world.violation(f"{writer} records {after}; {self.holder} has taken over")
        is_move = before.layouts != after.layouts and (before.txid, before.phase) == (after.txid, after.phase)
        if is_move:
            self._count_move(before, after)
        if EXTRA in after.tasks and EXTRA not in before.tasks:
            self.extra_since = self.positions(before)
        if is_move or after.phase is not Phase.PREPARING:
            self.commits += after.phase is Phase.COMMITTED and before.phase is Phase.COMMITTING
            self.check_cut()

    def _count_move(self, before: Checkpoint, after: Checkpoint) -> None:
        counts = self.world.counts
        for name, tasks in after.tasks.items():
            was = before.tasks.get(name, tasks)
            if was != tasks:
                counts["moved positions" if name == "events" else "moved states"] += 1
                counts["moved up" if tasks > was else "moved down"] += 1
        counts[f"moved while {after.phase}"] += 1
        counts["moved amid faults"] += self.world.is_faulty

    # Cuts

    def positions(self, checkpoint: Checkpoint | None = None) -> dict[int, int]:
        """The position of each partition, as its task has stored it."""
        checkpoint = checkpoint or self.checkpoint
        states = self.contents("events", checkpoint) if "events" in checkpoint.tasks else [{}]
        found = {}
        for partition in range(PARTITIONS):
            position = states[partition % len(states)].get(POSITION, {}).get(str(partition), 0)
            found[partition] = position if position >= 0 else -1 - position
        return found

    def contents(self, component: str, checkpoint: Checkpoint) -> list[dict[Any, Any]]:
        """The entries of each task of a component, at the checkpoint that is decided on."""
        tasks, layout = checkpoint.tasks[component], checkpoint.layouts.get(component, 0)
        txid = checkpoint.txid - (checkpoint.phase is Phase.PREPARING)
        names = [namespace_of(ID, component, index, tasks, layout) for index in range(tasks)]
        return [self._entries(name, txid, checkpoint.phase) for name in names]

    def _entries(self, name: str, txid: int, phase: Phase) -> dict[Any, Any]:
        state = self.world.states.get(name) or Namespace()
        if (state.committed or 0) == txid:
            return decoded(state.entries)
        is_gone = name.startswith(f"{ID}/{EXTRA}")  # then nobody commits what is decided on until it is back
        if state.prepared == txid and (phase is Phase.COMMITTING or is_gone):
            return decoded({**state.entries, **state.changes})
        held = f"committed {state.committed} and prepared {state.prepared}"
        raise self.world.violation(f"{phase} {self.checkpoint.txid} is recorded; {name} has {held}")

    def check_cut(self) -> None:
        """The states that the record names hold what the spouts have emitted before their positions."""
        checkpoint = self.checkpoint
        if not checkpoint.tasks:
            return
        self.cuts += 1
        positions = self.positions()
        states = {name: self.contents(name, checkpoint) for name in checkpoint.tasks}
        for name, tasks in states.items():
            if name not in ("events", "late"):
                self._check_owners(name, tasks)
        if any(states.get("late", ())):
            raise self.world.violation(f"late: {states['late']}")
        whole = [event.id for event in self.world.log.before(positions)]
        rows = self._rows(states)
        for name, tasks in states.items():
            if name == "count":
                self._check_ids(name, self._counted(name, tasks), whole)
            elif name == EXTRA:
                since = self.extra_since or dict.fromkeys(range(PARTITIONS), 0)
                before = {event.id for event in self.world.log.before(since)}
                self._check_ids(name, self._counted(name, tasks), [one for one in whole if one not in before])
            elif name in self.truths:
                self._check_windows(name, rows[name])
                if name == "timers":
                    self._check_timers(tasks, rows, whole)

    def _check_owners(self, name: str, tasks: Sequence[Mapping[Any, Any]]) -> None:
        for index, entries in enumerate(tasks):
            for entry in entries:
                key = entry if name == "results" else key_of(entry)
                if key is None:
                    continue  # of the whole task
                hashed = hash_values(key, "", ["window", "start"]) if name == "results" else owner(key, 1 << 32)
                if hashed % len(tasks) != index:
                    raise self.world.violation(f"{name}: {entry} is in the state of task {index} of {len(tasks)}")

    def _values(self, name: str, tasks: Iterable[Mapping[Any, Any]]) -> dict[Any, list[Any]]:
        """The values of a bolt without the versions that have stored them: all are of one version."""
        version = self.checkpoint.versions.get(name, 1)
        found = {}
        for entries in tasks:
            for key, value in entries.items():
                if type(key) is str or name == "results":
                    if value[0] != version:
                        raise self.world.violation(f"{name}: {key} is of version {value[0]}, and recorded is {version}")
                    found[key] = value[1:]
        return found

    def _counted(self, name: str, tasks: Iterable[Mapping[Any, Any]]) -> list[str]:
        return [id for ids in self._values(name, tasks).values() for id in ids]

    def _rows(self, states: Mapping[str, Sequence[Mapping[Any, Any]]]) -> dict[str, dict[tuple[str, int], list[Any]]]:
        """The rows of each key and start, by the bolt that has emitted them."""
        found: dict[str, dict[tuple[str, int], list[Any]]] = defaultdict(dict)
        for (window, start), rows in self._values("results", states.get("results", ())).items():
            name, key = window.split(":")
            found[name][key, start] = rows
        return found

    def _check_windows(self, name: str, rows: Mapping[tuple[str, int], Sequence[Sequence[str]]]) -> None:
        for window, found in rows.items():
            if window[1] == CLOCK or window[0] in ENDS:
                continue
            if len(found) != 1:
                raise self.world.violation(f"{name}: {window} has come {len(found)} times: {found}")
            if sorted(found[0]) != sorted(self.truths[name].get(window, ())):
                truth = self.truths[name].get(window)
                raise self.world.violation(f"{name}: {window} has {found[0]}, not {truth}")

    def _check_timers(
        self,
        tasks: Sequence[Mapping[Any, Any]],
        rows: Mapping[str, Mapping[tuple[str, int], Sequence[Sequence[Any]]]],
        whole: Sequence[str],
    ) -> None:
        """Each event is in the bucket of its key, or in a row; each timer of the clock has emitted one."""
        ids = [id for window, found in rows["timers"].items() if window[1] != CLOCK for row in found for id in row]
        for key, (buckets, fired, *marks) in self._values("timers", tasks).items():
            ids += [id for waiting in buckets.values() for id in waiting] + marks
            emitted = [row[0] for row in rows["timers"].get((key, CLOCK), ())]
            if sorted(emitted) != list(range(fired)):
                raise self.world.violation(f"timers: the clock has fired {fired} times for {key}, with rows {emitted}")
        self._check_ids("timers", ids, whole)

    def _check_ids(self, name: str, found: Sequence[str], truth: Sequence[str]) -> None:
        counted, expected = Counter(found), Counter(truth)
        for id in sorted(counted.keys() | expected.keys()):
            if counted[id] != expected[id]:
                raise self.world.violation(
                    f"{name} has counted {id} {counted[id]} times, not {expected[id]}, at {self.checkpoint} with "
                    f"positions {self.positions()}"
                )

    # The end

    def is_done(self) -> bool:
        """True if a committed checkpoint has all events."""
        lengths = {number: len(one) for number, one in enumerate(self.world.log.partitions)}
        return self.checkpoint.phase is Phase.COMMITTED and self.positions() == lengths

    def check_end(self) -> None:
        """Every timer has fired, and every window was emitted."""
        self.check_cut()
        if "results" not in self.checkpoint.tasks:
            return
        rows = self._rows({"results": self.contents("results", self.checkpoint)})
        for name, truth in self.truths.items():
            if name in self.checkpoint.tasks and (missing := truth.keys() - rows[name].keys()):
                raise self.world.violation(f"{name}: {sorted(missing)} have not come")


def decoded(entries: Mapping[bytes, bytes | None]) -> dict[Any, Any]:
    return {decode_value(key): decode_value(value) for key, value in entries.items() if value is not None}


def grouped(events: Iterable[Event], start_of: Any) -> Windows:
    """The events of each key and start."""
    found: dict[tuple[str, int], list[str]] = defaultdict(list)
    for event in events:
        found[event.key, start_of(event)].append(event.id)
    return found


def sessions(events: Iterable[Event]) -> Windows:
    """The sessions of each key, by their first event."""
    found: dict[tuple[str, int], list[str]] = {}
    last: dict[str, tuple[int, int]] = {}  # the start of the last session of a key, and its last event
    for event in sorted(events, key=lambda one: one.at):
        start, newest = last.get(event.key, (event.at, event.at))
        if event.at >= newest + GAP_MS:
            start = event.at
        found.setdefault((event.key, start), []).append(event.id)
        last[event.key] = start, event.at
    return found
