"""The state of one task, as used by its checkpoint participant."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from tupletree._checkpoints.steps import Action, Step
from tupletree._log import event
from tupletree._wire.codec import decode_value, encode_value
from tupletree.component import StatefulBolt
from tupletree.errors import ConflictError, TupletreeError, UsageError
from tupletree.state.contract import KeyValueState, StateProvider

from .pending_writes import PendingWrites

log = logging.getLogger(__name__)

Opened = tuple[StateProvider, KeyValueState[Any, Any]]
OpenState = Callable[[], Opened]


class Refused(TupletreeError):
    """This task cannot take the checkpoint, and recovery will follow. Not an error to report to users."""


class TaskState:
    """The state of one task, opened on first use, because the store may be down when the worker starts.

    Opening a state takes the state over from its previous owner. A replaced worker may be late, and take a state back
    from its successor. The late worker must not act on its old step, which might roll back what the successor has
    prepared. The round of a PREPARE is always stored before any task prepares. So after opening a state, the task reads
    the stored round, and refuses a step of an earlier round. If the successor prepares only after that read, its
    prepare fails with AuthorityError, because the late worker owns the state.

    ``writes``: the writes from outside that are in no committed checkpoint yet.
    """

    def __init__(self, component: str, open_state: OpenState, newest_round: Callable[[], int]) -> None:
        self._component = component
        self._open_state = open_state
        self._newest_round = newest_round
        self.writes = PendingWrites()
        self._round = 0  # of the current step
        self._opened: Opened | None = None
        self._migrated: tuple[tuple[int | None, int], list[tuple[bytes, bytes]]] | None = None

    def at(self, step: Step) -> None:
        """Set the step that is about to be acted on."""
        self._round = step.round

    @property
    def state(self) -> KeyValueState[Any, Any]:
        """The state, opened if necessary. Raises as StateProvider.new_state does."""
        return self._open()[1]

    @property
    def opened(self) -> Opened | None:
        """The provider and the state, if they are open. Any thread."""
        return self._opened

    def _open(self) -> Opened:
        if self._opened is None:
            provider, state = self._open_state()
            try:
                if provider.is_durable and self._newest_round() > self._round:
                    raise Refused(f"the step belongs to round {self._round}, and a newer round has begun")
            except BaseException:
                state.close()
                raise
            self._opened = provider, state
        return self._opened

    def knows(self, step: Step) -> bool:
        """True if this state has prepared or committed the checkpoint of a COMMIT, or is new or not durable."""
        provider, state = self._open()
        return self.is_new(step) or not provider.is_durable or step.txid in (state.prepared, state.committed)

    def is_new(self, step: Step) -> bool:
        """True if the component is not in the checkpoint: the checkpoint was taken before the component was added."""
        return self._component in step.fresh

    def is_at(self, txid: int) -> bool:
        """True if a checkpoint is the last one committed in this state, or the state is not durable."""
        provider, state = self._open()
        return not provider.is_durable or (state.committed or 0) == txid

    def forget(self) -> None:
        """Close the state, so that it is reopened on next use.

        The cached state may be out of date, because another worker may have had it open in the meantime (a worker that
        was replaced before it had opened its states and opened them later).
        """
        opened, self._opened = self._opened, None
        if opened is not None:
            opened[1].close()
        self.writes.reopened()

    def prepare(self, txid: int) -> None:
        """Prepare the commit.

        Raises as KeyValueState.prepare_commit does. Raises UsageError if the state does not report what is prepared.
        """
        provider, state = self._open()
        state.prepare_commit(txid)
        if provider.is_durable and state.prepared != txid:
            raise UsageError(
                f"the state of component {self._component!r} has prepared={state.prepared}, not {txid}, after "
                f"prepare_commit({txid}): {type(state).__name__} must set 'prepared' and 'committed', from which "
                f"recovery continues after a crash; or set is_durable = False on {type(provider).__name__}"
            )
        self.writes.prepared(txid)

    def commit(self, step: Step) -> None:
        """Commit, unless the component is new and not in the checkpoint.

        Raises as KeyValueState.commit does; ConflictError with the likely cause if the store lost what was prepared.
        """
        provider, state = self._open()
        self._migrated = None
        if not self.is_new(step):
            if provider.is_durable and state.prepared is None and (state.committed or 0) < step.txid:
                raise self._lost(state.committed, step.txid)
            state.commit(step.txid)
            self.writes.committed(step.txid)
        elif state.prepared is not None:
            self.rollback()  # left by an earlier component of the same name

    def settle(self, step: Step) -> None:
        """Commit what is prepared under the checkpoint that a ROLLBACK or an INITSTATE goes back to.

        That checkpoint is decided on. Its state is still prepared if the component was not part of the topology when
        the other tasks committed, and has come back since. Raises as KeyValueState.commit does.
        """
        provider, state = self._open()
        txid = step.txid - (step.action is Action.ROLLBACK)
        if provider.is_durable and not self.is_new(step) and state.prepared == txid != state.committed:
            state.commit(txid)
            self.writes.committed(txid)

    def rollback(self) -> None:
        """Roll the state back. Raises as KeyValueState.rollback does."""
        self.state.rollback()
        self.writes.rolled_back(self.state.committed)

    def check(self, step: Step, *, is_unused: bool) -> None:
        """Check at INITSTATE that the state is at the committed checkpoint.

        The state of a new component is emptied if ``is_unused``, that is, if nothing was executed on it since it was
        opened or rolled back.

        Raises:
            ConflictError: the state is at another checkpoint.
        """
        provider, state = self._open()
        committed = state.committed
        if not provider.is_durable or committed == step.txid:
            return
        if committed is not None and committed > step.txid:
            raise ConflictError(
                f"the state of component {self._component!r} was committed with checkpoint {committed}, but the "
                f"topology's last checkpoint is {step.txid}: the state belongs to another topology, or to a cluster or "
                "a run of 'tupletree local' that is gone with its checkpoints; choose another topology.state.id, or "
                "remove these states"
            )
        if self.is_new(step):
            if is_unused:  # entries were left by an earlier component of the same name
                state.clear()
                self.writes.reopened()
        elif step.txid > 0:
            raise self._lost(committed, step.txid)

    def _lost(self, committed: int | None, txid: int) -> ConflictError:
        found = "is empty" if committed is None else f"was last committed with checkpoint {committed}"
        return ConflictError(
            f"the state of component {self._component!r} {found}, and the last checkpoint of the topology is {txid}: "
            f"the store has lost the commit, or is not the store that was written to (a file must be reachable from "
            f"every machine); restore the store, or choose another topology.state.id to start empty"
        )

    def migrate(self, step: Step, bolt: StatefulBolt) -> None:
        """Replace the values that an earlier ``state_version`` of the bolt has stored, in changes not yet committed.

        Called before the bolt is initialised, so uncommitted changes are what an earlier try has left: they are
        discarded. If ``migrate_value`` raises, or returns what cannot be stored, so does this, and nothing is changed.
        The migrated values are kept until they are committed: a try that lasts longer than the message timeout is not
        in vain. They are in memory twice, once encoded.
        """
        version = dict(step.older).get(self._component)
        provider, state = self._open()
        if version is None or not provider.is_durable:
            return
        self.rollback()
        mark = (state.committed, version)
        if self._migrated is None or self._migrated[0] != mark:
            self._migrated = (
                mark,
                [
                    (encode_value(key), encode_value(bolt.migrate_entry(key, value, version)))
                    for key, value in state.scan()
                ],
            )
            entries = len(self._migrated[1])
            event(log, "state.migrated", component=self._component, version=version, entries=entries)
        for encoded, data in self._migrated[1]:
            state.put(decode_value(encoded), decode_value(data))

    def close(self) -> None:
        """Close the state, if it was opened."""
        if self._opened is not None:
            self._opened[1].close()
