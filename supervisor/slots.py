"""The slots of this machine: feeds events and clock ticks to the state machine of each slot."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from tupletree._log import event as log_event
from tupletree.errors import NotFoundError

from .local_assignment import LocalAssignment
from .slot import Empty, Limits, Slot, live_worker, next_deadline_s, state_name, step
from .slot_events import Assigned, Effect, Event, Overslept, RestartRequested, Ticked, WorkerBeat
from .slot_queries import knows, works_of

log = logging.getLogger(__name__)

_MAX_TICK_S = 1.0
_OVERSLEPT_S = 2.0
"""A longer delay means that this process was suspended or starved, and that heartbeats are not yet read."""

CarryOut = Callable[[int, Effect], None]


class Slots:
    """The state of every slot. Use from the event loop only.

    ``carry_out(port, effect)`` must return at once and report back later through ``tell``.
    """

    def __init__(self, ports: Iterable[int], limits: Limits, carry_out: CarryOut) -> None:
        self._slots = {port: Slot(port, limits) for port in ports}
        self._carry_out = carry_out
        self._changed = asyncio.Event()

    def __iter__(self) -> Iterator[Slot]:
        return iter(self._slots.values())

    def dispatch(self, port: int, event: Event) -> None:
        """Feed one event to a slot and carry out the effects."""
        before = self._slots[port]
        after, effects = step(before, event, time.monotonic())
        self._slots[port] = after
        if type(after.state) is not type(before.state):
            _log_transition(before, after)
        for effect in effects:
            self._carry_out(port, effect)
        self._changed.set()

    def dispatch_all(self, event: Event) -> None:
        for port in self._slots:
            self.dispatch(port, event)

    def beat(self, beat: WorkerBeat) -> bool:
        """Handle a heartbeat. True if the worker belongs to a slot."""
        for port, slot in self._slots.items():
            if knows(slot, beat.worker_id):
                self.dispatch(port, beat)
                return True
        return False

    def restart(self, port: int, topology_id: str = "") -> None:
        """Restart the worker of a slot. Raises NotFoundError if the slot has no work, or work of another topology."""
        slot = self._slots.get(port)
        if slot is None or slot.desired is None or topology_id not in ("", slot.desired.topology_id):
            of = f" of {topology_id}" if topology_id else ""
            raise NotFoundError(f"no worker{of} runs on port {port} of this supervisor")
        self.dispatch(port, RestartRequested())

    def bundles_in_use(self) -> frozenset[str]:
        """Return the digests of the bundles that slots need now or next."""
        return frozenset(work.bundle_sha256 for work in self.works())

    def works(self) -> list[LocalAssignment]:
        """Return the work of every slot, now and next."""
        return [work for slot in self._slots.values() for work in works_of(slot)]

    def ports_kept(self, plan: Mapping[int, LocalAssignment | None], unread: Collection[str]) -> set[int]:
        """Return the slots that keep their work: nothing else is planned for them, and their topology is ``unread``, so
        it is unknown if the topology is still assigned here."""
        desired = {port: slot.desired for port, slot in self._slots.items() if plan.get(port) is None}
        return {port for port, work in desired.items() if work is not None and work.topology_id in unread}

    def live_workers(self) -> set[str]:
        return {worker.worker_id for slot in self._slots.values() if (worker := live_worker(slot)) is not None}

    async def keep_time(self) -> None:
        """Tick each slot when it is due, forever."""
        while True:
            now_s = time.monotonic()
            deadlines = [due for slot in self._slots.values() if (due := next_deadline_s(slot)) is not None]
            pause_s = max(0.0, min([_MAX_TICK_S, *(due - now_s for due in deadlines)]))
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), pause_s)
            late_s = time.monotonic() - now_s - pause_s
            if late_s > _OVERSLEPT_S:
                log_event(log, "supervisor.overslept", seconds=f"{late_s:.1f}")
                self.dispatch_all(Overslept(late_s))
            self.dispatch_all(Ticked())

    async def empty(self) -> None:
        """Stop every worker, and wait until all have ended."""
        self.dispatch_all(Assigned(None))
        while not all(isinstance(slot.state, Empty) for slot in self._slots.values()):
            self._changed.clear()
            await self._changed.wait()


def _log_transition(before: Slot, after: Slot) -> None:
    worker = live_worker(after) or live_worker(before)
    context: dict[str, Any] = {"slot": after.port}
    state = before.state if isinstance(after.state, Empty) else after.state
    if not isinstance(state, Empty):
        context["topology"] = state.work.topology_id
    if worker is not None:
        context |= {"worker": worker.worker_id, "pid": worker.pid}
    log_event(log, f"slot.{state_name(after)}", **context)
