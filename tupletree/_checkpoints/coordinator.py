"""Rules of the checkpoint spout: the next step, and the recovery after a failure.

A checkpoint is a transaction of two steps. Each is one round through the whole topology, and a round is complete when
every tuple of it was acked.

                                        interval is over
    COMMITTED(t) --PREPARE t+1--> PREPARING(t+1) --acked--> COMMITTING(t+1) --COMMIT t+1 acked--> COMMITTED(t+1)

At the start, and after any failure of a round, the topology *recovers*: a checkpoint that the stored phase left open is
completed or rolled back, and then all tasks restart from the committed state.

    stored phase     step                 when it is acked
    PREPARING(t)     ROLLBACK t           COMMITTED(t-1), then INITSTATE
    COMMITTING(t)    COMMIT t again       COMMITTED(t), then INITSTATE
    COMMITTED(t)     INITSTATE t          recovered; the next interval begins

**Invariants.**

C1  A phase is stored before a step that depends on it is sent: ``Record`` precedes its ``Send``.
C2  COMMITTING(t) is stored only after all tasks have acked PREPARE t. From then on t is never rolled back.
C3  One round is in progress at a time, and round numbers increase. Acks and failures of earlier rounds are ignored.
C4  After a failure no PREPARE is sent before all tasks have acked an INITSTATE.
C5  While a checkpoint is *held* (``hold``), no PREPARE is sent: what the tasks have committed stays as it is.

Source: Storm's checkpoint spout, https://storm.apache.org/releases/current/State-checkpointing.html. Storm has neither
rounds nor the store's epoch.
"""

from __future__ import annotations  # pure

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from tupletree._checkpoints.steps import Action, Step, first_round

FIRST_PAUSE_S = 0.05
MAX_PAUSE_S = 2.0
MIGRATION_PAUSE_S = 5.0
"""Time for which a checkpoint with migrated states is put off: until it is stored, the version before can go on."""


class Phase(enum.StrEnum):
    """The phase of the checkpoint ``txid``."""

    PREPARING = "preparing"
    COMMITTING = "committing"
    COMMITTED = "committed"


@dataclass(frozen=True, slots=True)
class Record:
    """Store the checkpoint durably before the next effect, and only under this coordinator's epoch.

    ``is_whole``: the checkpoint covers all components.
    """

    txid: int
    phase: Phase
    is_whole: bool = False


@dataclass(frozen=True, slots=True)
class Send:
    """Send a step to the tasks that begin rounds."""

    step: Step


Effect = Record | Send


class CheckpointCoordinator:
    """Makes the decisions of one epoch. Effects must be carried out in the order in which they are returned.

    ``txid``, ``phase``: as stored; 0 and COMMITTED if nothing is stored. ``fresh``: components without a checkpoint.
    ``older``: components with a checkpoint of an earlier ``state_version``, and that version.
    ``migration_pause_s``: the least pause between an INITSTATE that migrates states and the checkpoint with them.
    """

    def __init__(
        self,
        epoch: int,
        txid: int,
        phase: Phase,
        fresh: Sequence[str],
        interval_s: float,
        older: Sequence[tuple[str, int]] = (),
        migration_pause_s: float = MIGRATION_PAUSE_S,
    ) -> None:
        self.txid = txid
        self.phase = phase
        self.fresh = tuple(fresh)
        self.older = tuple(older)
        self.is_recovering = True
        self.step: Step | None = None  # of the current round
        self.failures = 0  # since the last checkpoint
        self._next_round = first_round(epoch)
        self.interval_s = interval_s  # can be changed at any time: the next pause has the new length
        self._migration_pause_s = migration_pause_s
        self._not_before_s = 0.0
        self._hold_until_s = 0.0

    def next(self, now_s: float) -> Sequence[Effect]:
        """Return the effects due now: none, a step of the recovery, or the first step of a checkpoint."""
        if self.step is not None or now_s < self._not_before_s:
            return ()
        if not self.is_recovering:
            if self._covers_all and now_s < self._hold_until_s:
                return ()
            self.txid += 1
            self.phase = Phase.PREPARING
            return Record(self.txid, self.phase), self._send(Action.PREPARE)
        match self.phase:
            case Phase.PREPARING:
                return (self._send(Action.ROLLBACK),)
            case Phase.COMMITTING:
                return (self._send(Action.COMMIT),)
            case Phase.COMMITTED:
                return (self._send(Action.INITSTATE),)

    def acked(self, round_: int, now_s: float) -> Sequence[Effect]:
        """Record that all tasks have acked a round; return the effects that follow."""
        step = self.step
        if step is None or step.round != round_:
            return ()
        self.step = None
        match step.action:
            case Action.PREPARE:
                self.phase = Phase.COMMITTING
                self.fresh = self.older = ()  # this checkpoint covers all components, as they are now
                return Record(self.txid, self.phase, is_whole=True), self._send(Action.COMMIT)
            case Action.COMMIT:
                self.phase = Phase.COMMITTED
                self.failures = 0
                self._not_before_s = now_s + (0 if self.is_recovering else self.interval_s)
                return (Record(self.txid, self.phase),)
            case Action.ROLLBACK:
                self.txid -= 1
                self.phase = Phase.COMMITTED
                return (Record(self.txid, self.phase),)
            case Action.INITSTATE:
                self.is_recovering = False
                self._not_before_s = now_s + max(self.interval_s, self._migration_pause_s if self.older else 0.0)
                return ()

    def failed(self, round_: int, now_s: float) -> bool:
        """Begin recovery after a failed or lost tuple of a round. False if the round is not the current round."""
        if self.step is None or self.step.round != round_:
            return False
        self.step = None
        self.is_recovering = True
        if self.failures:  # the first retry is immediate
            self._not_before_s = now_s + min(MAX_PAUSE_S, FIRST_PAUSE_S * 2 ** min(self.failures, 10))
        else:
            self._not_before_s = now_s
        self.failures += 1
        return True

    def hold(self, until_s: float) -> int | None:
        """Begin no checkpoint before ``until_s``; return the checkpoint at which all tasks are, and stay until then.

        None while there is none: a round is in progress, or no checkpoint covers all components as they are now. Such a
        checkpoint is still taken.
        """
        self._hold_until_s = until_s
        is_held = self._covers_all and self.step is None and not self.is_recovering and self.phase is Phase.COMMITTED
        return self.txid if is_held else None

    def hurry(self) -> None:
        """Make the next checkpoint due at once, unless a round is in progress or the topology recovers or migrates."""
        if self.step is None and not self.is_recovering and not self.older:
            self._not_before_s = 0.0

    @property
    def _covers_all(self) -> bool:
        return self.txid > 0 and not self.fresh and not self.older

    @property
    def is_migrating(self) -> bool:
        """True if the next checkpoint would be the first with migrated states."""
        return bool(self.older) and not self.is_recovering

    @property
    def newest_round(self) -> int:
        """The newest round number in use."""
        return self._next_round - 1

    def _send(self, action: Action) -> Send:
        self.step = Step(self._next_round, action, self.txid, self.fresh, self.older)
        self._next_round += 1
        return Send(self.step)
