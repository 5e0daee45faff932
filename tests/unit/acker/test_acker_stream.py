"""One Track stream: what is packed into a reply, and how a stream ends."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Awaitable, Callable

import pytest

from tupletree.acker import track_stream as stream_module
from tupletree.acker.ledger import Verdicts
from tupletree.acker.track_stream import TrackStream
from tupletree.acker.updates import Hello
from tupletree.errors import ProtocolError, UnavailableError
from tupletree.v1 import acker_pb2 as pb


def run(scenario: Callable[[TrackStream], Awaitable[None]]) -> None:
    async def within() -> None:
        async with asyncio.timeout(10):
            await scenario(TrackStream(Hello("wc-1", "w1", frozenset({1, 2}), 30.0, 1), 1))

    asyncio.run(within())


def packed(*roots: int) -> bytes:
    return array("Q", roots).tobytes()


async def reply_of(stream: TrackStream) -> pb.TrackReply:
    reply: pb.TrackReply | None = await stream.next_reply()
    assert reply is not None
    return reply


def test_verdicts_and_confirmation_go_together_grouped_by_task() -> None:
    async def scenario(stream: TrackStream) -> None:
        stream.put(Verdicts(acked={1: array("Q", [10])}, failed={2: array("Q", [20])}))
        stream.put(Verdicts(acked={1: array("Q", [11])}, expired={1: array("Q", [12])}, reset={2: array("Q", [21])}))
        assert stream.waiting == 5
        stream.confirm(3)
        reply = await reply_of(stream)
        assert reply.confirmed == 3
        assert list(reply.verdicts) == [
            pb.Verdicts(task=1, acked=packed(10, 11), expired=packed(12)),
            pb.Verdicts(task=2, failed=packed(20), reset=packed(21)),
        ]
        assert stream.waiting == 0

    run(scenario)


def test_a_confirmation_goes_alone_and_once() -> None:
    async def scenario(stream: TrackStream) -> None:
        stream.confirm(1)
        assert (await reply_of(stream)).confirmed == 1
        waiting = asyncio.ensure_future(stream.next_reply())
        await asyncio.sleep(0)
        assert not waiting.done()
        stream.confirm(2)
        reply = await waiting
        assert reply is not None
        assert reply.confirmed == 2

    run(scenario)


def test_a_confirmation_that_has_no_verdicts_waits_for_others_and_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_module, "CONFIRM_INTERVAL_S", 0.2)

    async def scenario(stream: TrackStream) -> None:
        stream.confirm(1)
        await reply_of(stream)
        waiting = asyncio.ensure_future(stream.next_reply())
        for sequence in (2, 3):
            stream.confirm(sequence)
            await asyncio.sleep(0)
        assert not waiting.done()
        reply = await waiting
        assert reply is not None
        assert reply.confirmed == 3

    run(scenario)


def test_many_verdicts_are_followed_by_a_longer_rest_in_which_others_gather(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_module, "BUSY_INTERVAL_S", 0.2)

    async def scenario(stream: TrackStream) -> None:
        stream.put(Verdicts(acked={1: array("Q", range(1000))}))
        await reply_of(stream)
        stream.put(Verdicts(acked={1: array("Q", [10])}))
        waiting = asyncio.ensure_future(stream.next_reply())
        for _ in range(5):
            await asyncio.sleep(0)
        stream.put(Verdicts(acked={1: array("Q", [11])}))
        reply = await waiting
        assert reply is not None
        assert [verdicts.acked for verdicts in reply.verdicts] == [packed(10, 11)]

    run(scenario)


def test_verdicts_do_not_wait_with_a_confirmation_nor_does_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_module, "CONFIRM_INTERVAL_S", 1e6)

    async def scenario(stream: TrackStream) -> None:
        stream.confirm(1)
        await reply_of(stream)
        waiting = asyncio.ensure_future(stream.next_reply())
        stream.confirm(2)
        await asyncio.sleep(0)
        stream.put(Verdicts(acked={1: array("Q", [10])}))
        reply = await waiting
        assert reply is not None
        assert (reply.confirmed, reply.verdicts[0].acked) == (2, packed(10))
        waiting = asyncio.ensure_future(stream.next_reply())
        stream.confirm(3)
        await asyncio.sleep(0)
        stream.end(None)
        reply = await waiting
        assert reply is not None
        assert reply.confirmed == 3
        assert await stream.next_reply() is None

    run(scenario)


def test_replies_under_load_are_bounded_in_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_module, "_ROOTS_PER_REPLY", 4)

    async def scenario(stream: TrackStream) -> None:
        for root in range(5):
            stream.put(Verdicts(acked={1: array("Q", [root, root])}))
        stream.end(None)
        sizes = []
        while (reply := await stream.next_reply()) is not None:
            sizes.append(len(reply.verdicts[0].acked) // 8)
        assert sizes == [4, 4, 2]

    run(scenario)


def test_a_proper_end_delivers_what_was_put_before() -> None:
    async def scenario(stream: TrackStream) -> None:
        stream.put(Verdicts(acked={1: array("Q", [10])}))
        stream.end(None)
        assert (await reply_of(stream)).verdicts[0].acked == packed(10)
        assert await stream.next_reply() is None

    run(scenario)


def test_an_error_ends_the_stream_at_once_and_the_first_end_decides() -> None:
    async def scenario(stream: TrackStream) -> None:
        stream.put(Verdicts(acked={1: array("Q", [10])}))
        stream.end(ProtocolError("nonsense"))
        stream.end(None)
        with pytest.raises(ProtocolError, match="nonsense"):
            await stream.next_reply()

    run(scenario)


def test_a_worker_that_takes_no_verdicts_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_module, "MAX_WAITING", 10)

    async def scenario(stream: TrackStream) -> None:
        stream.put(Verdicts(reset={1: array("Q", range(11))}))
        with pytest.raises(UnavailableError, match="w1 does not read its verdicts"):
            await stream.next_reply()

    run(scenario)


def test_a_worker_that_writes_on_does_not_keep_an_ended_stream_from_its_end() -> None:
    async def scenario(stream: TrackStream) -> None:
        stream.put(Verdicts(acked={1: array("Q", [10])}))
        stream.confirm(1)
        stream.end(None)
        stream.put(Verdicts(acked={1: array("Q", [11])}))
        stream.confirm(2)
        reply = await reply_of(stream)
        assert (reply.confirmed, reply.verdicts[0].acked) == (1, packed(10))
        assert await stream.next_reply() is None

    run(scenario)


def test_where_trees_take_long_a_reply_says_so_and_the_next_one_waits() -> None:
    async def scenario(stream: TrackStream) -> None:
        stream.update_linger(0, 0, 0.0)
        stream.update_linger(5_000, 50_000, 1.0)  # trees take 100 ms
        stream.put(Verdicts(acked={1: array("Q", range(1, 1_001))}))
        assert (await reply_of(stream)).linger_us == 12_500
        assert stream._interval_s == 0.0125
        stream.put(Verdicts(acked={1: array("Q", [1])}))
        assert (await reply_of(stream)).linger_us == 12_500
        assert stream._interval_s == stream_module.REPLY_INTERVAL_S

    run(scenario)
