"""The slot state machine, edge by edge."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tupletree.errors import InternalError
from tupletree.supervisor.local_assignment import LocalAssignment
from tupletree.supervisor.slot import (
    Delayed,
    Empty,
    Launching,
    Limits,
    Localizing,
    Running,
    Slot,
    Starting,
    State,
    Stopping,
    live_worker,
    next_deadline_s,
    state_name,
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
from tupletree.supervisor.slot_queries import knows, limited_workers, works_of

A = LocalAssignment("a", "sha-a", 1, "{}", ((1, 2),))
A_REBALANCED = replace(A, executors=((1, 1),))
B = LocalAssignment("b", "sha-b", 1, "{}", ((1, 1),))
W = Worker("w1", 100)
NOW = 1000.0
NOT_WANTED = "its assignment changed"


def stopping(work: LocalAssignment = A, reason: StopReason = StopReason.REASSIGNED, delay_s: float = 0.0) -> Stopping:
    return Stopping(work, W, reason, NOW + 3, delay_s, NOT_WANTED)


def running(beat: float = NOW, ready_since: float | None = None) -> Running:
    return Running(A, W, beat, ready_since, 0)


def slot(state: State, desired: LocalAssignment | None = A, deaths: int = 0, misses: int = 0) -> Slot:
    return Slot(6700, Limits(), desired, state, deaths, misses)


EXITED = WorkerExited("w1", ExitKind.ERROR, "exit status 1")
FORGET = ForgetWorker(A, W, "error", "exit status 1")
GONE = RemovePresence(A, W)
STOPPED = ForgetWorker(A, W, "reassigned", f"stopped: {NOT_WANTED}")
KILLED = WorkerExited("w1", ExitKind.SIGNAL, "killed by SIGKILL")
FORGET_KILLED = ForgetWorker(A, W, "signal", "killed by SIGKILL")
DIED = ReportError(A, "the worker on port 6700 died: killed by SIGKILL")
DIED_EARLY = ReportError(A, "the worker on port 6700 died before its first heartbeat: exit status 1")

TABLE: list[tuple[str, Slot, Event, State, list[Effect]]] = [
    ("empty takes work", slot(Empty(), None), Assigned(A), Localizing(A), [Localize(A)]),
    ("empty hears again that nothing is wanted", slot(Empty(), None), Assigned(None), Empty(), []),
    ("empty ignores a late bundle", slot(Empty(), None), BundleReady("sha-a", "w1"), Empty(), []),
    ("empty ignores a restart", slot(Empty(), None), RestartRequested(), Empty(), []),
    ("empty adopts", slot(Empty(), None), WorkerAdopted(A, W), Starting(A, W, NOW), [PutPresence(A, W)]),
    ("localized, so launch", slot(Localizing(A)), BundleReady("sha-a", "w1"), Launching(A, "w1"), [Launch(A, "w1")]),
    ("another bundle is not ours", slot(Localizing(A)), BundleReady("sha-b", "w1"), Localizing(A), []),
    (
        "localizing fails for the moment",
        slot(Localizing(A)),
        BundleFailed("sha-a", "no"),
        Delayed(A, NOW + 1),
        [ReportError(A, "no")],
    ),
    (
        "the bundle cannot be used",
        slot(Localizing(A)),
        BundleFailed("sha-a", "no", True),
        Delayed(A, NOW + 1),
        [ReportError(A, "no", True)],
    ),
    ("localizing, then other work", slot(Localizing(A)), Assigned(B), Localizing(B), [Localize(B)]),
    ("localizing, then no work", slot(Localizing(A)), Assigned(None), Empty(), []),
    ("delayed, too early", slot(Delayed(A, NOW + 1)), Ticked(), Delayed(A, NOW + 1), []),
    ("delayed, now due", slot(Delayed(A, NOW)), Ticked(), Localizing(A), [Localize(A)]),
    ("delayed, then other work", slot(Delayed(A, NOW + 9)), Assigned(B), Localizing(B), [Localize(B)]),
    ("delayed, then no work", slot(Delayed(A, NOW + 9)), Assigned(None), Empty(), []),
    ("delayed, an operator is impatient", slot(Delayed(A, NOW + 9)), RestartRequested(), Localizing(A), [Localize(A)]),
    ("launched", slot(Launching(A, "w1")), WorkerLaunched(W), Starting(A, W, NOW), [PutPresence(A, W)]),
    ("launching, other work: wait for the process", slot(Launching(A, "w1")), Assigned(B), Launching(A, "w1"), []),
    (
        "launched what is no longer wanted",
        slot(Launching(A, "w1"), B),
        WorkerLaunched(W),
        stopping(),
        [PutPresence(A, W), Terminate(W)],
    ),
    (
        "launch fails",
        slot(Launching(A, "w1")),
        LaunchFailed("w1", "no python"),
        Delayed(A, NOW + 1),
        [ReportError(A, "no python", True)],
    ),
    (
        "launch fails for what is no longer wanted",
        slot(Launching(A, "w1"), B),
        LaunchFailed("w1", "no python"),
        Localizing(B),
        [ReportError(A, "no python", True), Localize(B)],
    ),
    ("first heartbeat", slot(Starting(A, W, NOW - 5)), WorkerBeat("w1", False, 8), Running(A, W, NOW, None, 8), []),
    (
        "first heartbeat, ready",
        slot(Starting(A, W, NOW - 5)),
        WorkerBeat("w1", True, 8),
        Running(A, W, NOW, NOW, 8),
        [],
    ),
    ("a stranger's heartbeat", slot(Starting(A, W, NOW - 5)), WorkerBeat("w0", True), Starting(A, W, NOW - 5), []),
    ("starting slowly", slot(Starting(A, W, NOW - 119)), Ticked(), Starting(A, W, NOW - 119), []),
    (
        "never a heartbeat",
        slot(Starting(A, W, NOW - 120)),
        Ticked(),
        Stopping(A, W, StopReason.START_TIMEOUT, NOW + 3, 0.0, "no heartbeat within 120 s of its launch"),
        [
            Terminate(W),
            ReportError(A, "the worker on port 6700 is restarted: no heartbeat within 120 s of its launch"),
        ],
    ),
    (
        "died before its first heartbeat",
        slot(Starting(A, W, NOW - 5)),
        EXITED,
        Localizing(A),
        [GONE, FORGET, DIED_EARLY, Localize(A)],
    ),
    ("ready since earlier", slot(running(NOW - 1, NOW - 9)), WorkerBeat("w1", True), running(NOW, NOW - 9), []),
    ("no longer ready", slot(running(NOW - 1, NOW - 9)), WorkerBeat("w1", False), running(NOW, None), []),
    ("silent, but not for long", slot(running(NOW - 29)), Ticked(), running(NOW - 29), []),
    (
        "silent for too long",
        slot(running(NOW - 30)),
        Ticked(),
        Stopping(A, W, StopReason.SILENT, NOW + 3, 0.0, "no heartbeat for 30 s"),
        [Terminate(W), ReportError(A, "the worker on port 6700 is restarted: no heartbeat for 30 s")],
    ),
    ("first crash: at once", slot(running()), EXITED, Localizing(A), [GONE, FORGET, Localize(A)]),
    ("second crash: wait", slot(running(), deaths=1), EXITED, Delayed(A, NOW + 1), [GONE, FORGET]),
    (
        "crash after it settled",
        slot(running(NOW, NOW - 60), deaths=5),
        EXITED,
        Localizing(A),
        [GONE, FORGET, Localize(A)],
    ),
    ("crash before it settled", slot(running(NOW, NOW - 59), deaths=5), EXITED, Delayed(A, NOW + 16), [GONE, FORGET]),
    ("killed", slot(running()), KILLED, Localizing(A), [GONE, FORGET_KILLED, DIED, Localize(A)]),
    ("killed again", slot(running(), deaths=1), KILLED, Delayed(A, NOW + 1), [GONE, FORGET_KILLED, DIED]),
    ("killed while it was stopping", slot(stopping(), None), KILLED, Empty(), [GONE, STOPPED]),
    ("an earlier worker's exit", slot(running()), WorkerExited("w0", ExitKind.CLEAN, ""), running(), []),
    ("the same assignment again", slot(running()), Assigned(A), running(), []),
    ("other work", slot(running()), Assigned(B), stopping(), [Terminate(W)]),
    ("other executors", slot(running()), Assigned(A_REBALANCED), stopping(), [Terminate(W)]),
    ("no work", slot(running()), Assigned(None), stopping(), [Terminate(W)]),
    (
        "beyond its memory",
        slot(running(), deaths=1),
        MemoryExceeded("w1", "it uses 2 MB"),
        Stopping(A, W, StopReason.MEMORY, NOW, 1.0, "it uses 2 MB"),
        [Terminate(W), ReportError(A, "the worker on port 6700 is restarted: it uses 2 MB")],
    ),
    ("beyond its memory, of an earlier worker", slot(running()), MemoryExceeded("w0", "it uses"), running(), []),
    ("beyond its memory while it stops", slot(stopping()), MemoryExceeded("w1", "it uses"), stopping(), []),
    (
        "restart requested",
        slot(running(), deaths=4),
        RestartRequested(),
        Stopping(A, W, StopReason.REQUESTED, NOW + 3, 0.0, "a restart was requested"),
        [Terminate(W)],
    ),
    ("stopping, has time", slot(stopping(), None), Ticked(), stopping(), []),
    (
        "stopping, had its time",
        slot(replace(stopping(), kill_at_s=NOW), None),
        Ticked(),
        replace(stopping(), kill_at_s=NOW + 1),
        [Kill(W)],
    ),
    ("stopped, nothing wanted", slot(stopping(), None), EXITED, Empty(), [GONE, STOPPED]),
    ("stopped, other work", slot(stopping(), B), EXITED, Localizing(B), [GONE, STOPPED, Localize(B)]),
    ("stopped after a fault", slot(stopping(delay_s=4.0)), EXITED, Delayed(A, NOW + 4), [GONE, STOPPED]),
    ("stopping, a heartbeat", slot(stopping(), None), WorkerBeat("w1", True), stopping(), []),
    ("stopping, then other work forgets the fault", slot(stopping(delay_s=4.0)), Assigned(B), stopping(), []),
    ("slept through a start", slot(Starting(A, W, NOW - 50)), Overslept(40), Starting(A, W, NOW - 10), []),
    ("slept through heartbeats", slot(running(NOW - 50)), Overslept(40), running(NOW - 10), []),
    ("slept longer than it looks", slot(running(NOW - 5)), Overslept(40), running(NOW), []),
    ("slept with nothing to do", slot(Empty(), None), Overslept(40), Empty(), []),
]


@pytest.mark.parametrize(("before", "event", "state", "effects"), [row[1:] for row in TABLE], ids=[r[0] for r in TABLE])
def test_edge(before: Slot, event: Event, state: State, effects: list[Effect]) -> None:
    after, returned = step(before, event, NOW)
    assert after.state == state
    assert list(returned) == effects


@pytest.mark.parametrize(
    ("kind", "text", "said"),
    [
        (ExitKind.ERROR, "exit status 1", True),  # the worker has reported what its component raised
        (ExitKind.ERROR, "exit status 1: and printed this", True),
        (ExitKind.ERROR, "exit status 13", False),
        (ExitKind.ERROR, "exit status 3: and printed this", False),
        (ExitKind.CLEAN, "exit status 0", False),
        (ExitKind.SIGNAL, "killed by SIGSEGV", False),
        (ExitKind.UNKNOWN, "it ended", False),
    ],
)
def test_a_death_that_the_worker_cannot_have_reported_is_reported(kind: ExitKind, text: str, said: bool) -> None:
    _, effects = step(slot(running()), WorkerExited("w1", kind, text), NOW)
    reports = [one.message for one in effects if isinstance(one, ReportError)]
    assert reports == ([] if said else [f"the worker on port 6700 died: {text}"])


def test_a_crash_loop_waits_longer_each_time_and_a_settled_worker_ends_it() -> None:
    now, one, waits = NOW, slot(Empty(), None), []
    one, _ = step(one, Assigned(A), now)
    for number in range(8):
        one, _ = step(one, BundleReady("sha-a", f"w{number}"), now)
        one, _ = step(one, WorkerLaunched(Worker(f"w{number}", number + 1)), now)
        one, _ = step(one, WorkerBeat(f"w{number}", True), now)
        one, _ = step(one, WorkerExited(f"w{number}", ExitKind.SIGNAL, "killed"), now)
        if isinstance(one.state, Delayed):
            waits.append(one.state.until_s - now)
            now = one.state.until_s
            one, _ = step(one, Ticked(), now)
        else:
            waits.append(0.0)
    assert waits == [0, 1, 2, 4, 8, 16, 30, 30]
    one, _ = step(one, BundleReady("sha-a", "last"), now)
    one, _ = step(one, WorkerLaunched(Worker("last", 99)), now)
    one, _ = step(one, WorkerBeat("last", True), now)
    one, _ = step(one, WorkerExited("last", ExitKind.SIGNAL, "killed"), now + 60)
    assert isinstance(one.state, Localizing)
    assert one.deaths == 1


def test_deaths_are_forgotten_as_soon_as_a_worker_has_settled() -> None:
    one = slot(running(NOW, NOW), deaths=3)
    one, _ = step(one, WorkerBeat("w1", True), NOW + 59)
    assert one.deaths == 3
    one, _ = step(one, WorkerBeat("w1", True), NOW + 60)
    assert one.deaths == 0, "it is not waited for the next death: health would go on to speak of a crash loop"


def test_failures_to_localize_wait_longer_each_time_and_one_success_ends_it() -> None:
    one, waits = slot(Localizing(A)), []
    for _ in range(6):
        one, _ = step(one, BundleFailed("sha-a", "no"), NOW)
        assert isinstance(one.state, Delayed)
        waits.append(one.state.until_s - NOW)
        one, _ = step(one, Ticked(), one.state.until_s)
    assert waits == [1, 2, 4, 8, 16, 30]
    one, _ = step(one, BundleReady("sha-a", "w1"), NOW)
    assert one.misses == 0


def test_new_work_does_not_inherit_the_backoff_of_the_old() -> None:
    one, _ = step(slot(Delayed(A, NOW + 30), deaths=9, misses=3), Assigned(B), NOW)
    assert (one.deaths, one.misses) == (0, 0)


def test_work_that_comes_back_while_its_worker_is_stopped_starts_again_after_the_exit() -> None:
    one, _ = step(slot(running()), Assigned(None), NOW)
    one, effects = step(one, Assigned(A), NOW)
    assert isinstance(one.state, Stopping) and effects == ()
    one, effects = step(one, EXITED, NOW)
    assert effects[-1] == Localize(A)


def test_a_longer_silence_timeout_of_the_topology_is_respected() -> None:
    patient = replace(A, silence_timeout_s=90.0)
    one = slot(Running(patient, W, NOW - 60, None, 0), patient)
    assert step(one, Ticked(), NOW) == (one, ())
    assert next_deadline_s(one) == NOW + 30


def test_a_launch_is_counted_an_adoption_is_not() -> None:
    assert step(slot(Launching(A, "w1")), WorkerLaunched(W), NOW)[0].launches == 1
    assert step(slot(Empty(), None), WorkerAdopted(A, W), NOW)[0].launches == 0


@pytest.mark.parametrize(
    ("state", "event"),
    [
        (Empty(), WorkerLaunched(W)),
        (Launching(A, "w2"), WorkerLaunched(W)),
        (running(), LaunchFailed("w1", "no")),
        (running(), WorkerAdopted(A, W)),
        (Localizing(A), WorkerAdopted(A, W)),
    ],
)
def test_an_event_that_no_shell_may_send_is_an_internal_error(state: State, event: Event) -> None:
    with pytest.raises(InternalError, match="slot 6700"):
        step(slot(state), event, NOW)


@pytest.mark.parametrize(
    ("state", "known", "live", "name", "deadline"),
    [
        (Empty(), False, None, "empty", None),
        (Localizing(A), False, None, "localizing", None),
        (Delayed(A, NOW + 7), False, None, "delayed", NOW + 7),
        (Launching(A, "w1"), True, None, "launching", None),
        (Starting(A, W, NOW), True, W, "starting", NOW + 120),
        (running(), True, W, "running", NOW + 30),
        (stopping(), True, W, "stopping", NOW + 3),
    ],
)
def test_what_others_see_of_a_slot(
    state: State, known: bool, live: Worker | None, name: str, deadline: float | None
) -> None:
    one = slot(state)
    assert (knows(one, "w1"), live_worker(one), state_name(one), next_deadline_s(one)) == (known, live, name, deadline)
    assert not knows(one, "w9")


def test_the_works_of_a_slot_are_the_next_and_the_present() -> None:
    assert works_of(slot(stopping(), B)) == [B, A]
    assert works_of(slot(Empty(), None)) == []


@pytest.mark.parametrize("state", [running(), Starting(A, W, NOW), stopping()])
def test_a_worker_that_ends_for_other_work_of_its_topology_keeps_the_limit_that_it_had(state: State) -> None:
    assert limited_workers([slot(state, A)]) == {"w1": (6700, "a")}
    assert limited_workers([slot(state, desired) for desired in (A_REBALANCED, B, None)]) == {}
    assert limited_workers([slot(Launching(A, "w1")), slot(Empty())]) == {}
