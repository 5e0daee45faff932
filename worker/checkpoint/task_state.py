"""The state of one task, as a participant in checkpoints uses it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tupletree.errors import ConflictError, TupletreeError, UsageError
from tupletree.state.contract import KeyValueState, StateProvider
from tupletree.state.steps import Step

Opened = tuple[StateProvider, KeyValueState[Any, Any]]
OpenState = Callable[[], Opened]


class Refused(TupletreeError):
    """This task cannot take the checkpoint, and recovery is the way out. Not an error to show to anybody."""


class TaskState:
    """The state of one task, opened when it is first needed: the store may be away when the worker starts.

    Who opens a state takes it from whoever had it. A worker that was replaced, and comes to open its states only now,
    must not act on the old step that it does so for: it might roll back what its successor has prepared since. Every
    such PREPARE has stored its round before. So a round that is stored is looked at once the state is open, and a step
    of an earlier one is refused; if the successor prepares after that look, it is told that it has lost its state.
    """

    def __init__(self, component: str, open_state: OpenState, newest_round: Callable[[], int]) -> None:
        self._component = component
        self._open_state = open_state
        self._newest_round = newest_round
        self._round = 0  # of the step that is being acted on
        self._opened: Opened | None = None

    def at(self, step: Step) -> None:
        """This step is about to be acted on."""
        self._round = step.round

    @property
    def state(self) -> KeyValueState[Any, Any]:
        """Errors as of StateProvider.new_state."""
        return self._open()[1]

    def _open(self) -> Opened:
        if self._opened is None:
            provider, state = self._open_state()
            if provider.is_durable and self._newest_round() > self._round:
                state.close()
                raise Refused(f"the step of round {self._round} is old")
            self._opened = provider, state
        return self._opened

    def knows(self, step: Step) -> bool:
        """Whether the checkpoint of a COMMIT is prepared or committed as far as is known here."""
        provider, state = self._open()
        is_new = self._component in step.fresh
        return is_new or not provider.is_durable or step.txid in (state.prepared, state.committed)

    def is_at(self, txid: int) -> bool:
        """Whether a checkpoint is the last one committed as far as is known here."""
        provider, state = self._open()
        return not provider.is_durable or (state.committed or 0) == txid

    def forget(self) -> None:
        """Have it opened anew when it is needed next: what is known here may be out of date, since another may have had
        it open in the meantime (a worker that was replaced before it had opened its states, and did so later)."""
        opened, self._opened = self._opened, None
        if opened is not None:
            opened[1].close()

    def prepare(self, txid: int) -> None:
        """Errors as of KeyValueState.prepare_commit; UsageError if the state does not say what is prepared."""
        provider, state = self._open()
        state.prepare_commit(txid)
        if provider.is_durable and state.prepared != txid:
            raise UsageError(
                f"the state of component {self._component!r} says that {state.prepared} is prepared after "
                f"prepare_commit({txid}): {type(state).__name__} must keep 'prepared' and 'committed', without which "
                f"nobody knows after a crash where it stands; or {type(provider).__name__} is not durable and says so"
            )

    def commit(self, step: Step) -> None:
        """Commit, unless this component is new and not part of the checkpoint. Errors as of KeyValueState.commit."""
        state = self.state
        if self._component not in step.fresh:
            state.commit(step.txid)
        elif state.prepared is not None:
            state.rollback()  # left by a component of that name, which was gone meanwhile

    def rollback(self) -> None:
        """Errors as of KeyValueState.rollback."""
        self.state.rollback()

    def check(self, step: Step, *, is_unused: bool) -> None:
        """See at INITSTATE that the state is that of the committed checkpoint.

        Of a component that is new it is emptied, if it ``is_unused``: nothing was executed on it since it was opened or
        rolled back.

        Raises:
            ConflictError: it is of another checkpoint.
        """
        provider, state = self._open()
        committed = state.committed
        if not provider.is_durable or committed == step.txid:
            return
        if committed is not None and committed > step.txid:
            raise ConflictError(
                f"the state of component {self._component!r} was committed with checkpoint {committed}, and the last "
                f"of the topology is {step.txid}: the state is another topology's, or the checkpoint's record was "
                f"removed; choose another topology.state.id"
            )
        if self._component in step.fresh:
            if is_unused:  # what is there was left by a component of that name, which was gone meanwhile
                for key in [key for key, _ in state.items()]:
                    state.delete(key)
        elif step.txid > 0:
            found = "is empty" if committed is None else f"was last committed with checkpoint {committed}"
            raise ConflictError(
                f"the state of component {self._component!r} {found}, and the last checkpoint of the topology is "
                f"{step.txid}: the store has lost what was committed, or is not the one that was written to (a file "
                f"must be reachable from every machine); restore it, or choose another topology.state.id to begin anew"
            )

    def close(self) -> None:
        """Close the state, if it was opened."""
        if self._opened is not None:
            self._opened[1].close()
