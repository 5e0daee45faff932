"""Barrier alignment: when a task acts on a checkpoint step, and whether tuples meanwhile are run, held or dropped.

A step arrives once from each of the task's checkpoint sources (tasks). When the step has arrived from the last source,
the task acts on the step and passes it on. Steps are numbered by rounds, which only increase. When a new round begins,
all earlier rounds are over.

**Default mode.** Tuples are held until the state is initialised, and executed on arrival afterwards.

**Aligned mode.** At every task, tuples sent before the source's PREPARE belong to the checkpoint, and tuples sent after
PREPARE do not. So the states of a checkpoint and the positions of the spouts form one consistent cut through the
topology (Chandy and Lamport 1985; barriers as in Carbone et al. 2015).

*   After PREPARE has arrived from a source, further tuples from that source are held until PREPARE has arrived from
    every source. So tuples of the next checkpoint have no effect on the current checkpoint.
*   INITSTATE begins a *generation*, whose number is the round of the step. A sender marks its batches with its
    generation. A batch of an older generation than the receiver's is dropped: recovery has rolled it back. A batch of
    a newer generation is held until the receiver reaches that generation.
*   PREPARE states how many rows its sender has sent to this task in the generation. If a different number has arrived,
    rows were lost or duplicated, and the checkpoint fails.

**Invariant** of the aligned mode: a task acts on PREPARE only if it has executed exactly the tuples that each source
sent in this generation before its PREPARE, and no tuple sent afterwards. Channels keep their order, links between
workers never resend (ADR 0003), and a loss shows in the row count.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable

from tupletree._checkpoints.steps import Action, Step


class StepDecision(enum.Enum):
    """The fate of a batch of tuples: it is executed now, kept for later, or dropped, as recovery takes it back."""

    RUN = "run"
    HOLD = "hold"
    DROP = "drop"


class Arrival(enum.Enum):
    """The meaning of a step's arrival from one source."""

    EARLY = "early"  # other sources are still missing
    LAST = "last"  # all sources are in: act on the step
    OVER = "over"  # the round is over, or the sender is not a checkpoint source
    AGAIN = "again"  # a repeat from this source, or the task has already acted on the step
    WRONG = "wrong"  # the checkpoint cannot be taken


class Barriers:
    """The rules for one task. ``sources``: the tasks that send steps to this task."""

    def __init__(self, sources: Iterable[int], *, is_aligned: bool) -> None:
        self.sources = frozenset(sources)
        self.is_aligned = is_aligned
        self.is_initialised = False
        self.generation = 0
        self.fault = ""  # why the present round failed
        self._round = -1
        self._action: Action | None = None  # of the present round, until this task has acted
        self._arrived: set[int] = set()
        self._is_past = False  # the present generation was rolled back, or will be
        self._received: dict[int, dict[int, int]] = {}  # rows by generation and source

    @property
    def is_blocking(self) -> bool:
        """True while tuples of some source are held until PREPARE has arrived from every source."""
        return self.is_aligned and self._action is Action.PREPARE and bool(self._arrived)

    def admit(self, source: int, generation: int, rows: int) -> StepDecision:
        """Count the rows of a batch that has just arrived, and decide what to do with the batch."""
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
        """Subtract admitted rows that will not be executed, so that the next PREPARE fails its row count."""
        if generation in self._received:
            self._received[generation][source] -= rows

    def judge_held(self, source: int, generation: int) -> StepDecision:
        """Decide again what to do with a held batch, after the state of the round has changed."""
        if not self.is_aligned:
            return StepDecision.RUN if self.is_initialised else StepDecision.HOLD
        if self._is_taken_back(generation):
            return StepDecision.DROP
        if generation > self.generation or (self.is_blocking and source in self._arrived):
            return StepDecision.HOLD
        return StepDecision.RUN

    def arrive(self, source: int, step: Step, sent: int) -> Arrival:
        """Record a step from a source. ``sent``: the rows that the source sent before the step in its generation."""
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
        """Record that the task has acted on the step. No batch may arrive while the task acts."""
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
        """Mark the present round as failed at this task."""
        self.fault = fault
        self._action = None

    def _is_taken_back(self, generation: int) -> bool:
        is_present = generation == self.generation
        return generation < self.generation or (is_present and (self._is_past or not self.is_initialised))

    def _begin(self, step: Step) -> None:
        if self.is_blocking:  # a checkpoint was abandoned half-way: this step belongs to the recovery
            self._is_past = True
        self._round = step.round
        self._action = step.action
        self._arrived = set()
        self.fault = ""

    def _check_number(self, source: int, sent: int) -> None:
        received = self._received.get(self.generation, {}).get(source, 0)
        if received != sent and self.is_initialised:
            self.refuse(f"task {source} sent {sent} rows in this generation, but {received} have arrived")
