"""Pauses between attempts."""

from __future__ import annotations

from typing import Any

import pytest

from tupletree import Backoff
from tupletree.errors import UsageError


def test_pauses_grow_up_to_the_longest() -> None:
    backoff = Backoff(first_s=1, factor=3, max_s=20)
    assert [backoff.pause_s(attempts) for attempts in (1, 2, 3, 4, 5, 100_000)] == [1, 3, 9, 20, 20, 20]


@pytest.mark.parametrize("wrong", [{"first_s": -1}, {"first_s": 2, "max_s": 1}, {"factor": 0.5}, {"max_attempts": 0}])
def test_what_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="is not a valid backoff: first_s must be at least 0"):
        Backoff(**wrong)
