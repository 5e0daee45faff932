"""Rules of groups broken on purpose, beside those of transaction_breaks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from transaction_breaks import UnfencedCoordinator, coordinating, counting
from transaction_nouns import Rules

from tupletree.attempt import TransactionAttempt
from tupletree.transactional import rules
from tupletree.transactional.coordinator import Coordinator, Effect, EmitCommit, Phase, Record
from tupletree.transactional.coordinator_spout import CoordinatorSpout
from tupletree.transactional.counting import Batch, BatchCounts, Control
from tupletree.transactional.databases.contract import Changes, Row, View
from tupletree.transactional.maps import TransactionalMap

GROUPS = {"kind": "generic", "in_groups": True, "max_active": 6}


class SkipsWhatIsNotProcessed(Coordinator):
    """A group with gaps: what is processed commits, whether or not an earlier transaction is."""

    def _first(self, phase: Phase, most: int) -> tuple[TransactionAttempt, ...]:
        return tuple(one.attempt for one in self.active.values() if one.phase is phase)[:most]


class DoesNotWaitForTheGroupBefore(Coordinator):
    """The next group commits while the one before does."""

    def _commit_next(self) -> Sequence[Effect]:
        group = tuple(one.attempt for one in self.active.values() if one.phase is Phase.PROCESSED)
        for attempt in group:
            self.active[attempt.txid].phase = Phase.COMMITTING
        return (Record(self.committed, group), EmitCommit(group)) if group else ()


class NotesOneGroupLate(Coordinator):
    """What is noted is older than what is committed."""

    noted = 0

    def commit_done(self, attempt: TransactionAttempt) -> Sequence[Effect]:
        before, effects = self.committed, super().commit_done(attempt)
        return [Record(before, one.committing) if isinstance(one, Record) else one for one in effects]


class TellsWhatIsNotDurable(CoordinatorSpout):
    """What has committed is noted with the next group, and told before."""

    def _carry_out(self, effect: Effect) -> None:
        if effect != Record(self.committed):
            super()._carry_out(effect)


class FinishesInAnyOrder(BatchCounts):
    def commit(self, group: Sequence[TransactionAttempt], control: Control) -> Sequence[Any]:
        effects = [*super().commit(group, control)]
        for attempt in group[1:]:
            batch = self.batches.get(attempt)
            if batch is not None and batch.must_wait:
                batch.must_wait = False
                effects += self._finish_if_complete(batch)
        return effects


class GoesOnAfterAFailure(BatchCounts):
    """A batch that fails takes none along that follows it in its group."""

    @staticmethod
    def _fail(batch: Batch, control: Control, why: str) -> list[Any]:
        after, batch.after = batch.after, None
        if after is not None:
            after.must_wait = False
        return BatchCounts._fail(batch, control, why)

    def failed(self, attempt: TransactionAttempt) -> Sequence[Any]:
        after = self.batches[attempt].after if attempt in self.batches else None
        effects = [*super().failed(attempt)]
        return [*effects, *(self._finish_if_complete(after) if after is not None else [])]


def same_only(
    table: str, attempt: TransactionAttempt, updates: Mapping[str, rules.Update], view: View
) -> rules.Outcome:
    """The rule of one transaction at a time as many write it: skipped only if the stored txid is the same."""
    rows = view.rows(updates)
    values = {
        key: row.value
        if (row := rows.get(key)) is not None and row.txid == attempt.txid
        else update(None if row is None else row.value)
        for key, update in updates.items()
    }
    return rules.Outcome(Changes({key: Row(attempt.txid, value) for key, value in values.items()}), values)


class MapOfOneAtATime(TransactionalMap):
    is_for_groups = True  # which the builder believes

    def __init__(self, database: Any, table: str, *, in_groups: bool = False) -> None:
        super().__init__(database, table)


class SameOnlyMap(MapOfOneAtATime):
    _rule = staticmethod(same_only)


BROKEN_IN_GROUPS: dict[str, tuple[Rules, str]] = {
    "groups with gaps": (
        Rules(coordinator=coordinating(SkipsWhatIsNotProcessed), shape=GROUPS),
        "is about to commit after|its batch tree is not complete|which is not recorded",
    ),
    "does not wait for the group before": (
        Rules(coordinator=coordinating(DoesNotWaitForTheGroupBefore), shape=GROUPS),
        "is about to commit after",
    ),
    "notes one group late": (
        Rules(coordinator=coordinating(NotesOneGroupLate), shape=GROUPS),
        "is about to commit after|is recorded as committed after",
    ),
    "tells what is not durable": (Rules(coordinator=TellsWhatIsNotDurable, shape=GROUPS), "not everything was"),
    "unfenced groups": (Rules(coordinator=UnfencedCoordinator, shape=GROUPS), "records .* has taken over"),
    "finishes in any order": (
        Rules(bolt=counting(FinishesInAnyOrder), shape=GROUPS),
        r"commits transaction \d+ .* before transaction",
    ),
    "goes on after a failure": (
        Rules(bolt=counting(GoesOnAfterAFailure), shape=GROUPS),
        r"commits transaction \d+ .* before transaction",
    ),
    "skips the same txid only": (Rules(transactional_map=SameOnlyMap, shape=GROUPS), "the truth is"),
    "the rule of one transaction at a time": (
        Rules(transactional_map=MapOfOneAtATime, shape=GROUPS),
        "not everything was committed",
    ),
    "groups of opaque batches": (
        Rules(shape={"kind": "opaque", "in_groups": True, "max_active": 6}),
        "the truth is|skips or repeats|not everything was committed",
    ),
}
"""Each with what the violation says."""
