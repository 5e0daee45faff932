"""Lines of the commands that write states."""

from __future__ import annotations

import pytest

from tupletree.cli.state_writes import _progress


def test_a_long_import_says_now_and_then_how_far_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    times = iter([0.0, 1.9, 2.0, 2.0, 3.0, 4.5, 4.5])
    tell = _progress(lambda: next(times))
    for count in (10_000, 20_000, 30_000, 40_000):
        tell(count)
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == "20,000 entries are committed\n40,000 entries are committed\n"
