"""What the curves of ``bench.growth`` say of their figures."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from bench.growth.__main__ import as_text, main, summary
from bench.growth.curves import BY_NAME, CURVES, Curve

TASKS = BY_NAME["tasks"]


def measured(curve: Curve, costs: Mapping[int, float]) -> dict[str, dict[str, float]]:
    return {str(point): {curve.cost: cost} for point, cost in costs.items()}


def test_a_curve_tells_its_ends_its_level_part_and_its_steepest_step() -> None:
    assert TASKS.words(measured(TASKS, {2: 0.85, 8: 1.01, 32: 1.84, 128: 9.4})) == [
        "A word: 9.4 µs at 128 split and count tasks, 0.85 µs at 2: 11.1 times the cost.",
        "Up to 8 the cost stays within 1.5 times that at 2.",
        "The steepest step is from 32 to 128: 4 times as many, 5.11 times the cost, more than in proportion.",
        TASKS.set_by,
    ]


def test_a_level_curve_has_no_steepest_step() -> None:
    assert TASKS.words(measured(TASKS, {2: 1.0, 8: 1.05, 32: 1.1}))[1:] == [
        "No point costs more than 1.5 times the first.",
        TASKS.set_by,
    ]


def test_a_cost_that_falls_back_does_not_reach_further() -> None:
    said = TASKS.words(measured(TASKS, {2: 1.0, 8: 2.0, 32: 1.0}))
    assert said[1] == "Up to 2 the cost stays within 1.5 times that at 2."


def test_a_line_has_a_slope() -> None:
    said = BY_NAME["bytes"].words(measured(BY_NAME["bytes"], {10: 5.0, 1_000_000: 5005.0}))
    assert said[0] == "A tuple: 5,005 µs at 1,000,000 bytes, 5 µs at 10: 1,001 times the cost."
    assert said[-2] == "Each further byte adds 5 ns."


@pytest.mark.parametrize("costs", [{}, {2: 1.0}, {2: 0.0, 8: 1.0}])
def test_too_few_figures_say_nothing(costs: dict[int, float]) -> None:
    assert TASKS.words(measured(TASKS, costs)) == []


def test_medians_of_the_points_that_were_measured_are_by_that_of_the_first() -> None:
    rounds = {"8": [{TASKS.cost: 3.0}, {TASKS.cost: 9.0}, {TASKS.cost: 4.0}], "2": [{TASKS.cost: 2.0}]}
    result = summary(TASKS, [2, 8, 32], rounds)
    assert result == {"2": {TASKS.cost: 2.0, "times": 1.0}, "8": {TASKS.cost: 4.0, "times": 2.0}}
    assert as_text(TASKS, result)[:4] == [
        "tasks",
        "   cpu_us_per_word  times",
        "2              2.0    1.0",
        "8              4.0    2.0",
    ]


def test_curves_have_names_of_their_own_and_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(BY_NAME) == len(CURVES)
    assert main(["list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [curve.name for curve in CURVES]
    assert all(curve.points == tuple(sorted(curve.points)) for curve in CURVES)


def test_points_must_be_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--points", "2,0"])
    assert "--points" in capsys.readouterr().err
