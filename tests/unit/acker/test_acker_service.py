"""The Acker service by itself: messages go in, replies come out, there is no network between."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from tupletree._daemon.health import Readiness
from tupletree.acker.admission import Admission
from tupletree.acker.registry import Registry
from tupletree.acker.service import AckerService
from tupletree.acker.updates import Batch
from tupletree.v1 import acker_pb2 as pb

LIMIT = 1000


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def within() -> None:
        async with asyncio.timeout(20):
            await scenario()

    asyncio.run(within())


def packed(roots: range) -> bytes:
    return array("Q", roots).tobytes()


def inits(roots: range) -> dict[str, bytes]:
    tasks = array("I", [1] * len(roots)).tobytes()
    return {"init_roots": packed(roots), "init_values": packed(roots), "init_tasks": tasks}


def acks(roots: range) -> dict[str, bytes]:
    return {"ack_roots": packed(roots), "ack_values": packed(roots)}


class Worker:
    """The other end of a stream: ``send`` puts a message, and what the acker says is added up."""

    def __init__(self, service: AckerService, topology: str, name: str = "w1") -> None:
        self.confirmed = self.acked = self.sent = 0
        self.holds: list[bool] = []
        self.changed = asyncio.Event()
        self._requests: asyncio.Queue[pb.TrackRequest | None] = asyncio.Queue()
        hello = pb.TrackHello(topology_id=topology, worker_id=name, tasks=[1], message_timeout_s=30, shards=1)
        self._requests.put_nowait(pb.TrackRequest(hello=hello))
        self.task = asyncio.create_task(self._read(service))

    async def _sent(self) -> AsyncIterator[pb.TrackRequest]:
        while (request := await self._requests.get()) is not None:
            yield request

    async def _read(self, service: AckerService) -> None:
        async for reply in service.Track(self._sent(), None):
            self.confirmed = max(self.confirmed, reply.confirmed)
            self.acked += sum(len(one.acked) // 8 for one in reply.verdicts)
            if reply.hold != (bool(self.holds) and self.holds[-1]):
                self.holds.append(reply.hold)
            self.changed.set()

    def send(self, **update: bytes) -> None:
        self.sent += 1
        updates = pb.LedgerUpdates(sequence=self.sent, shard_version=1, shards=[pb.ShardUpdate(**update)])
        self._requests.put_nowait(pb.TrackRequest(updates=updates))

    def close(self) -> None:
        self._requests.put_nowait(None)

    async def until(self, condition: Callable[[Worker], Any]) -> None:
        while not condition(self):
            self.changed.clear()
            await self.changed.wait()


def raise_failure(error: BaseException) -> None:
    raise error


def service_of(registry: Registry | None = None, fail: Callable[[BaseException], None] = raise_failure) -> AckerService:
    return AckerService("acker-1", registry or Registry(), Admission(LIMIT), Readiness(), fail)


def test_the_acks_of_a_message_make_room_for_its_inits() -> None:
    async def scenario() -> None:
        worker = Worker(service_of(), "a-1")
        worker.send(**inits(range(1, 1201)))
        await worker.until(lambda one: one.confirmed == 1)
        worker.send(**acks(range(1, 1201)), **inits(range(5001, 5002)))
        await worker.until(lambda one: one.confirmed == 2)
        assert worker.acked == 1200
        worker.task.cancel()

    run(scenario)


def test_acks_behind_inits_that_wait_are_applied_and_make_room_for_them() -> None:
    async def scenario() -> None:
        worker = Worker(service_of(), "a-1")
        worker.send(**inits(range(1, 1201)))
        worker.send(**inits(range(5001, 5101)))
        await worker.until(lambda one: one.holds == [True])
        assert worker.confirmed == 1
        for first in range(1, 1201, 2):  # more messages than a worker leaves unconfirmed
            worker.send(**acks(range(first, first + 2)))
        await worker.until(lambda one: one.confirmed == worker.sent and one.holds == [True, False])
        assert worker.acked == 1200
        worker.send(**acks(range(5001, 5101)))
        await worker.until(lambda one: one.acked == 1300)
        worker.task.cancel()

    run(scenario)


def test_a_burst_of_one_topology_does_not_stop_another() -> None:
    async def scenario() -> None:
        service = service_of()
        burst, quiet = Worker(service, "a-1"), Worker(service, "b-1")
        burst.send(**inits(range(1, 1201)))
        burst.send(**inits(range(3001, 3101)))
        await burst.until(lambda one: one.holds == [True])
        assert service.describe().reasons
        for first in range(1, 1001, 100):
            quiet.send(**inits(range(first, first + 100)))
            quiet.send(**acks(range(first, first + 100)))
        await quiet.until(lambda one: one.acked == 1000 and one.confirmed == quiet.sent)
        assert quiet.holds == []
        assert burst.confirmed == 1
        for worker in (burst, quiet):
            worker.task.cancel()

    run(scenario)


def test_a_worker_that_does_not_listen_is_not_read_for_ever() -> None:
    async def scenario() -> None:
        service = service_of()
        worker = Worker(service, "a-1")
        for first in range(1, 500_001, 5_000):
            worker.send(**inits(range(first, first + 5_000)))
        await worker.until(lambda one: one.holds == [True])
        for _ in range(2_000):
            await asyncio.sleep(0)
        assert worker._requests.qsize() > 50
        worker.task.cancel()
        await asyncio.wait({worker.task})
        assert service._admission.waiting == 0

    run(scenario)


def test_a_stream_ends_when_what_waits_has_been_applied() -> None:
    async def scenario() -> None:
        service = service_of()
        worker, other = Worker(service, "a-1"), Worker(service, "a-1", "w2")
        worker.send(**inits(range(1, 1001)))
        worker.send(**inits(range(5001, 5002)))
        worker.close()
        await worker.until(lambda one: one.holds == [True])
        assert not worker.task.done()
        other.send(**acks(range(1, 1001)))
        await worker.task
        assert worker.confirmed == 2
        other.task.cancel()

    run(scenario)


class Exhausted(Registry):
    """Registry for which there is no memory left."""

    def apply(self, stream: int, batch: Batch, now_s: float) -> Any:
        raise MemoryError("no memory for the registry")


def test_updates_that_cannot_be_applied_end_the_acker() -> None:
    async def scenario() -> None:
        failed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        service = service_of(Exhausted(), failed.set_result)
        worker = Worker(service, "a-1")
        worker.send(**inits(range(1, 2)))
        assert isinstance(await failed, MemoryError)
        with pytest.raises(MemoryError):
            await worker.task
        reply = service.describe()
        assert (reply.ready, list(reply.reasons)) == (False, ["ledger: updates could not be applied: MemoryError"])

    run(scenario)
