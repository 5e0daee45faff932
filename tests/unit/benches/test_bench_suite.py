"""The runner: what it may be asked for, and what it says of several runs."""

from __future__ import annotations

import importlib.util
import math

import pytest

from bench.__main__ import Calm, calmest, median
from bench._suite import SUITE, Bench, chosen, config_of
from tupletree.errors import UsageError


@pytest.mark.parametrize("bench", SUITE, ids=lambda bench: bench.name)
def test_every_bench_of_the_suite_is_a_module(bench: Bench) -> None:
    assert importlib.util.find_spec(f"bench.{bench.name}") is not None


def test_benches_are_chosen_whole_or_by_case() -> None:
    [(first, cases), (second, all_cases)] = chosen(["word_count:combined", "codec", "word_count:untracked"])
    assert (first.name, cases) == ("word_count", ["combined", "untracked"])
    assert (second.name, all_cases) == ("codec", ["default"])
    with pytest.raises(UsageError, match="there is no bench 'wordcount'"):
        chosen(["wordcount"])
    with pytest.raises(UsageError, match="has no case 'three-workers'"):
        chosen(["word_count:three-workers"])


def test_arguments_as_configuration() -> None:
    assert config_of(["--workers", "2", "--local", "--rate", "1.5", "--split", "plain"]) == {
        "workers": 2,
        "local": True,
        "rate": 1.5,
        "split": "plain",
    }


def test_medians_over_runs() -> None:
    runs = [
        {"n": 1, "s": 0.5, "ok": True, "by": {"x": 1}, "name": "a"},
        {"n": 9, "s": 0.1, "ok": True, "by": {"x": 5}, "name": "a"},
        {"n": 2, "s": 0.2, "ok": False, "by": {"x": 3}, "name": "a"},
    ]
    assert median(runs) == {"n": 2, "s": 0.2, "ok": False, "by": {"x": 3}, "name": "a"}


def test_a_disturbed_run_is_repeated_and_the_calmest_counts() -> None:
    others = iter([0.9, 0.5, 0.7, 0.8, 0.2, 0.1])
    now_s = 0.0

    def run() -> dict[str, float]:
        nonlocal now_s
        now_s += 10
        return {"others_cores": next(others)}

    def wait(cores: float, timeout_s: float) -> None:
        assert cores in (0.3, math.inf)

    assert calmest(run, Calm(0.3, 25), wait, lambda: now_s) == {"others_cores": 0.5}  # three runs
    assert calmest(run, Calm(0.3, 25), wait, lambda: now_s) == {"others_cores": 0.2}
    assert calmest(run, Calm(), wait, lambda: now_s) == {"others_cores": 0.1}
    assert calmest(lambda: {"figure": 1}, Calm(0.3, 25), wait, lambda: now_s) == {"figure": 1}
