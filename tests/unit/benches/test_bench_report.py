"""The page of results: which records it shows, and how."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from bench import _chart, report
from bench._record import record


def entry(name: str, result: dict[str, Any], at: str = "2026-01-02T03:04:05+00:00", **more: Any) -> dict[str, Any]:
    machine = {"processor": "A processor", "cores": 2, "memory_mb": 2048, "python": "CPython 3.11.7"}
    commit = {"id": "1a2b3c4d5e", "is_changed": False}
    origin = {"commit": commit, "hot_path": "compiled", "niceness": -5, "machine": machine}
    return {"benchmark": name, "at": at, **origin, "config": {}, "result": result, **more}


def test_the_newest_record_of_each_bench_is_shown_and_one_of_cases_first(tmp_path: Path) -> None:
    written = [
        entry("ledger", {"updates_per_s": 1}, "2026-01-01T00:00:00+00:00"),
        entry("ledger", {"updates_per_s": 2}, "2026-01-03T00:00:00+00:00"),
        entry("word_count", {"a": {"words_per_s": 3}}, "2026-01-01T00:00:00+00:00", rounds={}),
        entry("word_count", {"words_per_s": 4}, "2026-01-03T00:00:00+00:00"),
    ]
    for number, one in enumerate(written):
        (tmp_path / f"{number}.json").write_text(json.dumps(one))
    found = report.newest(tmp_path)
    assert found["ledger"]["result"] == {"updates_per_s": 2}
    assert found["word_count"]["result"] == {"a": {"words_per_s": 3}}


def test_cases_become_a_table_a_chart_and_ratios() -> None:
    result = {
        "two-workers": {"words_per_s": 3000, "p99_ms": 1.5},
        "one-worker": {"words_per_s": 1500, "p99_ms": 2.25},
    }
    files = report.pages({"word_count": entry("word_count", result, config={"rounds": 5})})
    page = files[report.PAGE]
    assert "commit 1a2b3c4, compiled, 5 rounds, niceness -5; A processor, 2 cores, 2 GB, CPython 3.11.7" in page
    assert "| two-workers | 3,000 |" in page
    assert "* two workers against one: 2.00" in page
    chart = files["docs/images/word-count.svg"]
    assert ">two-workers<" in chart
    assert "![Word count: words a second](images/word-count.svg)" in page


def test_a_long_name_of_a_case_fits_left_of_its_bar() -> None:
    for name in ("short", "tupletree-streams-sentence-1"):
        chart = _chart.bars("Title", {name: 2.0, "other": 1.0})
        right, bar = (int(found) for found in re.findall(r'<(?:text|rect) x="(\d+)" y="(?:40|55)"', chart)[:2])
        assert right < bar
        assert right - _chart.LETTER * len(name) >= 0


def test_a_bench_that_nobody_wrote_about_has_a_section_too() -> None:
    page = report.pages({"new_thing": entry("new_thing", {"per_s": 1.25, "is_right": True})})[report.PAGE]
    assert "## New thing" in page
    assert "| per_s | 1.25 |" in page
    assert "| is_right | yes |" in page


def test_figures_within_figures() -> None:
    assert report.tables({"only": {"a": 1, "inside": {"b": 2}}}) == [
        "| figure | value |",
        "| --- | ---: |",
        "| a | 1 |",
        "| inside.b | 2 |",
        "",
    ]
    lines = report.tables({"by": {"x": {"n": 1}, "y": {"n": 2, "text": "a|b"}}, "last": {"y": 0.5}})
    assert "**by**" in lines
    assert "| y | 2 | a\\|b |" in lines
    assert "| y | 0.5 |" in lines


def test_a_comparison_is_in_order_and_tells_what_is_missing() -> None:
    rows = {
        "slow": {"exact": True, "words_per_s": 10, "cpu_us_per_word": 2.5, "peak_rss_mb": 3},
        "ours": {"exact": True, "words_per_s": 40, "cpu_us_per_word": 1.5, "peak_rss_mb": 3},
        "odd": {"exact": False, "reason": "it counted 3"},
    }
    result = {"rows": rows, "base": "ours", "ratios": {"slow": 4.0}, "unavailable": {"storm": "no Maven"}}
    files = report.pages({"peers": entry("peers", result)})
    lines = files[report.PAGE].splitlines()
    assert lines.index("| ours | 40 | 1.5 | 3 |  |") < lines.index("| slow | 10 | 2.5 | 3 | 4 |")
    assert "* odd: wrong: it counted 3" in lines
    assert "* storm: not available: no Maven" in lines
    assert ">slow<" in files["docs/images/peers.svg"]


def test_what_is_not_up_to_date_is_named(tmp_path: Path) -> None:
    images = tmp_path / report.IMAGES
    images.mkdir(parents=True)
    (images / "old.svg").write_text("")
    (tmp_path / report.PAGE).write_text("page")
    files = {report.PAGE: "page", f"{report.IMAGES}/new.svg": "chart"}
    assert report.stale(files, tmp_path) == [f"{report.IMAGES}/new.svg", f"{report.IMAGES}/old.svg"]


def test_bars_are_in_proportion() -> None:
    chart = _chart.bars("A & B", {"x": 50, "y": 200})
    assert "A &amp; B" in chart
    assert 'width="110.0"' in chart
    assert 'width="440.0"' in chart
    assert _chart.bars("", {"x": 0}).count('width="0.0"') == 1


def test_a_curve_is_drawn_on_logarithmic_axes() -> None:
    chart = _chart.curve("A & B", "tasks", {1: 1.0, 10: 10.0, 100: 100.0})
    [path] = re.findall('<polyline points="([^"]*)"', chart)
    (x1, y1), (x2, y2), (x3, y3) = [tuple(map(float, point.split(","))) for point in path.split()]
    assert (x2 - x1, y2 - y1) == pytest.approx((x3 - x2, y3 - y2))
    assert x1 < x2 and y1 > y2
    assert "A &amp; B" in chart and ">tasks<" in chart
    assert "polyline" in _chart.curve("", "", {5: 3.0, 7: 3.0})  # within one power of ten


def test_a_section_with_an_axis_has_a_curve_and_its_words() -> None:
    result = {str(point): {"cpu_us_per_word": cost, "times": cost} for point, cost in ((2, 1.0), (2048, 4.0))}
    files = report.pages({"growth_tasks": entry("growth_tasks", result)})
    page = files[report.PAGE]
    assert "| split and count tasks | cpu_us_per_word | times |" in page
    assert "| 2,048 | 4 | 4 |" in page
    assert "* A word: 4 µs at 2,048 split and count tasks, 1 µs at 2: 4 times the cost." in page
    assert "polyline" in files["docs/images/growth-tasks.svg"]


def test_figures_are_for_people() -> None:
    assert [_chart.figure(value) for value in (1234567, 0, 123.4, 12.345, 0.01234)] == [
        "1,234,567",
        "0",
        "123",
        "12.3",
        "0.0123",
    ]


def test_rounds_are_kept_with_a_record(tmp_path: Path) -> None:
    written = record("word_count", {}, {"a": {"n": 2}}, tmp_path, rounds={"a": [{"n": 1}, {"n": 2}, {"n": 3}]})
    assert written["rounds"]["a"][2] == {"n": 3}
