"""When a task acts on a step of a checkpoint, and what becomes of tuples that arrive meanwhile.

A step arrives once from each of the task's checkpoint sources (tasks). The task acts when the last has come, and passes
the step on. Steps are numbered by rounds, which rise; when a new round begins, all earlier ones are over.

**Default mode.** Tuples are executed as they come, once the state is initialised. Until then they are held.

**Aligned mode.** What a source sent before its PREPARE belongs to the checkpoint, what it sent after does not, at every
task: then the states of one checkpoint, and the positions of the spouts, are those of one cut through the topology
(Chandy and Lamport 1985; barriers as in Carbone et al. 2015).

*   From a source whose PREPARE has come, tuples are held until that of every source has: what belongs to the next
    checkpoint has no effect on this one.
*   INITSTATE begins a *generation*, whose number is its round. A sender marks its batches with its generation. What is
    of an older generation than the receiver's is dropped: recovery has taken it back. What is of a newer one is held
    until the receiver is there.
*   PREPARE says how many rows its sender has sent here in this generation. If that is not what came, something was lost
    or came twice, and the checkpoint fails.

**Invariant** of the aligned mode: a task acts on PREPARE only if it has executed exactly what each source sent in this
generation before its PREPARE, and nothing that was sent after it. Channels keep their order, and the links between
workers repeat nothing (ADR 0003); a loss shows in the number.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable

from tupletree.state.steps import Action, Step


class StepDecision(enum.Enum):
    """What is to be done with a batch."""

    RUN = "run"
    HOLD = "hold"
    DROP = "drop"


class Arrival(enum.Enum):
    """What the arrival of a step from one source means."""

    EARLY = "early"  # others are to come
    LAST = "last"  # act on it
    OVER = "over"  # it is of a round that is over, or from nobody who sends steps here
    AGAIN = "again"  # it has come from this source before, or was acted on
    WRONG = "wrong"  # the checkpoint cannot be taken


class Barriers:
    """The rules for one task. ``sources``: the tasks that it gets steps from."""

    def __init__(self, sources: Iterable[int], *, is_aligned: bool) -> None:
        self.sources = frozenset(sources)
        self.is_aligned = is_aligned
        self.is_initialised = False
        self.generation = 0
        self.fault = ""  # why the present round went wrong
        self._round = -1
        self._action: Action | None = None  # of the present round, while this task has not acted on it
        self._arrived: set[int] = set()
        self._is_past = False  # what is of the present generation was taken back, or will be
        self._received: dict[int, dict[int, int]] = {}  # rows by generation and source

    @property
    def is_blocking(self) -> bool:
        """Whether tuples of some source are being held until a PREPARE has come from all."""
        return self.is_aligned and self._action is Action.PREPARE and bool(self._arrived)

    def admit(self, source: int, generation: int, rows: int) -> StepDecision:
        """Judge a batch that arrived."""
        if not self.is_aligned:
            return StepDecision.RUN if self.is_initialised else StepDecision.HOLD
        if self._is_taken_back(generation):
            return StepDecision.DROP
        received = self._received.setdefault(generation, {})
        received[source] = received.get(source, 0) + rows
        if generation > self.generation or (self.is_blocking and source in self._arrived):
            return StepDecision.HOLD
        return StepDecision.RUN

    def lost(self, source: int, generation: int, rows: int) -> None:
        """Rows that were admitted will not be executed: no checkpoint may be taken over that."""
        if generation in self._received:
            self._received[generation][source] -= rows

    def judge_held(self, source: int, generation: int) -> StepDecision:
        """Judge a batch that was held, after something has changed."""
        if not self.is_aligned:
            return StepDecision.RUN if self.is_initialised else StepDecision.HOLD
        if self._is_taken_back(generation):
            return StepDecision.DROP
        if generation > self.generation or (self.is_blocking and source in self._arrived):
            return StepDecision.HOLD
        return StepDecision.RUN

    def arrive(self, source: int, step: Step, sent: int) -> Arrival:
        """A step came from a source, which has sent so many rows before in its generation."""
        if step.round < self._round or source not in self.sources:
            return Arrival.OVER
        if step.round > self._round:
            self._begin(step)
        if self.fault:
            return Arrival.WRONG
        if source in self._arrived or self._action is None:
            return Arrival.AGAIN
        self._arrived.add(source)
        if step.action is Action.PREPARE and self.is_aligned:
            self._check_number(source, sent)
            if self.fault:
                return Arrival.WRONG
        return Arrival.LAST if len(self._arrived) == len(self.sources) else Arrival.EARLY

    def acted(self, step: Step) -> None:
        """The task has done what the step asked for, and nothing arrived meanwhile."""
        self._action = None
        if step.action is Action.INITSTATE:
            self.is_initialised = True
            if self.is_aligned:
                self.generation = step.round
                self._is_past = False
                self._received = {number: by for number, by in self._received.items() if number >= step.round}
        elif step.action is Action.ROLLBACK:
            self._is_past = True

    def refuse(self, fault: str) -> None:
        """The present round has gone wrong at this task."""
        self.fault = fault
        self._action = None

    def _is_taken_back(self, generation: int) -> bool:
        is_present = generation == self.generation
        return generation < self.generation or (is_present and (self._is_past or not self.is_initialised))

    def _begin(self, step: Step) -> None:
        if self.is_blocking:  # a checkpoint was given up half-way: this is a step of the recovery
            self._is_past = True
        self._round = step.round
        self._action = step.action
        self._arrived = set()
        self.fault = ""

    def _check_number(self, source: int, sent: int) -> None:
        received = self._received.get(self.generation, {}).get(source, 0)
        if received != sent and self.is_initialised:
            self.refuse(f"task {source} has sent {sent} rows in this generation, and {received} have come")
