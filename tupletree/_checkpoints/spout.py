"""Checkpoint spout, which the builder adds to a stateful topology: it triggers checkpoints, and recovers from failures.

The rules are in coordinator.py; this module writes the store and emits the steps. A round consists of one tuple tree
for each task that begins it. The round is complete when all trees are complete, and fails when the first tree fails.

While the store cannot be reached, no checkpoint begins, and a checkpoint in progress waits. If another checkpoint spout
has taken over, this spout behaves like the coordinator of a transactional topology
(transactional/coordinator_spout.py): if the successor is of another topology, this spout stands still permanently; if
the successor is of the same topology, this spout takes over again after a pause, unless the numbers of tasks have
changed since.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, assert_never

from tupletree._checkpoints.coordinator import (
    MIGRATION_PAUSE_S,
    CheckpointCoordinator,
    Effect,
    Phase,
    Record,
    Send,
)
from tupletree._checkpoints.metrics import register_metrics
from tupletree._checkpoints.record import Checkpoint, CheckpointRecord, owner_of
from tupletree._checkpoints.replacing import MoveStates, replace_states
from tupletree._checkpoints.settings import awaits_savepoint, check_settings, interval_s, state_id, stored_versions
from tupletree._checkpoints.steps import STREAM, Action, Step
from tupletree._log import event
from tupletree._stores.nodes import DeposedError, StateStore
from tupletree._stores.zookeeper_nodes import open_store
from tupletree.component import Spout, SpoutCollector, TopologyContext
from tupletree.errors import (
    AuthorityError,
    ConflictError,
    FailedException,
    UnavailableError,
    UsageError,
)
from tupletree.metrics import Histogram
from tupletree.outputs import CHECKPOINT_STREAM
from tupletree.v1.topology_pb2 import HeldCheckpoint

log = logging.getLogger(__name__)

RETRY_S = 0.2
FIRST_PAUSE_S = 1.0
MAX_PAUSE_S = 30.0
"""The longest pause before a takeover from another checkpoint spout of the same topology."""

DURATIONS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

WORTH_A_WORD = 5
"""Failures since the last checkpoint after which an error is reported; reported again every 20 * WORTH_A_WORD."""


class CheckpointSpout(Spout):
    """Coordinates the checkpoints of a topology. Message ids are (round, task).

    ``begins``: the components whose tasks begin a round; ``begins_aligned``: the same for aligned checkpoints.
    ``stateful``: the bolts whose states belong to a checkpoint; ``positioned``: the spouts that belong to an aligned
    checkpoint too. ``versions``: the ``state_version`` of each stateful bolt where it is not 1. ``providers``: the
    components' own ``topology.state.provider``. ``open_store`` is a parameter for the simulation.

    Attributes:
        move_states, restore_states: set by the worker that runs this spout.
    """

    move_states: MoveStates | None = None
    restore_states: MoveStates | None = None
    versions: Mapping[str, int] = MappingProxyType({})  # of the class: spouts of earlier submissions have none
    providers: Mapping[str, str] = MappingProxyType({})

    blocking = True
    paces_itself = True

    _coordinator: CheckpointCoordinator | None = None

    def __init__(
        self,
        begins: Sequence[str],
        begins_aligned: Sequence[str],
        stateful: Sequence[str],
        positioned: Sequence[str],
        versions: Mapping[str, int] = versions,
        providers: Mapping[str, str] = providers,
        *,
        open_store: Callable[[Mapping[str, Any]], StateStore] = open_store,
    ) -> None:
        self.begins = list(begins)
        self.begins_aligned = list(begins_aligned)
        self.stateful = list(stateful)
        self.positioned = list(positioned)
        self.versions = dict(versions)
        self.providers = dict(providers)
        self._open_store = open_store

    def declare_output_fields(self, declarer: Any) -> None:
        declarer.streams[STREAM.id] = STREAM

    def open(self, conf: Mapping[str, Any], context: TopologyContext, collector: SpoutCollector) -> None:
        check_settings(conf)
        self.collector = collector
        self.context = context
        self._conf = conf  # of the task, whose keys can change while the topology runs
        self.state_id = state_id(conf, context.topology_id)
        self._clock = context.clock
        self._interval_s = interval_s(conf)
        is_aligned = bool(conf["topology.state.checkpoint.aligned"])
        begins = self.begins_aligned if is_aligned else self.begins
        self._versions = stored_versions(self.versions, self.providers, conf)
        self._targets = sorted({task for id in begins for task in context.component_tasks(id)})
        self._tasks = {id: len(context.component_tasks(id)) for id in self.stateful + self.positioned * is_aligned}
        self._topology = f"topology {context.topology_id}, "
        self._owner = f"{self._topology}task {context.task_id}, process {os.getpid()} on {socket.gethostname()}"
        self._store = self._open_store(conf)
        self._record: CheckpointRecord | None = None  # None: this spout must take over first
        self._coordinator = None
        self._effects: deque[Effect] = deque()
        self._unacked: set[int] = set()  # tasks that have not acked the current round
        self._retry_at_s = 0.0
        self._is_deposed = False  # by another topology, permanently
        self._refusal = ""  # the reason why the stored checkpoint does not fit this topology, permanently
        self._depositions = 0  # consecutive, by checkpoint spouts of the same topology
        self._began_s = 0.0
        self._step_at_s = 0.0
        self._checkpoint_s = 0.0  # duration of the last checkpoint, from PREPARE to the end of COMMIT
        self._prepare_at_s: float | None = None
        self._sleeper: threading.Timer | None = None
        context.register_status(self.status)
        self._committed_txid = 0
        self._committed_at_s = self._clock()  # time of the last commit; the start time before the first commit
        self._took = Histogram(DURATIONS_S)
        self._register_metrics(context)

    def _register_metrics(self, context: TopologyContext) -> None:
        register_metrics(
            context,
            self._took.snapshot,
            committed_txid=lambda: self._committed_txid,
            since_commit_s=lambda: self._clock() - self._committed_at_s,
            interval_s=lambda: self._interval_s,
            failures=lambda: self._coordinator.failures if self._coordinator is not None else 0,
        )

    def close(self) -> None:
        self.activate()
        self._store.close()

    def deactivate(self) -> None:
        """Continue with a timer, although ``next_tuple`` is not called: processed tuples must still be committed."""
        self._sleeper = threading.Timer(self._interval_s, self._wake)
        self._sleeper.daemon = True
        self._sleeper.start()

    def activate(self) -> None:
        sleeper, self._sleeper = self._sleeper, None
        if sleeper is not None:
            sleeper.cancel()

    def _wake(self) -> None:
        """Runs on the timer's thread."""
        self.context.call_soon(self._while_inactive)

    def _while_inactive(self) -> None:
        if self._sleeper is not None:
            # A topology is inactive, too, on its way back to the version before, which finds its states until then.
            self._advance(begins=self._coordinator is None or not self._coordinator.is_migrating)
            self.deactivate()

    def status(self) -> dict[str, Any]:
        """Return the status for people. Called on another thread: attributes can change meanwhile."""
        coordinator, record, now_s = self._coordinator, self._record, self._clock()
        step = coordinator.step if coordinator is not None else None
        return {
            "kind": "checkpoint",
            "state_id": self.state_id,
            "state": self._state_name,
            "reason": self._refusal or None,
            "txid": record.checkpoint.txid if record is not None else None,
            "phase": record.checkpoint.phase.value if record is not None else None,
            "is_recovering": coordinator.is_recovering if coordinator is not None else True,
            "step": None if step is None else step.action.name.lower(),
            "step_age_s": None if step is None else round(now_s - self._step_at_s, 3),
            "last_checkpoint_s": round(self._checkpoint_s, 3),
            "failures": coordinator.failures if coordinator is not None else 0,
        }

    @property
    def _state_name(self) -> str:
        if self._refusal:
            return "refused"
        if self._is_deposed:
            return "stands still"
        return "taking over" if self._record is None else "running"

    @property
    def _is_over(self) -> bool:
        """True if this spout takes no more checkpoints."""
        return self._is_deposed or bool(self._refusal)

    def next_tuple(self) -> None:
        self._advance()

    def hurry(self) -> None:
        """Begin the next checkpoint now, if the last one is complete."""
        if self._coordinator is not None:
            self._coordinator.hurry()
            self._advance()

    @property
    def is_between(self) -> bool:
        """True if no checkpoint is in progress, not even one whose step failed and is tried again. Any thread."""
        coordinator = self._coordinator
        return coordinator is None or (coordinator.step is None and not coordinator.is_recovering)

    def hold(self, hold_s: float) -> HeldCheckpoint:
        """Begin no checkpoint for some seconds, instead of those of an earlier call; tell where the states are."""
        coordinator = self._coordinator
        txid = None if coordinator is None or self._is_over else coordinator.hold(self._clock() + hold_s)
        refusal = self._refusal or ("another topology has taken its state id over" if self._is_deposed else "")
        return HeldCheckpoint(txid=txid, tasks=self._tasks, versions=self._versions, refusal=refusal)

    def ack(self, msg_id: tuple[int, int]) -> None:
        round_, task = msg_id
        step = self._coordinator.step if self._coordinator is not None else None
        if self._coordinator is None or step is None or step.round != round_ or self._is_over:
            return
        self._unacked.discard(task)
        if self._unacked:
            return
        now_s = self._clock()
        event(log, "checkpoint.step", id=self.state_id, step=step, level=logging.DEBUG)
        self._effects.extend(self._coordinator.acked(round_, now_s))
        if step.action is Action.COMMIT:
            self._committed_at_s = now_s
            self._committed_txid = step.txid
            if self._prepare_at_s is not None:
                self._checkpoint_s = now_s - self._prepare_at_s
                self._took.observe(self._checkpoint_s)
        self._advance(begins=False)

    def fail(self, msg_id: tuple[int, int]) -> None:
        round_, task = msg_id
        coordinator = self._coordinator
        if coordinator is None:
            return
        step = coordinator.step
        if coordinator.failed(round_, self._clock()):
            event(log, "checkpoint.failed", id=self.state_id, step=step, task=task)
            self._effects.clear()
            if self._record is not None:
                self._record.doubt()  # tasks that have seen a successor's round refuse all rounds of this spout
            if coordinator.failures == WORTH_A_WORD or coordinator.failures % (20 * WORTH_A_WORD) == 0:
                self.collector.report_error(
                    FailedException(
                        f"no checkpoint of {self.state_id!r} was completed in {coordinator.failures} attempts; "
                        f"the cause is in other errors or under checkpoint.refused in the workers' logs, or a bolt "
                        f"fails the same tuple each time, or a task did not ack within topology.message.timeout.secs"
                    )
                )

    def _advance(self, *, begins: bool = True) -> None:
        """Do what is decided but not done: store writes, emits. If the store cannot be reached, retry later."""
        if self._is_over or self._clock() < self._retry_at_s:
            return
        self._follow_interval()
        try:
            if self._coordinator is None:
                self._take_over()
            if self._coordinator is not None and begins and not self._effects:
                self._effects.extend(self._coordinator.next(self._clock()))
            while self._effects:
                self._carry_out(self._effects[0])
                self._effects.popleft()
        except (UnavailableError, ConflictError) as error:
            self._retry_at_s = self._clock() + RETRY_S
            event(log, "checkpoints.waiting", id=self.state_id, cause=error)
            self.collector.report_error(error)
        except UsageError as error:  # a newer version has written the stored checkpoint
            self._refuse(error)
        except AuthorityError as error:
            event(log, "checkpoint.spout.deposed", id=self.state_id, cause=error)
            self.collector.report_error(error)
            self._stand_down(error)

    def _follow_interval(self) -> None:
        """Adopt the configured interval, which can change while the topology runs."""
        self._interval_s = interval_s(self._conf)
        if self._coordinator is not None:
            self._coordinator.interval_s = self._interval_s

    def _take_over(self) -> None:
        owner = owner_of(self._store, self.state_id)
        if owner.startswith(self._topology) and _task_of(owner) > self.context.task_id:
            raise DeposedError(
                f"the checkpoint spout of state id {self.state_id!r} has other numbers of tasks now", owner
            )
        record = CheckpointRecord.take_over(self._store, self.state_id, self._owner)
        if awaits_savepoint(self._conf, self.context.topology_id, record.checkpoint):
            self._restore(record)
        older = record.checkpoint.older_states(self._tasks, self._versions)
        if self._is_changed(record.checkpoint):
            self._move(record)
        stored = record.checkpoint
        fresh = [id for id in self._tasks if id not in stored.tasks]
        pause_s = min(MIGRATION_PAUSE_S, self._conf["topology.message.timeout.secs"] / 3)
        self._record = record
        self._coordinator = CheckpointCoordinator(
            record.epoch, stored.txid, stored.phase, fresh, self._interval_s, older, pause_s
        )
        self._began_s = self._clock()
        if stored.phase is Phase.COMMITTED:
            self._committed_txid = stored.txid
        event(
            log, "checkpoint.spout.began", id=self.state_id, epoch=record.epoch, txid=stored.txid, phase=stored.phase
        )  # fmt: skip

    def _is_changed(self, stored: Checkpoint) -> bool:
        """True if a component had another number of tasks at the stored checkpoint."""
        return any(stored.tasks.get(id, count) != count for id, count in self._tasks.items())

    def _move(self, record: CheckpointRecord) -> None:
        """Divide the states anew, and store that this is done. Raises as ``replace_states``."""
        assert self.move_states is not None
        make = partial(self.move_states, record.checkpoint, self._tasks)
        replace_states("states.moved", self.state_id, record, make, self._clock)

    def _restore(self, record: CheckpointRecord) -> None:
        """Write the states of the savepoint, and store that this is done. Raises as ``_move``."""
        assert self.restore_states is not None
        make = partial(self.restore_states, record.checkpoint, self._tasks)
        replace_states("states.restored", self.state_id, record, make, self._clock)

    def _refuse(self, error: UsageError) -> None:
        """Take no checkpoints at all: the stored checkpoint does not fit this topology."""
        self._refusal = str(error)
        event(log, "checkpoint.spout.refused", id=self.state_id, cause=error)
        self.collector.report_error(error)

    def _stand_down(self, error: AuthorityError) -> None:
        """Stop permanently, or for a pause if the successor is of the same topology."""
        self._effects.clear()
        if not isinstance(error, DeposedError) or not error.successor.startswith(self._topology):
            self._is_deposed = True
            return
        if _task_of(error.successor) > self.context.task_id:  # of other numbers of tasks: they are not changed back
            self._is_deposed = True
            return
        if self._clock() - self._began_s > MAX_PAUSE_S:
            self._depositions = 0
        self._record = self._coordinator = None
        self._retry_at_s = self._clock() + min(MAX_PAUSE_S, FIRST_PAUSE_S * 2 ** min(self._depositions, 10))
        self._depositions += 1

    def _carry_out(self, effect: Effect) -> None:
        assert self._record is not None and self._coordinator is not None
        match effect:
            case Record(txid, phase, is_whole):
                before = self._record.checkpoint
                tasks = self._tasks if is_whole else before.tasks
                layouts = {id: layout for id, layout in before.layouts.items() if id in tasks or id in self._tasks}
                versions = self._versions if is_whole else before.versions
                newest = self._coordinator.newest_round
                self._record.save(Checkpoint(txid, phase, tasks, newest, layouts, versions, before.origin))
            case Send(step):
                self._record.refresh()
                if step == self._coordinator.step:
                    self._send(step)
            case _:
                assert_never(effect)

    def _send(self, step: Step) -> None:
        self._step_at_s = self._clock()
        if step.action is Action.PREPARE:
            self._prepare_at_s = self._step_at_s
        self._unacked = set(self._targets)
        for task in self._targets:
            self.collector.emit_direct(task, step.row(0), (step.round, task), CHECKPOINT_STREAM)


def _task_of(owner: str) -> int:
    """Return the task id in the name of a checkpoint spout; 0 if there is none. Later numbers of tasks: higher ids."""
    found = re.search(r", task (\d{1,18}), ", owner)
    return int(found[1]) if found else 0
