"""Which leader's commands a supervisor obeys."""

from __future__ import annotations

import pytest

from tupletree.errors import AuthorityError
from tupletree.supervisor.fencing import EpochFence


def test_commands_of_the_present_and_of_a_newer_epoch_are_admitted() -> None:
    newest = EpochFence()
    newest.observe(3)
    newest.admit(3)
    newest.admit(5)
    assert newest.epoch == 5


def test_a_command_of_an_older_epoch_is_refused_and_changes_nothing() -> None:
    newest = EpochFence()
    newest.admit(5)
    with pytest.raises(AuthorityError, match="has epoch 4, but epoch 5 has begun"):
        newest.admit(4)
    newest.observe(2)
    assert newest.epoch == 5
