"""Calls from nimbus to other daemons.

All calls except an operator's restart of a worker are hints or are repeated: a peer that does not answer is logged
and skipped.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Coroutine, Iterable, Iterator
from typing import Any

import grpc
import grpc.aio

from tupletree import _address
from tupletree._log import event
from tupletree._rpc.channels import aio_channel
from tupletree._rpc.status import from_rpc_error
from tupletree.errors import TupletreeError
from tupletree.v1 import acker_pb2, supervisor_pb2
from tupletree.v1.acker_pb2_grpc import AckerStub
from tupletree.v1.supervisor_pb2_grpc import SupervisorStub
from tupletree.v1.topology_pb2 import Presence

log = logging.getLogger("tupletree.nimbus")

_WAKE_TIMEOUT_S = 2.0
_DROP_TIMEOUT_S = 5.0
_RESTART_TIMEOUT_S = 10.0


def address_of(presence: Presence) -> str:
    """Return the gRPC address of a registered process."""
    return _address.address_of(presence.host, presence.grpc_port)


class Peers:
    """gRPC channels to supervisors and ackers, one per address."""

    def __init__(self) -> None:
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._calls: set[asyncio.Task[None]] = set()

    def wake_supervisors(self, addresses: Iterable[str], epoch: int) -> None:
        """Tell supervisors to read their assignments now. Returns at once."""
        for address in addresses:
            request = supervisor_pb2.WakeRequest(epoch=epoch)
            with _hinting("supervisor.unwoken", address):
                stub = SupervisorStub(self._channel(address))
                self._start(self._call(stub.Wake(request, timeout=_WAKE_TIMEOUT_S), "supervisor.unwoken", address))

    def drop_topology(self, addresses: Iterable[str], epoch: int, topology_id: str) -> None:
        """Tell ackers to drop a removed topology. Returns at once."""
        for address in addresses:
            request = acker_pb2.DropTopologyRequest(epoch=epoch, topology_id=topology_id)
            with _hinting("acker.undropped", address):
                stub = AckerStub(self._channel(address))
                self._start(self._call(stub.DropTopology(request, timeout=_DROP_TIMEOUT_S), "acker.undropped", address))

    def supervisor(self, address: str) -> SupervisorStub:
        """Return a stub for read-only requests to a supervisor."""
        return SupervisorStub(self._channel(address))

    async def restart_worker(self, address: str, epoch: int, topology_id: str, port: int) -> None:
        """Tell a supervisor to restart a worker, and wait for the reply. Raises the supervisor's error."""
        stub = SupervisorStub(self._channel(address))
        request = supervisor_pb2.RestartWorkerRequest(epoch=epoch, port=port, topology_id=topology_id)
        try:
            await stub.RestartWorker(request, timeout=_RESTART_TIMEOUT_S)
        except grpc.aio.AioRpcError as error:
            raise from_rpc_error(error, f"supervisor at {address}") from None

    async def close(self) -> None:
        for call in self._calls:
            call.cancel()
        await asyncio.gather(*(channel.close() for channel in self._channels.values()))

    def keep_only(self, addresses: set[str]) -> None:
        """Close the channels to all other addresses."""
        for address in self._channels.keys() - addresses:
            self._start(self._close(self._channels.pop(address)))

    def _channel(self, address: str) -> grpc.aio.Channel:
        if address not in self._channels:
            self._channels[address] = aio_channel(address)
        return self._channels[address]

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)

    async def _call(self, call: Any, failure: str, address: str) -> None:
        try:
            await call
        except grpc.aio.AioRpcError as error:
            event(log, failure, level=logging.DEBUG, address=address, cause=error.details())

    async def _close(self, channel: grpc.aio.Channel) -> None:
        await channel.close(_WAKE_TIMEOUT_S)


@contextlib.contextmanager
def _hinting(failure: str, address: str) -> Iterator[None]:
    """Log that a hint cannot be sent, such as while a certificate that is being replaced cannot be read."""
    try:
        yield
    except TupletreeError as error:
        event(log, failure, level=logging.DEBUG, address=address, cause=error)
