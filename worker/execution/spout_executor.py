"""Spout executors: they poll spouts while the topology is active, and tell spouts how their trees ended."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence

from tupletree._source_progress import REPORT_EVERY_S
from tupletree.errors import ProtocolError
from tupletree.tuples import Origin

from ..control_messages import Call, ConfChanged, Control, ShardsLost, TreeVerdict, VerdictKind, WorkerLost
from ..core.batches import Batch, Rows
from ..core.spout_task import NO_REASONS, SpoutTask
from ..core.task import Clock
from .executor import Deliver, Executor, call
from .idle_spouts import IdleWait, pause_s
from .inbox import ACKERS, BACKLOG, Gate, Inbox, RemoteBatch

HELD_BY = ("congestion", "ackers")
"""Reasons why active spouts are not polled. If both apply, the reason is "ackers"."""

LONG_CALL_S = 0.001
"""After a call this long, the output of a spout that was found blocking is handed over."""


TOLD_BY: Mapping[VerdictKind, Callable[[SpoutTask, Sequence[int]], None]] = {
    VerdictKind.ACKED: SpoutTask.on_acked,
    VerdictKind.FAILED: SpoutTask.on_failed,
    VerdictKind.EXPIRED: SpoutTask.on_expired,
    VerdictKind.RESET: SpoutTask.on_reset,
}


class SpoutExecutor(Executor):
    """Executor that polls spout tasks while the topology is active, and tells them how their trees ended."""

    is_source = True

    def __init__(
        self,
        tasks: Sequence[SpoutTask],
        inbox: Inbox,
        gate: Gate,
        deliver: Deliver,
        clock: Clock,
        batch_size: int,
        timeout_s: float | None,
        idle_wait_s: float,
        feeds_ackers: frozenset[int],
    ) -> None:
        super().__init__(tasks, inbox, gate, deliver, clock, batch_size)
        self._feeds |= feeds_ackers
        self._spouts = list(tasks)
        self._by_task = {task.task_id: task for task in tasks}
        self.tree_tasks = list(self._by_task)
        self._is_active = False
        self._wants_active = self._must_open = False  # set by any thread
        self._timeout_s = timeout_s
        self._next_rotation_s = clock() + timeout_s if timeout_s else math.inf
        self.rest = IdleWait(idle_wait_s)
        self._emitted_s = clock()  # the last time
        self._suspects: list[tuple[float, SpoutTask, list[int]]] = []
        self._has_opened = False
        self._held: tuple[str, float] | None = None  # why the spouts are not polled now, and since when
        self._held_s = dict.fromkeys(HELD_BY, 0.0)
        self._report_at_s = math.inf  # when spouts report their progress in event time; infinity if none does

    def open(self) -> None:
        """Do nothing: spouts open when their topology is first active (see ``step``)."""

    @property
    def wants_active(self) -> bool:
        """True if the topology is active. Spouts open even if it is so for a moment only: CheckpointSpout, which may
        be slower than the others, commits what they have emitted while the topology is inactive. Any thread."""
        return self._wants_active

    @wants_active.setter
    def wants_active(self, wants_active: bool) -> None:
        if wants_active:
            self._must_open = True  # first: an active spout is open
        self._wants_active = wants_active

    @property
    def _must_switch(self) -> bool:
        return self._wants_active != self._is_active or self._must_open

    @property
    def has_work(self) -> bool:
        # Verdicts are handled even while receiving tasks are congested.
        return bool(self.inbox) or self._must_switch

    @property
    def is_ready(self) -> bool:
        return self.has_work or (self._may_poll and not (self.rest.ran_dry or self.rest.is_on))

    @property
    def _may_poll(self) -> bool:
        """True if a spout may be polled, unless the executor rests."""
        return self._is_active and not self.is_held and any(spout.room > 0 for spout in self._ready)

    def step(self) -> bool:
        self._follow_loads()  # also before spouts are told of acks and fails, and can emit
        worked = self._handle_control()
        if worked:  # a spout might have waited for an ack
            self.rest.is_on = False
        if self._next_rotation_s != math.inf or self._suspects:
            worked |= self._expire(self._clock())
        if self._must_switch:
            self._switch()
        if self._report_at_s != math.inf and self._may_report and self._clock() >= self._report_at_s:
            self._report()
            worked = True
        is_held = self._is_active and self.is_held
        if is_held or self._held is not None:
            self._count_held(is_held)
        if not self._is_active or is_held or self.turns_held or self.rest.is_on:
            return worked
        return self._poll() or worked

    @property
    def is_paused(self) -> bool:
        """True while the spouts are deactivated. Any thread."""
        return not (self._wants_active or self._is_active or self._must_open)

    @property
    def is_opening(self) -> bool:
        """True while the topology is active and the spouts have not opened. Any thread."""
        return self._wants_active and not self._has_opened

    @property
    def progress(self) -> Hashable:
        """A value that also changes with every ack, fail and emit: one step can call a spout for many trees."""
        spout = self._by_task[self.at_work.task_id]
        return spout.task_id, spout.counters.acked, spout.counters.failed, spout.collector.emits

    def _count_held(self, is_held: bool) -> None:
        """Add up the time for which spouts are held. The gate wakes the loop at every change."""
        now_s = self._clock()
        if self._held is not None:
            cause, since_s = self._held
            self._held_s[cause] += now_s - since_s
        by_ackers = not self._gate.closed.isdisjoint(self._feeds & {ACKERS, BACKLOG})
        self._held = ("ackers" if by_ackers else "congestion", now_s) if is_held else None

    def held_s(self) -> dict[str, float]:
        """Return the seconds for which active spouts were not polled, by reason. Any thread."""
        total, held = dict(self._held_s), self._held
        if held is not None:
            total[held[0]] += max(0.0, self._clock() - held[1])
        return total

    def due_s(self) -> float:
        due_s = min(self._next_rotation_s, *(due for due, _, _ in self._suspects), math.inf)
        if self._may_poll:
            now_s = self._clock()
            due_s = min(due_s, now_s + pause_s(self.rest.length_s, now_s - self._emitted_s))
        if self._may_report:
            due_s = min(due_s, self._report_at_s)
        return due_s

    def _handle_control(self) -> bool:
        worked = False
        while (item := self.inbox.pop_news() or self.inbox.pop()) is not None:
            if type(item) is Batch:
                self._handle_steps(item.target_task, item.origin, item.rows)
            elif type(item) is RemoteBatch:
                self._handle_remote(item)
            else:
                self._handle(item)
            worked = True
        return worked

    def _handle(self, item: Control | Call) -> None:
        match item:
            case TreeVerdict():
                spout = self._by_task[item.task]
                if item.kind is not VerdictKind.RESET:
                    self._show(spout, item.kind.value, item.roots)
                spout.reasons = item.reasons
                self._notify(spout, TOLD_BY[item.kind], item.roots)
                spout.reasons = NO_REASONS
            case Call():
                self.at_work = self._by_task[item.task]
                call(item, self._by_task[item.task])
            case ConfChanged():
                self.follow_conf(item.changes)
            case WorkerLost():
                due_s = self._clock() + item.grace_s
                self._suspects += [(due_s, spout, list(spout.pending)) for spout in self._spouts if spout.pending]
            case ShardsLost():
                for spout in self._spouts:
                    lost = [root for root in spout.pending if root % item.count in item.shards]
                    self._show(spout, "failed", lost)
                    self._notify(spout, SpoutTask.on_failed, lost)

    def _handle_remote(self, item: RemoteBatch) -> None:
        try:
            if item.divided is None:
                self._handle_steps(item.message.target_task, item.origin, item.rows)
                return
            for task, rows in item.rows_of(self._by_task):
                self._handle_steps(task, item.origin, rows)
        except ProtocolError as error:
            self._spouts[0].report_error(error)
            self.inbox.done(item.count_of(self._by_task))

    def _handle_steps(self, target: int, origin: Origin, rows: Rows) -> None:
        """Pass checkpoint steps to the participants. Spouts receive no other tuples."""
        for task, steps in [(target, rows)] if rows.targets is None else rows.by_target():
            participant = self._by_task[task].participant
            if participant is not None:
                participant.admit(origin, steps)
        self.inbox.done(len(rows))

    @property
    def _ready(self) -> list[SpoutTask]:
        """Spouts that may be polled. A spout that takes part in checkpoints must be initialised first."""
        if not self._participants:
            return self._spouts
        return [spout for spout in self._spouts if spout.participant is None or spout.participant.is_ready]

    def _show(self, spout: SpoutTask, verdict: str, roots: Sequence[int]) -> None:
        """Show the tracer how trees ended, before their spout is called."""
        if self.tracer is not None:
            self.tracer.judged(spout, verdict, roots)

    def _notify(self, spout: SpoutTask, call: Callable[..., None], *arguments: object) -> None:
        self.at_work = spout
        try:
            call(spout, *arguments)
        except (Exception, SystemExit) as error:
            raise spout.failure(error) from error

    def _expire(self, now_s: float) -> bool:
        """Fail trees that timed out, and trees still pending at the end of the grace after the loss of a worker."""
        worked = False
        while self._next_rotation_s <= now_s and self._timeout_s:
            self._next_rotation_s += self._timeout_s
            for spout in self._spouts:
                if self.tracer is not None:
                    self.tracer.judged(spout, "expired", spout.pending.oldest())
                self._notify(spout, SpoutTask.rotate)
        due = [entry for entry in self._suspects if entry[0] <= now_s]
        for entry in due:
            self._suspects.remove(entry)
            self._show(entry[1], "failed", entry[2])
            self._notify(entry[1], SpoutTask.on_failed, entry[2])
            worked = True
        return worked

    def _switch(self) -> None:
        """Open, activate or deactivate the spouts to match the status of the topology."""
        must_open, self._must_open = self._must_open, False
        was_active, self._is_active = self._is_active, self._wants_active
        is_changed = self._is_active != was_active
        if is_changed:
            self._emitted_s = self._clock()
            if was_active and self._report_at_s != math.inf and not self.is_held:
                self._report()  # what was emitted last may end windows
        for spout in self._spouts:
            if must_open and not spout.is_open:
                spout.context.begin_hooks()
                self._notify(spout, SpoutTask.open)
                is_told = self._is_active
                if spout.context.source_progress is not None:
                    self._report_at_s = self._clock()
            else:
                is_told = not is_changed
            if not is_told:
                self._notify(spout, SpoutTask.activate if self._is_active else SpoutTask.deactivate)
        self._has_opened |= must_open

    @property
    def _may_report(self) -> bool:
        return self._is_active and not self.is_held and not self.turns_held

    def _report(self) -> None:
        """Send the progress of spouts in event time to the tasks that wait for watermarks."""
        self._report_at_s = self._clock() + REPORT_EVERY_S
        for spout in self._ready:
            self.at_work = spout
            spout.report_progress()

    def _poll(self) -> bool:
        """Poll the spouts until a batch is full, the time is up, or there are no more tuples.

        A spout declared as blocking is called once: its next call can take long, and the tuple just emitted must not
        wait for that call. A spout that was found blocking is called until a call takes long.
        """
        started_s = self._clock()
        worked = False
        for spout in self._ready:
            self.at_work = spout
            spout.context.polled_s = started_s
            spout.must_yield = False
            emits = spout.collector.emits
            if not self.is_blocking:
                worked |= spout.poll(self._quantum)
            elif not self.is_found_blocking:
                worked |= spout.poll(1)
            else:
                worked |= self._poll_warily(spout)
            self.rest.emitted += spout.collector.emits - emits
        if worked:
            self._emitted_s = self._clock()
            self._adapt(self._emitted_s - started_s)
        self.rest.ran_dry = all(spout.is_dry for spout in self._ready)
        return worked

    def _poll_warily(self, spout: SpoutTask) -> bool:
        """Call a spout until it has emitted enough, a call takes long, or a call emits nothing."""
        emits = spout.collector.emits
        enough = emits + self._quantum
        before_s = self._clock()
        while spout.poll(1) and spout.collector.emits < enough:
            now_s = self._clock()
            if now_s - before_s >= LONG_CALL_S:
                break
            before_s = now_s
        return spout.collector.emits != emits
