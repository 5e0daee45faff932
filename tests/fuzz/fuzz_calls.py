"""Sends odd inputs to every method of a gRPC service, many at a time, and says what was wrong with the answers."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio
from fuzz_messages import Words, make_message, mutated
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor

from tupletree._rpc.channels import aio_channel
from tupletree._rpc.status import transport_failure

INPUTS = int(os.environ.get("FUZZ_INPUTS", "20000"))
"""How many calls and requests in all; each test has its share."""
ODD_INPUTS = INPUTS if INPUTS >= 100_000 else INPUTS // 8
"""How many odd values, submissions and arguments in all, beside these: most of them take longer."""
PARTS = 8
"""Between which memory is looked at."""

Code = grpc.StatusCode
AT_ONCE = 32
DEADLINE_S = 20.0
FOLLOW_S = 0.3  # calls that are meant to go on forever are ended by us
UNDUE = frozenset({Code.INTERNAL, Code.UNKNOWN, Code.DEADLINE_EXCEEDED, Code.CANCELLED, Code.UNAUTHENTICATED})
MAX_SENTENCE_LENGTH = 2000
LARGE_BYTES = 512 * 1024
OWN_WORDS = "Internal error from Core"
"""What our own side says in place of the status when the peer ended a stream that was being written."""


@dataclass
class Outcome:
    """What came of many inputs: how many, how they ended, and up to a few faults in words."""

    inputs: int = 0
    codes: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def fault(self, sentence: str) -> None:
        if len(self.faults) < 8:
            self.faults.append(sentence)


class CallFuzzer:
    """Inputs for one service at one address."""

    def __init__(self, address: str, service: ServiceDescriptor, words: Words, rng: random.Random) -> None:
        self._address = address
        self._methods: Sequence[MethodDescriptor] = list(service.methods)
        self._service = service.full_name
        self._large: list[tuple[MethodDescriptor, list[bytes]]] = []
        self._words = words
        self._rng = rng

    async def run(self, inputs: int, outcome: Outcome) -> None:
        """Send so many inputs, every method in turn."""
        await self._send(itertools.islice(self._inputs(), inputs), outcome)

    async def run_large(self, outcome: Outcome) -> int:
        """Send those inputs that were put aside because they are large; how many that is."""
        large, self._large = self._large, []
        await self._send(large, outcome)
        return len(large)

    def _inputs(self) -> Iterator[tuple[MethodDescriptor, list[bytes]]]:
        """Inputs for every method in turn. Of large ones the allocator keeps some megabytes, whenever they come: they
        are put aside, so that stretches can be compared."""
        for method in itertools.cycle(self._methods):
            while sum(map(len, requests := self._requests(method))) > LARGE_BYTES:
                self._large.append((method, requests))
            yield method, requests

    async def _send(self, inputs: Iterable[tuple[MethodDescriptor, list[bytes]]], outcome: Outcome) -> None:
        async with aio_channel(self._address) as channel:
            gate = asyncio.Semaphore(AT_ONCE)
            running: set[asyncio.Task[None]] = set()
            for method, requests in inputs:
                await gate.acquire()
                task = asyncio.create_task(self._call(channel, method, requests, outcome))
                running.add(task)
                task.add_done_callback(lambda done: (running.discard(done), gate.release()))
            if running:
                await asyncio.wait(running)

    def _requests(self, method: MethodDescriptor) -> list[bytes]:
        """One input: the bytes of one request, or of the few of a stream."""
        rng, words = self._rng, self._words
        if method.name == "Kill":
            words = {**words, "name": []}  # there must be somebody left to describe
        count = rng.randint(1, 4) if method.client_streaming else 1
        made = []
        for number in range(count):
            message = make_message(method.input_type, rng, words)
            kinds = method.input_type.oneofs_by_name.get("kind")
            if kinds is not None and rng.random() < 0.8:  # a stream's first kind opens it
                wanted = kinds.fields[min(number, 1)]
                message.Clear()
                if wanted.message_type is None:
                    setattr(message, wanted.name, rng.randbytes(100))
                else:
                    getattr(message, wanted.name).CopyFrom(make_message(wanted.message_type, rng, words))
            data = message.SerializeToString()
            kind = rng.random()
            made.append(data if kind < 0.5 else mutated(data, rng) if kind < 0.9 else rng.randbytes(rng.randrange(300)))
        return made

    async def _call(
        self, channel: grpc.aio.Channel, method: MethodDescriptor, requests: list[bytes], outcome: Outcome
    ) -> None:
        path = f"/{self._service}/{method.name}"
        deadline_s = DEADLINE_S
        if not method.client_streaming and method.server_streaming and b"\x28\x01" in requests[0]:
            deadline_s = FOLLOW_S  # `follow`
        code, details = await ask(channel, method, path, requests, deadline_s)
        outcome.inputs += 1
        outcome.codes[f"{method.name} {code.name}"] += 1
        if (code is Code.DEADLINE_EXCEEDED and deadline_s == FOLLOW_S) or details == OWN_WORDS:
            return
        if code in UNDUE or (code is Code.UNAVAILABLE and transport_failure(details)):
            outcome.fault(f"{method.name}: {code.name} {details[:300]!r} for {[one[:60] for one in requests]}")
        if "Traceback" in details or 'File "' in details or len(details) > MAX_SENTENCE_LENGTH:
            outcome.fault(f"{method.name}: said {details[:300]!r}")


async def ask(
    channel: grpc.aio.Channel, method: MethodDescriptor, path: str, requests: list[bytes], deadline_s: float
) -> tuple[Code, str]:
    """Make one call of any kind with these bytes and read it to its end."""

    async def stream() -> AsyncIterator[bytes]:
        for request in requests:
            yield request

    call: Any
    try:
        if method.server_streaming:
            if method.client_streaming:
                call = channel.stream_stream(path)(stream(), timeout=deadline_s)
            else:
                call = channel.unary_stream(path)(requests[0], timeout=deadline_s)
            async for _ in call:
                pass
            return await call.code(), await call.details() or ""
        if method.client_streaming:
            call = channel.stream_unary(path)(stream(), timeout=deadline_s)
        else:
            call = channel.unary_unary(path)(requests[0], timeout=deadline_s)
        await call
        return Code.OK, ""
    except grpc.aio.AioRpcError as error:
        return error.code(), error.details() or ""
    except asyncio.CancelledError:
        return await call.code(), await call.details() or ""
