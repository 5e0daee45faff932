"""Which micro-batches a transaction has."""

from __future__ import annotations

import random

import pytest

from tupletree.spark.streaming.assignment import manifest_file, next_metadata


def published(**queries):
    return [manifest_file(query, number) for query, numbers in queries.items() for number in numbers]


def make(listing, previous=None, removed=None, limit=1, seen=None):
    return next_metadata(listing if seen is None else seen, listing, previous, removed or {}, limit)


def test_nothing_published_is_no_transaction():
    assert make([]) is None
    assert make(published(a=[0]), {"before": {}, "batches": [["a", 0]]}) is None


def test_micro_batches_of_a_query_are_taken_in_their_order_also_where_numbers_are_left_out():
    listing = published(a=[12, 3, 7])
    first = make(listing)
    second = make(listing, first)
    assert first == {"before": {}, "batches": [["a", 3]]}
    assert second == {"before": {"a": 3}, "batches": [["a", 7]]}
    assert make(listing, second) == {"before": {"a": 7}, "batches": [["a", 12]]}


def test_queries_take_turns():
    listing = published(a=[0, 1], b=[0, 1, 2])
    made, order = None, []
    while (following := make(listing, made)) is not None:
        made = following
        order += made["batches"]
    assert order == [["a", 0], ["b", 0], ["a", 1], ["b", 1], ["b", 2]]


def test_a_transaction_takes_several_if_it_may():
    assert make(published(a=[0, 1], b=[5]), limit=2)["batches"] == [["a", 0], ["b", 5]]


def test_what_was_removed_is_not_taken_again_by_a_topology_that_begins_anew():
    assert make(published(a=[4, 5]), removed={"a": 4})["batches"] == [["a", 5]]


@pytest.mark.parametrize("seed", range(20))
def test_each_micro_batch_is_taken_once_and_in_order_whatever_the_listings_miss(seed):
    chance = random.Random(seed)
    coming = {query: 0 for query in "abc"}
    order = []
    for _ in range(60):
        query = chance.choice("abc")
        coming[query] += chance.randrange(1, 3)
        order.append([query, coming[query]])
    names = [manifest_file(query, number) for query, number in order]
    came, made, taken = 0, None, []
    while len(taken) < len(order):
        listings = []
        for _ in range(2):
            before, came = came, min(len(names), came + chance.randrange(1, 6))
            listings.append(names[:before] + [name for name in names[before:came] if chance.random() < 0.5])
        following = make(listings[1], made, limit=chance.randrange(1, 4), seen=listings[0])
        if following is not None:
            made = following
            taken += made["batches"]
    assert sorted(taken) == sorted(order)
    for query in "abc":
        assert [number for other, number in taken if other == query] == [n for other, n in order if other == query]
