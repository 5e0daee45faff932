"""Fast failover: detects the death of the leading nimbus without waiting for its session to time out.

Every other nimbus holds a health Watch stream open to the front of the election. When the stream breaks and the next
connection is refused, no process listens there any more: the candidate node is removed, and the next in the queue takes
over at once. Only a refused connection counts. An unreachable peer can be alive behind a broken network, and is left to
ZooKeeper's session timeout. A mistake would cost one election, nothing else: a leader's writes are fenced by its epoch.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tupletree._coord.leader import Front
from tupletree._log import event
from tupletree._rpc.channels import aio_channel
from tupletree._rpc.status import transport_failure
from tupletree.errors import TupletreeError

log = logging.getLogger("tupletree.nimbus")

_PAUSE_S = 0.1
_RETRY_S = 1.0


class LeaderWatch:
    """Watches the front of the election while another nimbus is there."""

    def __init__(self, own_address: str, unseat: Callable[[Front], Awaitable[None]]) -> None:
        self._own_address = own_address
        self._unseat = unseat
        self._front: Front | None = None
        self._task: asyncio.Task[None] | None = None

    def watch(self, front: Front | None) -> None:
        """Watch ``front``, the front of the election now."""
        if front == self._front:
            return
        self._front = front
        if self._task is not None:
            self._task.cancel()
            self._task = None
        if front is not None and not front.is_me:
            self._task = asyncio.create_task(self._probe(front))

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _probe(self, front: Front) -> None:
        while True:
            try:
                if front.address == self._own_address or await self._is_gone(front.address):
                    await self._unseat(front)
                    return
            except TupletreeError as error:  # of ZooKeeper, or a certificate that is being replaced cannot be read
                event(log, "leader.not_unseated", level=logging.WARNING, address=front.address, cause=error)
            await asyncio.sleep(_RETRY_S)

    async def _is_gone(self, address: str) -> bool:
        """Wait until no health stream to a nimbus can be opened. True if the nimbus's port refuses connections."""
        request = health_pb2.HealthCheckRequest(service="")
        heard = True
        while heard:
            heard = False
            async with aio_channel(address) as channel:
                try:
                    async for _ in health_pb2_grpc.HealthStub(channel).Watch(request):
                        heard = True
                except grpc.aio.AioRpcError as error:
                    if not heard:
                        return transport_failure(error.details() or "") == "connection refused"
            await asyncio.sleep(_PAUSE_S)
        return False
