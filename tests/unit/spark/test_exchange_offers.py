"""What a query may read, decided on the names of the files that are there."""

from __future__ import annotations

import random

import pytest

from tupletree.attempt import TransactionAttempt
from tupletree.errors import UsageError
from tupletree.spark.streaming.offers import Chunk, Segments, Transactions, packed, segment_file, transaction_file


def files(*attempts, tasks=2, size=10, without=()):
    """The files of whole attempts (txid, number), but for those of (txid, number, index) in ``without``."""
    return {
        transaction_file(TransactionAttempt(txid, number), index, tasks): size
        for txid, number in attempts
        for index in range(tasks)
        if (txid, number, index) not in without
    }


def transactions(listing, seen=None, removed=0, is_opaque=False):
    return Transactions(listing if seen is None else seen, listing, {"txid": removed}, is_opaque=is_opaque)


def latest(offer, start=0, max_bytes=None):
    return offer.latest({"txid": start}, max_bytes)["txid"]


def names(chunks):
    return sorted(chunk.name for chunk in chunks)


def test_a_transaction_is_offered_when_every_task_has_published_it():
    assert latest(transactions({})) == 0
    assert latest(transactions(files((1, 1), without=[(1, 1, 0)]))) == 0
    assert latest(transactions(files((1, 1), (2, 2), without=[(2, 2, 1)]))) == 1


def test_files_of_two_attempts_are_never_mixed():
    torn = files((1, 1), (1, 2), without=[(1, 1, 1), (1, 2, 0)])
    assert latest(transactions(torn)) == 0
    whole = {**torn, **files((1, 3))}
    offer = transactions(whole)
    assert latest(offer) == 1
    assert names(offer.chunks({"txid": 0}, {"txid": 1})) == sorted(files((1, 3)))


def test_an_attempt_that_is_not_whole_does_not_hide_one_that_is():
    offer = transactions(files((1, 1), (1, 2), without=[(1, 2, 0)]))
    assert names(offer.chunks({"txid": 0}, {"txid": 1})) == sorted(files((1, 1)))


def test_another_number_of_tasks_is_another_attempt():
    offer = transactions({**files((1, 1), tasks=2, without=[(1, 1, 0)]), **files((1, 2), tasks=3)})
    assert names(offer.chunks({"txid": 0}, {"txid": 1})) == sorted(files((1, 2), tasks=3))


def test_behind_an_opaque_spout_a_transaction_is_offered_when_a_later_one_has_a_file():
    assert latest(transactions(files((1, 1)), is_opaque=True)) == 0
    assert latest(transactions(files((1, 1), (2, 2), without=[(2, 2, 1)]), is_opaque=True)) == 1


def test_what_comes_while_the_directory_is_listed_offers_nothing_too_early():
    """The second listing missed a file of 2 and shows one of 3, both of which came while it was made."""
    seen = files((1, 1), (2, 2), without=[(2, 2, 1)])
    offer = transactions(files((1, 1), (2, 2), (3, 3), without=[(2, 2, 1), (3, 3, 0)]), seen)
    assert latest(offer) == 1


def test_a_limit_cuts_off_whole_transactions_but_leaves_one():
    offer = transactions(files((1, 1), (2, 2), (3, 3)))
    assert [latest(offer, 0, limit) for limit in (1, 20, 39, 40, 1000)] == [1, 1, 1, 2, 3]


def test_a_new_query_begins_before_what_is_there():
    assert transactions({}).initial() == {"txid": 0}
    assert transactions({}, removed=7).initial() == {"txid": 7}
    assert transactions(files((8, 1), (9, 2)), removed=7).initial() == {"txid": 7}


def test_a_query_that_began_when_nothing_was_there_reads_from_wherever_it_begins():
    offer = transactions(files((51, 1), (52, 2)))
    assert latest(offer) == 52
    assert len(offer.chunks({"txid": 0}, {"txid": 52})) == 4


def test_files_that_are_gone_are_an_error_and_not_skipped():
    offer = transactions(files((1, 1), (3, 3)))
    with pytest.raises(UsageError, match=r"transaction 2 cannot be read: some of its files are gone"):
        offer.chunks({"txid": 0}, {"txid": 3})
    with pytest.raises(UsageError, match=r"transaction 1 cannot be read"):
        transactions({}).chunks({"txid": 0}, {"txid": 1})


def test_what_another_query_has_removed_is_an_error():
    offer = transactions(files((8, 1)), removed=7)
    with pytest.raises(
        UsageError, match=r"up to 7 were removed by another query, but this query has read only up to 5"
    ):
        offer.latest({"txid": 5}, None)


def test_a_stream_that_began_anew_under_an_old_checkpoint_is_an_error():
    with pytest.raises(UsageError, match=r"up to 50 were read, but the newest is 1: the stream was restarted"):
        transactions(files((1, 1))).latest({"txid": 50}, None)


def test_a_checkpoint_of_the_other_kind_is_an_error():
    with pytest.raises(UsageError, match=r"the stream is transactional"):
        transactions({}).latest({"0": 3}, None)
    with pytest.raises(UsageError, match=r"has no transactions"):
        Segments({}, {}, {}).latest({"txid": 3}, None)


def test_segments_are_offered_task_by_task():
    listing = {segment_file(0, number): 10 for number in (1, 2, 3)} | {segment_file(11, 1): 10}
    offer = Segments(listing, listing, {})
    assert offer.initial() == {"0": 0, "11": 0}
    assert offer.latest({}, None) == {"0": 3, "11": 1}
    assert offer.latest({"0": 1}, 20) == {"0": 2, "11": 1}
    assert names(offer.chunks({"0": 1}, {"0": 3, "11": 1})) == sorted(
        [segment_file(0, 2), segment_file(0, 3), segment_file(11, 1)]
    )
    with pytest.raises(UsageError, match=r"segment 2 of task 11 cannot be read: its file is gone"):
        offer.chunks({"0": 3}, {"0": 3, "11": 2})


def test_segments_that_another_query_has_removed_are_an_error():
    listing = {segment_file(0, 3): 10}
    assert Segments(listing, listing, {"0": 2}).initial() == {"0": 2}
    with pytest.raises(UsageError, match=r"segments of task 0 up to 2 were removed"):
        Segments(listing, listing, {"0": 2}).latest({"0": 1}, None)


def test_small_files_share_a_partition_and_large_ones_have_their_own():
    sizes = [3, 3, 3, 20, 1]
    groups = packed([Chunk(str(index), 1, size) for index, size in enumerate(sizes)], 6)
    assert [[chunk.size for chunk in group] for group in groups] == [[3, 3], [3], [20], [1]]


@pytest.mark.parametrize("seed", range(20))
def test_a_reader_sees_each_transaction_once_and_whole_whatever_the_listings_miss(seed):
    """Tasks publish in commit order, attempts fail at random; listings miss what comes while they are made."""
    chance = random.Random(seed)
    published, number = [], 0  # names, in the order in which they came
    for txid in range(1, 30):
        while True:
            number += 1
            names_of_attempt = list(files((txid, number), tasks=3))
            chance.shuffle(names_of_attempt)
            done = chance.choice([3, 3, chance.randrange(3)])
            published += names_of_attempt[:done]
            if done == 3:
                break
    offset, read, came = {"txid": 0}, [], 0
    while offset["txid"] < 29:
        listings = []
        for _ in range(2):
            before, came = came, min(len(published), came + chance.randrange(1, 6))
            listings.append({name: 10 for name in published[:before]})
            listings[-1] |= {name: 10 for name in published[before:came] if chance.random() < 0.5}
        seen, listing = listings
        end = transactions(listing, seen).latest(offset, chance.choice([None, 60]))
        everything = {name: 10 for name in published[:came]}
        chunks = transactions(everything).chunks(offset, end)
        read += sorted({chunk.txid for chunk in chunks})
        for txid in {chunk.txid for chunk in chunks}:
            mine = [chunk.name for chunk in chunks if chunk.txid == txid]
            assert len(mine) == 3 and len({name.split(".")[2] for name in mine}) == 1
        offset = end
    assert read == list(range(1, 30))


def test_what_a_query_left_when_it_died_while_it_removed_is_not_offered_again():
    """With the trigger availableNow a query asks what there is from the beginning, wherever it goes on."""
    offer = transactions(files((2, 2), (3, 3), without=[(2, 2, 1)]), removed=2)
    assert offer.initial() == {"txid": 2}
    assert latest(offer, start=2) == 3
    assert transactions(files((2, 2)), removed=2).initial() == {"txid": 2}
    listing = {segment_file(0, number): 1 for number in (2, 3)}
    rest = Segments(listing, listing, {"0": 2})
    assert rest.initial() == {"0": 2}
    assert rest.latest(rest.initial(), None) == {"0": 3}
