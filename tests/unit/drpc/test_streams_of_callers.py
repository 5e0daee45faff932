"""A stream of a caller at the server: replies, cancellation, and the retirement of the stream."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tupletree.drpc.requests import Kind
from tupletree.drpc_server.call_stream import CallStream
from tupletree.drpc_server.desk import Desk, ServingTask
from tupletree.drpc_server.function_rights import FunctionRights
from tupletree.errors import ProtocolError
from tupletree.v1 import drpc_pb2 as pb


def call(number: int, function: str = "f", args: bytes = b"1", timeout_s: float = 0.0) -> pb.NumberedCall:
    return pb.NumberedCall(number=number, function=function, args=args, timeout_s=timeout_s)


class Bench:
    """A desk with one stream, whose requests are put into a queue, and one task that serves ``f``."""

    def __init__(self) -> None:
        self.desk = Desk(max_pending=10, timeout_s=60, rights=FunctionRights({}))
        self.task: ServingTask = self.desk.connect("f", "t-1", 100, False)
        self.requests: asyncio.Queue[pb.CallRequest | None] = asyncio.Queue()
        self.stream = CallStream(self.desk, None)
        self.reading = asyncio.create_task(self.stream.read(self._sent()))

    async def _sent(self) -> AsyncIterator[pb.CallRequest]:
        while (request := await self.requests.get()) is not None:
            yield request

    def send(self, *calls: pb.NumberedCall, cancelled: tuple[int, ...] = ()) -> None:
        self.requests.put_nowait(pb.CallRequest(calls=calls, cancelled=cancelled))

    async def answer(self, text: str = "2") -> None:
        """Answer what the task is sent next."""
        news = await self.task.next()
        assert news is not None
        for one in news[0]:
            self.desk.add_result("t-1", one.id, text)
            self.desk.end(self.desk.requests.complete(self.task.number, one.id))


def run(scenario: Any) -> None:
    async def whole() -> None:
        bench = Bench()
        await scenario(bench)
        bench.stream.abandon()
        bench.reading.cancel()
        assert len(bench.desk.requests) == 0

    asyncio.run(whole())


def test_replies_leave_together() -> None:
    async def scenario(bench: Bench) -> None:
        bench.send(call(1), call(4))
        await bench.answer()
        reply = await bench.stream.next()
        assert reply is not None and [(one.number, one.result) for one in reply.replies] == [(1, b"2"), (4, b"2")]

    run(scenario)


def test_what_is_invalid_is_refused_alone() -> None:
    async def scenario(bench: Bench) -> None:
        bench.send(call(1, "a b"), call(2, args=b"\xff"), call(3, timeout_s=math.nan), call(4, timeout_s=-1), call(5))
        await bench.answer()
        reply = await bench.stream.next()
        assert reply is not None
        refusals = {one.number: one.refusal for one in reply.replies if one.HasField("refusal")}
        assert {one.kind for one in refusals.values()} == {pb.DrpcRefusal.KIND_INVALID}
        assert "'a b' must be named by" in refusals[1].reason and "not JSON" in refusals[2].reason
        assert "timeout_s is nan" in refusals[3].reason and "timeout_s is -1" in refusals[4].reason
        assert [one.number for one in reply.replies if one.HasField("result")] == [5]

    run(scenario)


def test_a_cancelled_call_gives_its_place_to_the_next() -> None:
    async def scenario(bench: Bench) -> None:
        task = bench.desk.connect("one-at-a-time", "t-2", 1, False)
        bench.send(call(1, "one-at-a-time"), call(2, "one-at-a-time", b"2"))
        news = await task.next()
        assert news is not None and [one.args for one in news[0]] == ["1"]
        bench.send(cancelled=(1,))
        later = await task.next()
        assert later is not None
        assert [one.args for one in later[0]] == ["2"] and later[1] == [news[0][0].id]

    run(scenario)


def test_lack_of_room_is_a_refusal() -> None:
    async def scenario(bench: Bench) -> None:
        bench.send(*(call(number, "unserved") for number in range(1, 7)))
        reply = await bench.stream.next()
        assert reply is not None
        [one] = reply.replies
        assert one.number == 6 and one.refusal.kind == pb.DrpcRefusal.KIND_OVERLOADED
        assert "call again later" in one.refusal.reason

    run(scenario)


def test_a_cancelled_call_has_no_reply() -> None:
    async def scenario(bench: Bench) -> None:
        bench.send(call(1, "unserved"), call(2))
        bench.send(cancelled=(1, 1, 77))
        await bench.answer()
        reply = await bench.stream.next()
        assert reply is not None and [one.number for one in reply.replies] == [2]
        assert bench.desk.ended["other", Kind.CANCELLED] == 1

    run(scenario)


def test_a_retired_stream_tells_what_it_has_read_and_ends_with_its_calls() -> None:
    async def scenario(bench: Bench) -> None:
        bench.send(call(1), call(2, "unserved"))
        await bench.answer()
        bench.stream.retire()
        bench.send(call(3))
        reply = await bench.stream.next()
        assert reply is not None and [one.number for one in reply.replies] == [1] and reply.read_until == 2
        assert len(bench.desk.requests) == 1  # call 3 was not begun, the caller makes it elsewhere
        bench.send(cancelled=(2,))  # is still read
        assert await bench.stream.next() is None

    run(scenario)


def test_a_retired_stream_without_calls_says_so_and_ends() -> None:
    async def scenario(bench: Bench) -> None:
        bench.stream.retire()
        reply = await bench.stream.next()
        assert reply is not None and reply.HasField("read_until") and reply.read_until == 0
        assert await bench.stream.next() is None

    run(scenario)


def test_a_caller_that_begins_no_more_gets_its_replies() -> None:
    async def scenario(bench: Bench) -> None:
        bench.send(call(1))
        bench.requests.put_nowait(None)
        await bench.reading
        await bench.answer()
        reply = await bench.stream.next()
        assert reply is not None and [one.number for one in reply.replies] == [1]
        assert await bench.stream.next() is None

    run(scenario)


@pytest.mark.parametrize(
    ("calls", "why"),
    [
        ([call(0)], r"call 0 follows call 0, expected a higher number"),
        ([call(2), call(2)], r"call 2 follows call 2"),
        ([call(2), call(1)], r"call 1 follows call 2"),
        ([call(number) for number in range(1, 1002)], r"a message has 1001 calls, expected at most 1000"),
    ],
)
def test_rubbish_breaks_the_stream(calls: list[pb.NumberedCall], why: str) -> None:
    async def scenario(bench: Bench) -> None:
        bench.send(*calls)
        with pytest.raises(ProtocolError, match=why):
            await bench.reading
        while await bench.stream.next() is not None:
            pass

    run(scenario)


def test_a_stream_whose_replies_are_not_read_is_not_read() -> None:
    async def scenario(bench: Bench) -> None:
        for message in range(30):
            bench.send(*(call(1000 * message + number, "a b") for number in range(1, 1001)))
        while len(bench.stream._replies) <= 10_000:
            await asyncio.sleep(0)
        for _ in range(10):
            await asyncio.sleep(0)
        assert len(bench.stream._replies) == 11_000 and bench.requests.qsize() == 19
        seen = 0
        while seen < 30_000:
            reply = await bench.stream.next()
            assert reply is not None
            seen += len(reply.replies)

    run(scenario)


def test_an_answer_that_fits_no_message_fails() -> None:
    async def scenario(bench: Bench) -> None:
        bench.send(call(1))
        await bench.answer('"' + 48 * 1024 * 1024 * "x" + '"')
        reply = await bench.stream.next()
        assert reply is not None
        [one] = reply.replies
        assert one.failure.kind == pb.DrpcFailure.KIND_FAILED and "bytes that fit" in one.failure.reason
        news = await bench.task.next()
        assert news is not None and len(news[1]) == 1  # the task is told that the request has ended

    run(scenario)
