"""wait_until."""

from __future__ import annotations

import pytest

from tupletree.testing.wait import wait_until


def test_returns_the_first_true_value() -> None:
    values = iter([0, None, "", 7])
    assert wait_until(lambda: next(values)) == 7


def test_the_deadline_names_what_was_waited_for() -> None:
    with pytest.raises(TimeoutError, match=r"^three workers: not true within 0.02 s; the last value was \[\]$"):
        wait_until(list, timeout=0.02, what="three workers")


def test_a_condition_that_holds_passes_even_after_the_deadline() -> None:
    assert wait_until(lambda: True, timeout=0)
