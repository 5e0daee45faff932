"""The runner starts each bench as a process of its own."""

from __future__ import annotations

import runpy
import sys

import pytest

from bench.__main__ import run_all
from bench._suite import SUITE, Bench


@pytest.mark.parametrize("bench", SUITE, ids=lambda bench: bench.name)
def test_the_arguments_of_every_case_are_understood(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, f"bench.{bench.name}", raising=False)
    monkeypatch.setattr(sys, "argv", [bench.name, "--help"])
    with pytest.raises(SystemExit):
        runpy.run_module(f"bench.{bench.name}", run_name="__main__")
    known = capsys.readouterr().out
    for arguments in bench.cases.values():
        options = [argument for argument in arguments.split() if argument.startswith("--")]
        assert [option for option in (*options, "--json") if option not in known] == []


@pytest.mark.nightly
def test_cases_take_turns_and_a_failure_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    routing = Bench("routing", "", "fields_per_s", {case: "--rows 80 --repeats 1" for case in ("a", "b")})
    wrong = Bench("codec", "", "none", {"c": "--rows 0"})
    results, failed = run_all([(routing, ["a", "b"]), (wrong, ["c"])], 2)
    assert failed == {"codec"}
    assert {case: len(runs) for case, runs in results["routing"].items()} == {"a": 2, "b": 2}
    told = [line.split(":")[2] for line in capsys.readouterr().err.splitlines() if " of 2: " in line]
    assert told == ["a", "b", "b", "a"]
