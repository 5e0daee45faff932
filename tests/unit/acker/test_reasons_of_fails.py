"""The reasons of failed trees pass an acker with the verdicts."""

from __future__ import annotations

import asyncio
from array import array
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tupletree._wire.fail_reasons import MAX_BYTES, MAX_WAITING_BYTES
from tupletree._wire.packed import pack_u32
from tupletree._wire.reason_messages import packed, unpacked
from tupletree.acker.registry import Registry
from tupletree.acker.track_stream import TrackStream
from tupletree.acker.updates import Batch, Hello, check_updates
from tupletree.acker.verdicts import Verdicts
from tupletree.errors import ProtocolError
from tupletree.v1 import acker_pb2 as pb

HELLO = Hello("wc-1", "w1", frozenset({1, 2}), 30.0, 4)


def batch(inits: Any = (), fails: Any = (), reasons: Any = None) -> Batch:
    none = array("Q")
    roots = array("Q", [root for root, _ in inits])
    tasks = array("I", [task for _, task in inits])
    return Batch(0, roots, array("Q", [5] * len(roots)), tasks, none, none, array("Q", fails), none, reasons or {})


def reasons_of(addressed: list[tuple[int, Verdicts]]) -> list[tuple[int, dict[int, bytes] | None]]:
    return [(stream, verdicts.reasons) for stream, verdicts in addressed]


def test_a_reason_goes_with_the_verdict_to_the_spouts_worker() -> None:
    registry = Registry()
    spouts = registry.open(HELLO, 0.0)
    bolts = registry.open(Hello("wc-1", "w2", frozenset(), 30.0, 4), 0.0)
    registry.apply(spouts, batch(inits=[(10, 1), (11, 2)]), 0.0)
    addressed = registry.apply(bolts, batch(fails=[10, 11], reasons={10: b"no"}), 0.0)
    assert reasons_of(addressed) == [(spouts, {10: b"no"})]
    assert dict(addressed)[spouts].failed == {1: array("Q", [10]), 2: array("Q", [11])}


def test_a_reason_waits_for_the_init_of_its_tree() -> None:
    registry = Registry()
    stream = registry.open(HELLO, 0.0)
    assert registry.apply(stream, batch(fails=[10], reasons={10: b"no"}), 0.0) == []
    assert reasons_of(registry.apply(stream, batch(inits=[(10, 1)]), 0.0)) == [(stream, {10: b"no"})]


def test_the_parts_of_a_batch_carry_its_reasons_once() -> None:
    parts = list(batch(fails=range(1, 11), reasons={9: b"no"}).parts(4))
    assert [part.fail_reasons for part in parts] == [{9: b"no"}, {}, {}]
    whole = batch(inits=[(1, 1)], fails=[2], reasons={2: b"no"})
    assert (whole.inits().fail_reasons, whole.others().fail_reasons) == ({}, {2: b"no"})


def test_a_reason_is_in_the_reply_with_its_verdict() -> None:
    async def scenario() -> Any:
        stream = TrackStream(HELLO, 1)
        stream.put(Verdicts(failed={1: array("Q", [10, 11])}, acked={2: array("Q", [12])}, reasons={11: b"no"}))
        return await stream.next_reply()

    reply = asyncio.run(scenario())
    assert {verdicts.task: unpacked(verdicts.reasons) for verdicts in reply.verdicts} == {1: {11: b"no"}, 2: {}}


def test_a_long_reason_is_refused() -> None:
    update = pb.ShardUpdate(fail_roots=bytes(8), fail_reasons=packed([{0: bytes(MAX_BYTES)}]))
    [checked] = check_updates(pb.TrackRequest(updates=pb.LedgerUpdates(sequence=1, shards=[update])), HELLO, 1)
    assert checked.fail_reasons == {0: bytes(MAX_BYTES)}
    update.fail_reasons.reasons[0] += b"!"
    with pytest.raises(ProtocolError, match="updates for shard 0: a fail reason has more than 4096 bytes"):
        check_updates(pb.TrackRequest(updates=pb.LedgerUpdates(sequence=1, shards=[update])), HELLO, 1)


def test_columns_of_reasons_that_do_not_fit_are_refused() -> None:
    update = pb.ShardUpdate(fail_roots=bytes(8), fail_reasons=packed([{0: b"no"}]))
    update.fail_reasons.which = pack_u32([1])
    with pytest.raises(ProtocolError, match="updates for shard 0: fail reason 1 of 1"):
        check_updates(pb.TrackRequest(updates=pb.LedgerUpdates(sequence=1, shards=[update])), HELLO, 1)
    update.fail_reasons.which = b""
    with pytest.raises(ProtocolError, match="updates for shard 0: 1 roots of fail reasons, but 0 numbers of reasons"):
        check_updates(pb.TrackRequest(updates=pb.LedgerUpdates(sequence=1, shards=[update])), HELLO, 1)


@given(st.lists(st.dictionaries(st.integers(0, 2**64 - 1), st.sampled_from([b"", b"no", b"late"])), max_size=3))
def test_reasons_travel_as_columns(several: list[dict[int, bytes]]) -> None:
    together = {root: reason for reasons in several for root, reason in reasons.items()}
    message = packed([together])
    assert (unpacked(message) if message is not None else {}) == together
    assert message is None or len(message.reasons) == len(set(together.values()))


def test_of_very_many_different_reasons_a_message_has_the_first() -> None:
    long = {root: b"%06d" % (root // 2) * 100 for root in range(20_000)}  # each reason twice
    message = packed([long, {99_999: long[7]}])
    assert message is not None
    assert MAX_WAITING_BYTES - 600 < sum(map(len, message.reasons)) <= MAX_WAITING_BYTES
    kept = unpacked(message)
    assert kept == {root: reason for root, reason in long.items() if root in kept} | {99_999: long[7]}
    assert sorted(kept) == [*range(len(kept) - 1), 99_999]
