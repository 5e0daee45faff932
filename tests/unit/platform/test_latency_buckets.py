"""Latencies by bucket, and the percentiles read from them."""

import random

import pytest

from tupletree._wire.latency import BOUNDS_S, BUCKETS, bucket_of, percentile_s


def counts_of(latencies):
    counts = [0] * BUCKETS
    for latency in latencies:
        counts[bucket_of(latency)] += 1
    return counts


def test_a_bound_belongs_to_the_bucket_below_it():
    assert [bucket_of(bound) for bound in BOUNDS_S] == list(range(BUCKETS - 1))
    assert bucket_of(BOUNDS_S[-1] * 2) == BUCKETS - 1
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
    assert percentile_s(counts_of([100.0, 200.0]), 0.5) == BOUNDS_S[-1]
