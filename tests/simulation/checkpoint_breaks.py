"""Rules broken on purpose: each class is the real one with one rule left out, and Rules that put it in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from checkpoint_nouns import NEVER, Rules

from tupletree._checkpoints.coordinator import CheckpointCoordinator, Effect, Phase
from tupletree._checkpoints.record import Checkpoint, CheckpointRecord
from tupletree._checkpoints.spout import CheckpointSpout
from tupletree._checkpoints.steps import Action, Step
from tupletree.outputs import CHECKPOINT_STREAM
from tupletree.state.memory import MemoryBackend
from tupletree.tuples import Tuple
from tupletree.worker.checkpoint.barriers import Arrival, Barriers, StepDecision
from tupletree.worker.checkpoint.participant import Participant
from tupletree.worker.checkpoint.spout_participant import SpoutParticipant
from tupletree.worker.checkpoint.stateful_participant import StatefulParticipant

ALIGNED = {"aligned": True, "positioned": True}
DEFAULT = {"aligned": False}


def participants(mixin: type) -> dict[str, Any]:
    """All three participants with the same rule broken."""
    bases = {"participant": Participant, "stateful": StatefulParticipant, "spout": SpoutParticipant}
    return {name: type(f"{mixin.__name__}{base.__name__}", (mixin, base), {}) for name, base in bases.items()}


def coordinating(kind: type[CheckpointCoordinator]) -> type[CheckpointSpout]:
    """The checkpoint spout with another coordinator."""

    class Coordinating(CheckpointSpout):
        def _take_over(self) -> None:
            super()._take_over()
            assert self._coordinator is not None
            self._coordinator.__class__ = kind
            if kind is RoundsFromTheStart:
                self._coordinator._next_round = 1

    return Coordinating


# Barriers


class TakesAnyNumber(Barriers):
    def _check_number(self, source: int, sent: int) -> None:
        pass


class TakesAnyGeneration(Barriers):
    def _is_taken_back(self, generation: int) -> bool:
        return False


class HoldsNothing(Barriers):
    """Goes on with a source whose PREPARE has come."""

    is_blocking = property(lambda self: False)  # type: ignore[assignment]


class HoldsNothingOfTheNext(Barriers):
    """Runs what is of a newer generation than this task's."""

    def admit(self, source: int, generation: int, rows: int) -> StepDecision:
        verdict = super().admit(source, generation, rows)
        return StepDecision.RUN if generation > self.generation and self.is_initialised else verdict


class ActsOnTheFirst(Barriers):
    """Waits for no other source."""

    def arrive(self, source: int, step: Step, sent: int) -> Arrival:
        arrival = super().arrive(source, step, sent)
        return Arrival.LAST if arrival is Arrival.EARLY else arrival


class AnyRound(Barriers):
    """What is of an earlier round is taken for a step of the present one."""

    def arrive(self, source: int, step: Step, sent: int) -> Arrival:
        if step.round < self._round:
            self._round = step.round - 1
        return super().arrive(source, step, sent)


# Participants


class AcksEarlySteps:
    """Storm's rule: a step is acked when it comes, though others are to come."""

    def _arrive(self, source: int, step: Step, sent: int, tup: Tuple) -> None:
        super()._arrive(source, step, sent, tup)  # type: ignore[misc]
        early: Any = self._early  # type: ignore[attr-defined]
        for one in early:
            self._control.ack(one)  # type: ignore[attr-defined]
        early.clear()


class StepsOvertake:
    """A step goes before what lies in the buffers of its task."""

    def _pass_on(self, step: Step, anchor: Tuple) -> None:
        this: Any = self
        for target in this._steps.ports:
            sent = sum([stream.ports[target].sent for stream in this._data if target in stream.ports])
            this._control.emit_direct(target, step.row(sent), anchor, CHECKPOINT_STREAM)
        for buffer in this._steps.buffers():
            this.passed_on.extend((buffer, rows) for rows in buffer.pop_all())


class PreparesUnfit:
    """Before INITSTATE, and over tuples that have failed."""

    def check_fitness(self) -> None:
        pass


class ForgetsFailures:
    def check_fitness(self) -> None:
        self._task.has_failed_tuples = False  # type: ignore[attr-defined]
        super().check_fitness()  # type: ignore[misc]


class WaitsForNoAck:
    def must_wait(self, step: Step) -> bool:
        return False

    def check_fitness(self) -> None:
        task: Any = self._task  # type: ignore[attr-defined]
        held = getattr(task, "unacked", None)
        if held is not None:
            task.unacked = set()
        try:
            super().check_fitness()  # type: ignore[misc]
        finally:
            if held is not None:
                task.unacked = held


class EmitsWhatWasTakenBack:
    """Goes on with the bolt that has executed tuples of an earlier generation, and may be emitting late."""

    def begin_generation(self, step: Step) -> None:
        self._has_begun = False
        super().begin_generation(step)  # type: ignore[misc]


class ReportsAcksWhenPrepared(StatefulParticipant):
    def _acks_prepared(self) -> None:
        super()._acks_prepared()
        self._acks_committed()


class KeepsWhatIsPrepared(StatefulParticipant):
    """ROLLBACK is passed on, and that is all."""

    def perform(self, step: Step) -> None:
        if step.action is not Action.ROLLBACK:
            super().perform(step)


class GoesOnAfterRollback(StatefulParticipant):
    """Executes on what is derived from a state that was rolled back."""

    def perform(self, step: Step) -> None:
        was_initialised = self.barriers.is_initialised
        super().perform(step)
        if step.action is Action.ROLLBACK:
            self.barriers.is_initialised = was_initialised


class FailsNothingAtRollback(StatefulParticipant):
    """Tuples whose effects were discarded are waited for as if they were still to be acked."""

    def fail_unacked(self) -> None:
        pass


class TrustsWhatItKnows:
    """What it knows of its state is what is stored: nobody else has had it open."""

    def perform(self, step: Step) -> None:
        state: Any = getattr(self, "_state", None)
        if state is not None:
            state.knows = state.is_at = lambda what: True
        super().perform(step)  # type: ignore[misc]


class GoesOnWithWhatIsLive(StatefulParticipant):
    """INITSTATE takes no state back, though the bolt begins anew."""

    def _initialise(self, step: Step) -> None:
        state: Any = self._state
        state.rollback = lambda: None
        try:
            super()._initialise(step)
        finally:
            del state.rollback


class ExecutesAtOnce(Barriers):
    """Does not wait for the state to be initialised."""

    is_initialised = property(lambda self: True, lambda self, value: None)  # type: ignore[assignment]


class StaysWhereItIs(SpoutParticipant):
    """A spout is not told where the last checkpoint left it."""

    def _restore(self) -> None:
        self._must_restore = False


class TakesItsPositionLater(SpoutParticipant):
    """When the step has been passed on, and more was emitted."""

    def perform(self, step: Step) -> None:
        if step.action is not Action.PREPARE:
            super().perform(step)

    def _pass_on(self, step: Step, anchor: Tuple) -> None:
        super()._pass_on(step, anchor)
        if step.action is Action.PREPARE and self._task.is_open and self.barriers.is_initialised:
            self._spout_task.poll(1)
            super().perform(step)


class TellsAcksAtOnce(SpoutParticipant):
    def _initialise(self, step: Step) -> None:
        self._spout_task.tell_acked = None
        super()._initialise(step)


# The checkpoint spout


class SendsBeforeItRecords(CheckpointCoordinator):
    def next(self, now_s: float) -> Sequence[Effect]:
        return tuple(reversed(super().next(now_s)))

    def acked(self, round_: int, now_s: float) -> Sequence[Effect]:
        return tuple(reversed(super().acked(round_, now_s)))


class CommitsWhatIsPreparing(CheckpointCoordinator):
    """Recovery goes on where a checkpoint was preparing."""

    def next(self, now_s: float) -> Sequence[Effect]:
        effects = super().next(now_s)
        if self.is_recovering and self.phase is Phase.PREPARING and effects:
            return (self._send(Action.COMMIT),)
        return effects


class BeginsWithoutInitstate(CheckpointCoordinator):
    """After a failure the next checkpoint is begun as soon as the last has ended."""

    def acked(self, round_: int, now_s: float) -> Sequence[Effect]:
        effects = super().acked(round_, now_s)
        if self.phase is Phase.COMMITTED and self.failures:
            self.is_recovering = False
        return effects


class RoundsFromTheStart(CheckpointCoordinator):
    """The rounds of one checkpoint spout are no higher than those of the last."""


class RollsBackAfterCommitting(CheckpointCoordinator):
    def next(self, now_s: float) -> Sequence[Effect]:
        effects = super().next(now_s)
        if self.is_recovering and self.phase is Phase.COMMITTING and effects:
            return (self._send(Action.ROLLBACK),)
        return effects


class FirstAckIsEnough(CheckpointSpout):
    def ack(self, msg_id: tuple[int, int]) -> None:
        step = self._coordinator.step if self._coordinator is not None else None
        if step is not None and step.round == msg_id[0]:
            self._unacked.clear()
        super().ack(msg_id)


class UnfencedRecord(CheckpointRecord):
    """Writes whoever has taken over meanwhile."""

    def save(self, checkpoint: Checkpoint) -> None:
        store = self._store

        class Unchecked:
            get = staticmethod(store.get)

            @staticmethod
            def write(writes: Any) -> None:
                store.write(writes[1:])

        self._store = Unchecked()  # type: ignore[assignment]
        try:
            super().save(checkpoint)
        finally:
            self._store = store

    def _check_epoch(self) -> None:
        pass


class UnfencedSpout(CheckpointSpout):
    def _take_over(self) -> None:
        super()._take_over()
        assert self._record is not None
        self._record.__class__ = UnfencedRecord


class UnfencedBackend(MemoryBackend):
    def _checked(self) -> Any:
        return self._stored


class KeepsPrepared(MemoryBackend):
    """A backend that forgets nothing at a rollback."""

    def rollback(self) -> None:
        self._checked()


QUIET = {"crash_every_s": NEVER, "break_every_s": NEVER, "loss": 0.0, "states": 0.0, "torn": 0.0, "mishaps": 0.0}
BREAKING = {**QUIET, "break_every_s": 0.1, "slowest_s": 0.03, "acker_every_s": NEVER, "end_s": 6.0}
FAILING = {**QUIET, "mishaps": 0.01, "slowest_s": 0.03, "acker_every_s": NEVER, "end_s": 6.0}
CRASHING = {**QUIET, "crash_every_s": 0.5, "slowest_s": 0.15, "end_s": 6.0}
REPLACING = {**QUIET, "crash_every_s": 0.5, "outage_every_s": 1.0, "slowest_s": 0.03, "end_s": 4.0}
COUNTED = "has counted .* times, not|effects committed"
UNDONE = r"comm\w+ \d+ is recorded; .* prepared"
STUCK = "not every message is in|checkpoints do not go on"

# Not among them: a checkpoint spout that takes an ack of any round for one of the present. Steps are acked only when
# done, and those of a round that is over are failed: there are no such acks.
BROKEN: dict[str, tuple[Rules, str]] = {
    "takes any number": (Rules(barriers=TakesAnyNumber, shape=ALIGNED, faults=BREAKING), COUNTED),
    "takes any generation": (Rules(barriers=TakesAnyGeneration, shape=ALIGNED), COUNTED),
    "holds nothing while it waits": (Rules(barriers=HoldsNothing, shape=ALIGNED), COUNTED),
    "holds nothing of the next generation": (Rules(barriers=HoldsNothingOfTheNext, shape=ALIGNED), COUNTED),
    "acts on the first step that comes": (Rules(barriers=ActsOnTheFirst, shape=ALIGNED), COUNTED),
    "takes steps of any round": (Rules(barriers=AnyRound), f"recorded is|{UNDONE}"),
    "executes at once": (Rules(barriers=ExecutesAtOnce, shape=DEFAULT), "is not initialised"),
    "acks steps when they come": (Rules(**participants(AcksEarlySteps), shape={"workers": 5}, faults=CRASHING), UNDONE),
    "steps overtake": (
        # The numbers cover for it: the checkpoint is refused.
        Rules(**participants(StepsOvertake), barriers=TakesAnyNumber, shape=ALIGNED),
        COUNTED,
    ),
    "prepares what is not initialised": (Rules(**participants(PreparesUnfit)), f"{COUNTED}|{STUCK}|gone back"),
    "forgets failures": (Rules(**participants(ForgetsFailures), shape=ALIGNED, faults=FAILING), COUNTED),
    "waits for no ack": (Rules(**participants(WaitsForNoAck), shape=ALIGNED), COUNTED),
    "emits what was taken back": (Rules(**participants(EmitsWhatWasTakenBack), shape=ALIGNED), COUNTED),
    "reports acks when prepared": (Rules(stateful=ReportsAcksWhenPrepared, shape=DEFAULT), COUNTED),
    "keeps what is prepared": (Rules(stateful=KeepsWhatIsPrepared), "committed .* is recorded; .* and prepared"),
    "goes on after a rollback": (Rules(stateful=GoesOnAfterRollback, shape=DEFAULT), "is not initialised"),
    "fails nothing at a rollback": (Rules(stateful=FailsNothingAtRollback, shape=DEFAULT), COUNTED),
    "trusts what it knows": (
        Rules(**participants(TrustsWhatItKnows), shape={"aligned": False, "workers": 1}, faults=REPLACING),
        f"{UNDONE}|{STUCK}",
    ),
    "goes on with what is live": (Rules(stateful=GoesOnWithWhatIsLive, shape=ALIGNED), "is initialised as"),
    "stays where it is": (Rules(spout=StaysWhereItIs, shape=ALIGNED), COUNTED),
    "takes its position later": (Rules(spout=TakesItsPositionLater, shape=ALIGNED), COUNTED),
    "tells acks at once": (
        Rules(spout=TellsAcksAtOnce, shape={"aligned": True, "positioned": False}),
        "effects committed",
    ),
    "sends before it records": (
        Rules(checkpoint_spout=coordinating(SendsBeforeItRecords)),
        "recorded is",
    ),
    "commits what is preparing": (
        Rules(checkpoint_spout=coordinating(CommitsWhatIsPreparing)),
        "recorded is preparing",
    ),
    "begins without INITSTATE": (Rules(checkpoint_spout=coordinating(BeginsWithoutInitstate)), f"{COUNTED}|{STUCK}"),
    "rounds from the start": (Rules(checkpoint_spout=coordinating(RoundsFromTheStart)), UNDONE),
    "rolls back after committing": (
        Rules(checkpoint_spout=coordinating(RollsBackAfterCommitting)),
        "back, which is committing",
    ),
    "first ack is enough": (Rules(checkpoint_spout=FirstAckIsEnough), UNDONE),
    "a record without an epoch": (Rules(checkpoint_spout=UnfencedSpout), "has taken over"),
    "states are not fenced": (Rules(backend=UnfencedBackend), "has opened it since"),
    "a backend keeps what is prepared": (Rules(backend=KeepsPrepared), "committed .* is recorded; .* and prepared"),
}
