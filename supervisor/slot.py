"""One slot of a supervisor as a state machine: events in, effects out, no I/O.

A slot is a port that runs at most one worker process. ``desired`` is the work that the assignments give the slot; the
state is the progress towards that work. ``Slots`` feeds events to ``step`` and carries out the effects in order.

state       event                                           next        effects
----------  ----------------------------------------------  ----------  --------------------------------------------
Empty       Assigned work                                   Localizing  Localize
Localizing  BundleReady                                     Launching   Launch
            BundleFailed                                    Delayed     ReportError
Delayed     Ticked, the delay is over                       Localizing  Localize
Launching   WorkerLaunched                                  Starting    PutPresence
            LaunchFailed                                    Delayed     ReportError
Starting    WorkerBeat                                      Running
Starting    WorkerExited                                    Delayed     RemovePresence, ForgetWorker (, ReportError)
or Running  other or no work assigned, restart requested    Stopping    Terminate
            Ticked, no heartbeat for too long               Stopping    Terminate, ReportError
            MemoryExceeded                                  Stopping    Terminate, ReportError; Kill with the next tick
Stopping    Ticked, the shutdown time is over               Stopping    Kill, repeatedly
            WorkerExited                                    Delayed     RemovePresence, ForgetWorker

A delay of 0 leads to Localizing at once. If no work is desired any more, the next state is Empty instead.

Invariants, each checked by the tests after every step:

* At most one process: ``Launch`` is only returned when no process of this slot is alive.
* The presence of a worker is put once after its launch and removed once, as the first effect of its exit.
* ``Assigned`` with the work already desired, and a second ``Ticked`` at the same time, change nothing.
* A slot without desired work becomes ``Empty`` as soon as its process has ended.

The states are Storm's (WAITING_FOR_BLOB_LOCALIZATION is Localizing, WAITING_FOR_WORKER_START is Starting, KILL and
KILL_AND_RELAUNCH are both Stopping, because ``desired`` tells what follows). Time is in monotonic seconds.
"""

from __future__ import annotations  # pure

from dataclasses import dataclass, replace
from typing import TypeAlias, assert_never

from tupletree.errors import InternalError

from .backoff import restart_delay_s, retry_delay_s
from .local_assignment import LocalAssignment
from .slot_events import (
    Assigned,
    BundleFailed,
    BundleReady,
    Effect,
    Event,
    ForgetWorker,
    Kill,
    Launch,
    LaunchFailed,
    Localize,
    MemoryExceeded,
    Overslept,
    PutPresence,
    RemovePresence,
    ReportError,
    RestartRequested,
    StopReason,
    Terminate,
    Ticked,
    Worker,
    WorkerAdopted,
    WorkerBeat,
    WorkerExited,
    WorkerLaunched,
)

KILL_AGAIN_S = 1.0
"""Pause between two SIGKILLs to a process that does not end (uninterruptible I/O)."""


@dataclass(frozen=True)
class Limits:
    """The supervisor's timeouts, in seconds."""

    start_timeout_s: float = 120.0  # from launch to the first heartbeat
    silence_timeout_s: float = 30.0  # between heartbeats; a topology may override it
    shutdown_s: float = 3.0  # from SIGTERM to SIGKILL
    settled_s: float = 60.0  # time ready after which the count of deaths is reset


# ---- states -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Empty:
    pass


@dataclass(frozen=True)
class Localizing:
    work: LocalAssignment


@dataclass(frozen=True)
class Delayed:
    work: LocalAssignment
    until_s: float


@dataclass(frozen=True)
class Launching:
    work: LocalAssignment
    worker_id: str


@dataclass(frozen=True)
class Starting:
    work: LocalAssignment
    worker: Worker
    since_s: float


@dataclass(frozen=True)
class Running:
    work: LocalAssignment
    worker: Worker
    last_beat_s: float
    ready_since_s: float | None
    http_port: int


@dataclass(frozen=True)
class Stopping:
    work: LocalAssignment
    worker: Worker
    reason: StopReason
    kill_at_s: float
    relaunch_delay_s: float
    text: str


State: TypeAlias = Empty | Localizing | Delayed | Launching | Starting | Running | Stopping


@dataclass(frozen=True)
class Slot:
    """The data of one slot. ``deaths`` and ``misses`` count consecutive failures under the current ``desired``."""

    port: int
    limits: Limits = Limits()
    desired: LocalAssignment | None = None
    state: State = Empty()
    deaths: int = 0  # workers that died before ``settled_s``
    misses: int = 0  # failed attempts to localize the bundle
    launches: int = 0
    last_exit: str = ""


Step: TypeAlias = tuple[Slot, tuple[Effect, ...]]


def state_name(slot: Slot) -> str:
    return type(slot.state).__name__.lower()


def live_worker(slot: Slot) -> Worker | None:
    """Return the worker if its process is known to be alive, else None."""
    return slot.state.worker if isinstance(slot.state, Starting | Running | Stopping) else None


def next_deadline_s(slot: Slot) -> float | None:
    """Return the time at which a slot must be ticked next, or None if time changes nothing."""
    match slot.state:
        case Empty() | Localizing() | Launching():
            return None
        case Delayed(until_s=until_s):
            return until_s
        case Starting(since_s=since_s):
            return since_s + slot.limits.start_timeout_s
        case Running(work=work, last_beat_s=last_beat_s):
            return last_beat_s + _silence_s(slot, work)
        case Stopping(kill_at_s=kill_at_s):
            return kill_at_s
        case unreachable:
            assert_never(unreachable)


# ---- the transition function ------------------------------------------------------------------------------------


def step(slot: Slot, event: Event, now_s: float) -> Step:
    """Return the slot after ``event``, and the effects in order. Raises InternalError for an impossible event."""
    match event:
        case Assigned(work=work):
            return _assigned(slot, work, now_s)
        case BundleReady() | BundleFailed():
            return _localized(slot, event, now_s)
        case WorkerLaunched() | LaunchFailed():
            return _launched(slot, event, now_s)
        case WorkerAdopted():
            return _adopted(slot, event, now_s)
        case WorkerBeat():
            return _beat(slot, event, now_s)
        case WorkerExited():
            return _exited(slot, event, now_s)
        case RestartRequested() | MemoryExceeded():
            return _ended(slot, event, now_s)
        case Ticked():
            return _ticked(slot, now_s)
        case Overslept(seconds=seconds):
            return _overslept(slot, seconds, now_s)
        case unreachable:
            assert_never(unreachable)


def _assigned(slot: Slot, work: LocalAssignment | None, now_s: float) -> Step:
    if work == slot.desired:
        return slot, ()
    slot = replace(slot, desired=work, deaths=0, misses=0)
    match slot.state:
        case Empty() | Localizing() | Delayed():
            return _begin(slot)
        case Launching():
            return slot, ()  # decided when the process has started
        case Stopping() as state:
            return replace(slot, state=replace(state, relaunch_delay_s=0.0)), ()  # decided when the process has ended
        case Starting(work=old) | Running(work=old):
            if old == work:
                return slot, ()
            return _stop(slot, StopReason.REASSIGNED, "its assignment changed", now_s)
        case unreachable:
            assert_never(unreachable)


def _begin(slot: Slot) -> Step:
    """Start the desired work. No process of the slot is alive."""
    if slot.desired is None:
        return replace(slot, state=Empty()), ()
    return replace(slot, state=Localizing(slot.desired)), (Localize(slot.desired),)


def _begin_after(slot: Slot, delay_s: float, now_s: float) -> Step:
    if slot.desired is None or delay_s <= 0:
        return _begin(slot)
    return replace(slot, state=Delayed(slot.desired, now_s + delay_s)), ()


def _localized(slot: Slot, event: BundleReady | BundleFailed, now_s: float) -> Step:
    state = slot.state
    if not isinstance(state, Localizing) or state.work.bundle_sha256 != event.sha256:
        return slot, ()  # the answer to a Localize that is obsolete
    if isinstance(event, BundleReady):
        slot = replace(slot, misses=0, state=Launching(state.work, event.worker_id))
        return slot, (Launch(state.work, event.worker_id),)
    if event.topology_id not in ("", state.work.topology_id):
        return slot, ()  # another topology with this bundle, and with other blobs
    slot = replace(slot, misses=slot.misses + 1, last_exit=event.reason)
    slot, effects = _begin_after(slot, retry_delay_s(slot.misses), now_s)
    return slot, (ReportError(state.work, event.reason, is_failed_start=event.is_final), *effects)


def _launched(slot: Slot, event: WorkerLaunched | LaunchFailed, now_s: float) -> Step:
    state = slot.state
    worker_id = event.worker.worker_id if isinstance(event, WorkerLaunched) else event.worker_id
    if not isinstance(state, Launching) or state.worker_id != worker_id:
        raise InternalError(f"slot {slot.port} got a launch result of {worker_id} while it is {state_name(slot)}")
    if isinstance(event, LaunchFailed):
        slot, delay_s = replace(slot, last_exit=event.reason), 0.0
        if state.work == slot.desired:
            slot = replace(slot, deaths=slot.deaths + 1)
            delay_s = retry_delay_s(slot.deaths)
        slot, effects = _begin_after(slot, delay_s, now_s)
        return slot, (ReportError(state.work, event.reason, is_failed_start=True), *effects)
    slot = replace(slot, launches=slot.launches + 1, state=Starting(state.work, event.worker, now_s))
    present = PutPresence(state.work, event.worker)
    if state.work == slot.desired:
        return slot, (present,)
    slot, effects = _stop(slot, StopReason.REASSIGNED, "its assignment changed", now_s)
    return slot, (present, *effects)


def _adopted(slot: Slot, event: WorkerAdopted, now_s: float) -> Step:
    if not isinstance(slot.state, Empty) or slot.desired is not None:
        raise InternalError(f"slot {slot.port} adopts {event.worker.worker_id} while it is {state_name(slot)}")
    slot = replace(slot, desired=event.work, state=Starting(event.work, event.worker, now_s))
    return slot, (PutPresence(event.work, event.worker),)


def _beat(slot: Slot, beat: WorkerBeat, now_s: float) -> Step:
    match slot.state:
        case Starting(work=work, worker=worker) if worker.worker_id == beat.worker_id:
            since_s = None
        case Running(work=work, worker=worker, ready_since_s=since_s) if worker.worker_id == beat.worker_id:
            pass
        case _:
            return slot, ()
    ready_since_s = (now_s if since_s is None else since_s) if beat.ready else None
    slot = replace(slot, state=Running(work, worker, now_s, ready_since_s, beat.http_port))
    return replace(slot, deaths=0 if _has_settled(slot, now_s) else slot.deaths), ()


def _exited(slot: Slot, event: WorkerExited, now_s: float) -> Step:
    state = slot.state
    if not isinstance(state, Starting | Running | Stopping) or state.worker.worker_id != event.worker_id:
        return slot, ()
    reports: tuple[Effect, ...] = ()
    if isinstance(state, Stopping):
        cause, text, delay_s = state.reason.value, f"stopped: {state.text}", state.relaunch_delay_s
    else:
        deaths = _deaths_after(slot, now_s)
        cause, text, delay_s = event.kind.value, event.text, restart_delay_s(deaths)
        slot = replace(slot, deaths=deaths)
        early = " before its first heartbeat" if isinstance(state, Starting) else ""
        if early or not event.has_said_why:
            reports = (ReportError(state.work, f"the worker on port {slot.port} died{early}: {text}"),)
    slot, effects = _begin_after(replace(slot, last_exit=text), delay_s, now_s)
    gone: tuple[Effect, ...] = (
        RemovePresence(state.work, state.worker),
        ForgetWorker(state.work, state.worker, cause, text),
    )
    return slot, (*gone, *reports, *effects)


def _ended(slot: Slot, event: RestartRequested | MemoryExceeded, now_s: float) -> Step:
    if isinstance(event, MemoryExceeded):
        return _exceeded(slot, event, now_s)
    match slot.state:
        case Starting() | Running():
            return _stop(replace(slot, deaths=0), StopReason.REQUESTED, "a restart was requested", now_s)
        case Delayed():
            return _begin(replace(slot, deaths=0, misses=0))
        case Empty() | Localizing() | Launching() | Stopping():
            return slot, ()
        case unreachable:
            assert_never(unreachable)


def _ticked(slot: Slot, now_s: float) -> Step:
    deadline_s = next_deadline_s(slot)
    if deadline_s is None or now_s < deadline_s:
        return slot, ()
    match slot.state:
        case Delayed():
            return _begin(slot)
        case Starting():
            text = f"no heartbeat within {slot.limits.start_timeout_s:g} s of its launch"
            return _stop_for_fault(slot, StopReason.START_TIMEOUT, text, now_s)
        case Running(work=work):
            text = f"no heartbeat for {_silence_s(slot, work):g} s"
            return _stop_for_fault(slot, StopReason.SILENT, text, now_s)
        case Stopping() as state:
            return replace(slot, state=replace(state, kill_at_s=now_s + KILL_AGAIN_S)), (Kill(state.worker),)
        case Empty() | Localizing() | Launching():
            return slot, ()
        case unreachable:
            assert_never(unreachable)


def _exceeded(slot: Slot, event: MemoryExceeded, now_s: float) -> Step:
    """Stop the worker without delay: while it ended, it could take the memory of others."""
    if not isinstance(slot.state, Starting | Running) or slot.state.worker.worker_id != event.worker_id:
        return slot, ()
    slot, effects = _stop_for_fault(slot, StopReason.MEMORY, event.text, now_s)
    state = slot.state
    return (replace(slot, state=replace(state, kill_at_s=now_s)) if isinstance(state, Stopping) else slot), effects


def _overslept(slot: Slot, seconds: float, now_s: float) -> Step:
    state = slot.state
    if isinstance(state, Starting):
        return replace(slot, state=replace(state, since_s=min(state.since_s + seconds, now_s))), ()
    if isinstance(state, Running):
        return replace(slot, state=replace(state, last_beat_s=min(state.last_beat_s + seconds, now_s))), ()
    return slot, ()


def _stop_for_fault(slot: Slot, reason: StopReason, text: str, now_s: float) -> Step:
    work = slot.desired
    deaths = _deaths_after(slot, now_s)
    slot, effects = _stop(replace(slot, deaths=deaths), reason, text, now_s, restart_delay_s(deaths))
    if work is not None:
        effects = (*effects, ReportError(work, f"the worker on port {slot.port} is restarted: {text}"))
    return slot, effects


def _stop(slot: Slot, reason: StopReason, text: str, now_s: float, relaunch_delay_s: float = 0.0) -> Step:
    state = slot.state
    if not isinstance(state, Starting | Running):
        raise InternalError(f"slot {slot.port} stops a worker while it is {state_name(slot)}")
    kill_at_s = now_s + slot.limits.shutdown_s
    stopping = Stopping(state.work, state.worker, reason, kill_at_s, relaunch_delay_s, text)
    return replace(slot, state=stopping), (Terminate(state.worker),)


def _deaths_after(slot: Slot, now_s: float) -> int:
    return 1 if _has_settled(slot, now_s) else slot.deaths + 1


def _has_settled(slot: Slot, now_s: float) -> bool:
    since_s = slot.state.ready_since_s if isinstance(slot.state, Running) else None
    return since_s is not None and now_s - since_s >= slot.limits.settled_s


def _silence_s(slot: Slot, work: LocalAssignment) -> float:
    return slot.limits.silence_timeout_s if work.silence_timeout_s is None else work.silence_timeout_s
