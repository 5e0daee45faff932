"""Latencies by bucket, and the percentiles read from them."""

import random
from bisect import bisect_left
from itertools import pairwise

import pytest

from tupletree._wire.latency import BOUNDS_S, BUCKETS, FINE_BOUNDS_S, bucket_of, coarse, percentile_s
from tupletree.worker.core.counts import Counters


def counts_of(latencies):
    counters = Counters()
    for latency in latencies:
        counters.completed(latency)
    assert sum(counters.complete_counts) == counters.complete_samples
    return counters.complete_counts


def test_a_bound_belongs_to_the_bucket_below_it():
    assert [bucket_of(bound) for bound in FINE_BOUNDS_S] == list(range(BUCKETS - 1))
    assert bucket_of(FINE_BOUNDS_S[-1] * 2) == BUCKETS - 1
    assert bucket_of(0.0) == 0


def test_without_samples_there_is_no_percentile():
    assert percentile_s([], 0.5) is None
    assert percentile_s([0] * BUCKETS, 0.99) is None


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99, 0.999, 1.0])
def test_a_percentile_is_in_the_bucket_of_the_true_one(share):
    rng = random.Random(7)
    latencies = sorted(rng.lognormvariate(-5, 1.5) for _ in range(10_000))
    truth = latencies[min(len(latencies) - 1, max(0, round(share * len(latencies)) - 1))]
    read = percentile_s(counts_of(latencies), share)
    assert abs(bucket_of(read) - bucket_of(truth)) <= 1


def test_what_is_beyond_the_last_bound_is_shown_as_it():
    assert percentile_s(counts_of([2000.0, 3000.0]), 0.5) == FINE_BOUNDS_S[-1]


@pytest.mark.parametrize("latency", [0.000002, 0.00001, 0.052, 0.76, 20.0, 29.8, 610.0])
def test_percentiles_of_a_constant_latency_are_within_a_tenth_of_it(latency):
    counts = counts_of([latency] * 1000)
    for share in (0.0, 0.5, 0.99, 0.999, 1.0):
        assert percentile_s(counts, share) == pytest.approx(latency, rel=0.1)


def test_each_bound_is_at_most_a_tenth_above_the_one_before():
    assert FINE_BOUNDS_S[0] == 1e-6
    assert all(low < high <= low * 1.1001 for low, high in pairwise(FINE_BOUNDS_S))


def test_the_buckets_of_metrics_are_sums_of_fine_ones():
    latencies = [0.00001, 0.0001, 0.00011, 0.0005, 0.03, 0.05, 0.051, 30.0, 31.0, 5000.0]
    expected = [0] * (len(BOUNDS_S) + 1)
    for latency in latencies:
        expected[bisect_left(BOUNDS_S, latency)] += 1
    assert coarse(counts_of(latencies)) == expected
    assert coarse([]) == [0] * (len(BOUNDS_S) + 1)
