"""Questions to a slot from outside: which worker and which work belong to it."""

from __future__ import annotations  # pure

from collections.abc import Iterable

from .local_assignment import LocalAssignment
from .slot import Empty, Launching, Running, Slot, Starting, Stopping, live_worker


def knows(slot: Slot, worker_id: str) -> bool:
    """True if a worker that sends heartbeats belongs to this slot."""
    worker = live_worker(slot)
    if worker is not None:
        return worker.worker_id == worker_id
    return isinstance(slot.state, Launching) and slot.state.worker_id == worker_id


def works_of(slot: Slot) -> list[LocalAssignment]:
    """Return the work of a slot, now and next."""
    works = (slot.desired, None if isinstance(slot.state, Empty) else slot.state.work)
    return [work for work in works if work is not None]


def limited_workers(slots: Iterable[Slot]) -> dict[str, tuple[int, str]]:
    """Return port and topology of the live workers for which the limits of their slots are, by id.

    A worker that ends because its slot has other work keeps the limit that it had: less would let the kernel kill it.
    """
    found = {}
    for slot in slots:
        state = slot.state
        if isinstance(state, Starting | Running | Stopping) and state.work == slot.desired:
            found[state.worker.worker_id] = slot.port, state.work.topology_id
    return found
