"""examples/simulated_faults.py: the bolt that is not idempotent is caught, its mended form passes."""

from __future__ import annotations

import pytest

from examples import simulated_faults
from examples.simulated_faults import ACCOUNTS, Book, BookOnce, check, topology
from tupletree.testing import CounterexampleError, simulate


def test_a_bolt_that_is_not_idempotent_is_caught() -> None:
    with pytest.raises(CounterexampleError, match=r"'account-\d' is \d+, not \d+"):
        simulate(topology(Book(ACCOUNTS)), range(200), check=check)


def test_its_mended_form_passes() -> None:
    report = simulate(topology(BookOnce(ACCOUNTS)), range(50), check=check)
    assert report.messages == 50 * len(simulated_faults.PAYMENTS)
    assert report.repeats > 100
