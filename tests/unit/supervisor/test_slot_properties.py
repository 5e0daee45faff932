"""The slot state machine under arbitrary events, with a world that obeys its effects: the invariants of slot.py."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tupletree.supervisor.local_assignment import LocalAssignment
from tupletree.supervisor.slot import (
    Delayed,
    Empty,
    Launching,
    Slot,
    Stopping,
    live_worker,
    next_deadline_s,
    step,
)
from tupletree.supervisor.slot_events import (
    Assigned,
    BundleFailed,
    BundleReady,
    Effect,
    Event,
    ExitKind,
    ForgetWorker,
    Kill,
    Launch,
    LaunchFailed,
    Localize,
    Overslept,
    PutPresence,
    RemovePresence,
    ReportError,
    RestartRequested,
    Terminate,
    Ticked,
    Worker,
    WorkerAdopted,
    WorkerBeat,
    WorkerExited,
    WorkerLaunched,
)

WORKS = [
    LocalAssignment(name, f"sha-{name}", 1, "{}", executors) for name in "ab" for executors in (((1, 1),), ((1, 2),))
]
works = st.sampled_from([None, *WORKS])


class SlotWorld(RuleBasedStateMachine):
    """One slot, and the processes, presences and downloads that its effects bring about."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.slot = Slot(6700)
        self.fresh = 0
        self.launching: list[Launch] = []
        self.localizing: set[str] = set()
        self.alive: dict[str, Worker] = {}
        self.signalled: set[str] = set()
        self.exited: list[str] = []  # dead processes that the slot was not told of yet
        self.presences: set[str] = set()
        self.ever_present: set[str] = set()

    def tell(self, event: Event) -> tuple[Effect, ...]:
        before = self.slot
        self.slot, effects = step(before, event, self.now)
        for effect in effects:
            self.carry_out(effect)
        return effects

    def carry_out(self, effect: Effect) -> None:
        match effect:
            case Localize(work=work):
                self.localizing.add(work.bundle_sha256)
            case Launch(work=work):
                assert not self.alive and not self.exited and not self.launching, "a second process in one slot"
                self.launching.append(effect)
            case PutPresence(worker=worker):
                assert worker.worker_id not in self.ever_present, "announced twice"
                assert not self.presences, "two workers announced in one slot"
                self.presences.add(worker.worker_id)
                self.ever_present.add(worker.worker_id)
            case RemovePresence(worker=worker):
                assert worker.worker_id not in self.alive
                self.presences.remove(worker.worker_id)
            case ForgetWorker(worker=worker):
                assert worker.worker_id not in self.presences, "forgotten while still announced"
            case Terminate(worker=worker) | Kill(worker=worker):
                self.signalled.add(worker.worker_id)
            case ReportError(message=message):
                assert message

    def new_id(self) -> str:
        self.fresh += 1
        return f"w{self.fresh}"

    @rule(work=works)
    def assign(self, work: LocalAssignment | None) -> None:
        self.tell(Assigned(work))
        assert self.tell(Assigned(work)) == (), "the same assignment twice did something the second time"

    @precondition(lambda self: self.fresh == 0 and self.slot == Slot(6700))
    @rule(work=st.sampled_from(WORKS))
    def adopt(self, work: LocalAssignment) -> None:
        worker = Worker(self.new_id(), 1)
        self.alive[worker.worker_id] = worker
        self.tell(WorkerAdopted(work, worker))

    @precondition(lambda self: self.localizing)
    @rule(data=st.data(), fine=st.booleans())
    def finish_localizing(self, data: st.DataObject, fine: bool) -> None:
        sha256 = data.draw(st.sampled_from(sorted(self.localizing)))
        self.localizing.remove(sha256)
        self.tell(BundleReady(sha256, self.new_id()) if fine else BundleFailed(sha256, "no"))

    @precondition(lambda self: self.launching)
    @rule(fine=st.booleans())
    def finish_launching(self, fine: bool) -> None:
        worker_id = self.launching.pop().worker_id
        if fine:
            self.alive[worker_id] = Worker(worker_id, self.fresh)
            self.tell(WorkerLaunched(self.alive[worker_id]))
        else:
            self.tell(LaunchFailed(worker_id, "no"))

    @precondition(lambda self: self.alive)
    @rule(ready=st.booleans())
    def beat(self, ready: bool) -> None:
        for worker_id in self.alive:
            assert self.tell(WorkerBeat(worker_id, ready)) == ()

    @precondition(lambda self: self.alive)
    @rule()
    def die(self) -> None:
        for worker_id in list(self.alive):
            del self.alive[worker_id]
            self.exited.append(worker_id)

    @precondition(lambda self: self.exited)
    @rule(twice=st.booleans())
    def notice_exit(self, twice: bool) -> None:
        worker_id = self.exited.pop()
        effects = self.tell(WorkerExited(worker_id, ExitKind.ERROR, "exit status 1"))
        assert isinstance(effects[0], RemovePresence), "the other workers must hear of it first"
        if twice:
            assert self.tell(WorkerExited(worker_id, ExitKind.ERROR, "exit status 1")) == ()

    @rule()
    def restart(self) -> None:
        self.tell(RestartRequested())

    @rule(seconds=st.sampled_from([0.0, 0.5, 3.0, 31.0, 61.0, 130.0]))
    def tick(self, seconds: float) -> None:
        self.now += seconds
        self.tell(Ticked())
        assert self.tell(Ticked()) == (), "a second tick at the same time did something"

    @rule(seconds=st.sampled_from([10.0, 1000.0]))
    def oversleep(self, seconds: float) -> None:
        self.now += seconds
        self.tell(Overslept(seconds))

    @invariant()
    def at_most_one_process_and_the_slot_knows_it(self) -> None:
        assert len(self.alive) + len(self.exited) + len(self.launching) <= 1
        worker = live_worker(self.slot)
        assert ([] if worker is None else [worker.worker_id]) == [*self.alive, *self.exited]

    @invariant()
    def every_live_worker_is_announced(self) -> None:
        assert self.presences == set(self.alive) | set(self.exited)

    @invariant()
    def a_stopping_worker_was_told_to(self) -> None:
        if isinstance(self.slot.state, Stopping):
            assert self.slot.state.worker.worker_id in self.signalled

    @invariant()
    def nothing_waits_for_ever(self) -> None:
        state = self.slot.state
        if isinstance(state, Empty):
            assert self.slot.desired is None
        elif isinstance(state, Launching):
            assert self.launching
        elif live_worker(self.slot) is None and next_deadline_s(self.slot) is None:
            assert state.work.bundle_sha256 in self.localizing
        if isinstance(state, Delayed):
            assert state.until_s <= self.now + 30 and state.work == self.slot.desired

    def teardown(self) -> None:
        """From wherever we are: what is no longer wanted comes to rest, without a trace, in an obedient world."""
        self.tell(Assigned(None))
        for _ in range(4):
            if self.launching:
                self.finish_launching(True)
            if self.alive and self.alive.keys() <= self.signalled:
                self.die()
            if self.exited:
                self.notice_exit(False)
            self.tell(Ticked())
        assert isinstance(self.slot.state, Empty)
        assert not self.presences and not self.alive


SlotWorld.TestCase.settings = settings(stateful_step_count=40)
TestSlotWorld = SlotWorld.TestCase
