"""Parts of the benches that need no cluster: truths, percentiles, the in-process benches."""

from __future__ import annotations

from argparse import Namespace
from collections import Counter
from random import Random

import pytest

from bench import codec, routing
from bench._ads import DISTINCT_EVENTS, EVENT_TYPES, WINDOW_MS, ads, events, true_windows
from bench._cli import WrongResultError, as_lines
from bench._words import DISTINCT_SENTENCES, sentences, true_counts
from bench.latency import percentiles


def test_true_counts_are_those_of_the_sentences_in_turn() -> None:
    count = DISTINCT_SENTENCES + 3
    distinct = sentences(DISTINCT_SENTENCES)
    emitted = [distinct[number % len(distinct)] for number in range(count)]
    assert true_counts(count) == Counter(word for line in emitted for word in line.split())
    assert true_counts(5) == Counter(word for line in sentences(5) for word in line.split())


def test_percentiles_are_the_least_values_that_so_many_do_not_exceed() -> None:
    found = percentiles([number / 1000 for number in range(1000, 0, -1)], "ack_")
    assert found == {"ack_p50_ms": 500, "ack_p99_ms": 990, "ack_p999_ms": 999, "ack_max_ms": 1000}


def test_every_ad_has_one_of_a_hundred_campaigns() -> None:
    campaigns = ads(Random(1))
    assert len(campaigns) == 1000
    assert set(Counter(campaigns.values()).values()) == {10}


def test_true_windows_hold_every_view_once() -> None:
    count = 2 * DISTINCT_EVENTS
    views = sum(event["event_type"] == EVENT_TYPES[0] for event in events(7)[1])
    windows = true_windows(count, 1000.0, 7)
    assert windows.total() == 2 * views
    assert {window % WINDOW_MS for _, window in windows} == {0}
    assert len({window for _, window in windows}) == 2


def test_codec() -> None:
    result = codec.measure(Namespace(rows=50, repeats=2))
    assert result["words_bytes_per_row"] < result["mixed_bytes_per_row"]
    assert result["mixed_decoded_rows_per_s"] > 0


def test_routing() -> None:
    result = routing.measure(Namespace(rows=80, targets=8, repeats=1))
    assert set(result) == {
        f"{name}_per_s"
        for name in ("nothing", "shuffle", "fields", "fields_new", "partial_key", "global", "all", "custom")
    }


def test_a_grouping_that_strays_is_found_out() -> None:
    given = [["a"], ["b"], ["a"]]
    answers = iter([2, 3, 3])
    with pytest.raises(WrongResultError, match="fields"):
        routing.check("fields", lambda values: next(answers), given, [2, 3])
    with pytest.raises(WrongResultError, match="shuffle"):
        routing.check("shuffle", lambda values: 2, given, [2, 3])
    with pytest.raises(WrongResultError, match="global"):
        routing.check("global", lambda values: 4, given, [2, 3])


def test_results_for_people_are_one_figure_a_line() -> None:
    assert as_lines({"words_per_s": 1234567, "note": "x"}) == "words_per_s  1,234,567\n       note  x"
