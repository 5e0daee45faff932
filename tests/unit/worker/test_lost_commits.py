"""A state whose store has lost what was prepared: the error names component, checkpoint and likely cause."""

from __future__ import annotations

from pathlib import Path
from sqlite3 import ProgrammingError

import pytest

from tupletree._checkpoints.steps import Action, Step
from tupletree.errors import ConflictError, UnavailableError
from tupletree.state.providers import open_state
from tupletree.worker.checkpoint.task_state import Opened, TaskState


def open_sqlite(directory: Path) -> Opened:
    conf = {"topology.state.provider": "sqlite", "topology.state.provider.config": {"directory": str(directory)}}
    return open_state("words/count/0", conf, None)  # type: ignore[arg-type]


def at(directory: Path) -> TaskState:
    return TaskState("count", lambda: open_sqlite(directory), lambda: 0)


def commit(txid: int) -> Step:
    return Step(1, Action.COMMIT, txid)


def test_a_commit_that_the_store_does_not_know_names_the_cause(tmp_path: Path) -> None:
    state = at(tmp_path)
    cause = r"the store has lost the commit, or is not the store that was written to"
    with pytest.raises(ConflictError, match=rf"^the state of component 'count' is empty, and .* is 1: {cause}"):
        state.commit(commit(1))
    state.state.put("a", 1)
    state.prepare(1)
    state.commit(commit(1))
    state.commit(commit(1))
    with pytest.raises(ConflictError, match=rf"was last committed with checkpoint 1, and .* is 2: {cause}"):
        state.commit(commit(2))
    state.close()


@pytest.mark.parametrize("step", [Step(1, Action.INITSTATE, 1), Step(1, Action.ROLLBACK, 2)])
def test_what_is_decided_on_is_committed_by_a_component_that_was_away_meanwhile(tmp_path: Path, step: Step) -> None:
    before = at(tmp_path)
    before.state.put("a", 1)
    before.prepare(1)
    before.close()
    state = at(tmp_path)
    state.settle(step)
    state.rollback()
    state.check(Step(2, Action.INITSTATE, 1), is_unused=True)
    assert dict(state.state.items()) == {"a": 1}
    state.close()


@pytest.mark.parametrize(
    "step", [Step(1, Action.INITSTATE, 1), Step(1, Action.ROLLBACK, 1), Step(1, Action.INITSTATE, 2, fresh=("count",))]
)
def test_what_is_not_decided_on_is_not_committed(tmp_path: Path, step: Step) -> None:
    """``fresh``: another component of that name has prepared it."""
    state = at(tmp_path)
    state.state.put("a", 1)
    state.prepare(2 if step.txid == 1 and step.action is Action.INITSTATE else step.txid)
    state.settle(step)
    state.rollback()
    assert state.state.committed is None
    assert dict(state.state.items()) == {}
    state.close()


def test_a_state_is_closed_again_if_the_stored_round_cannot_be_read(tmp_path: Path) -> None:
    """The step is tried again, and each try would leave a state open."""
    made: list[Opened] = []

    def away() -> int:
        raise UnavailableError("ZooKeeper is away")

    def opened() -> Opened:
        made.append(open_sqlite(tmp_path))
        return made[-1]

    with pytest.raises(UnavailableError, match="ZooKeeper is away"):
        _ = TaskState("count", opened, away).state
    [(_, state)] = made
    state.put("a", 1)
    with pytest.raises(ProgrammingError, match="closed"):
        state.prepare_commit(1)
