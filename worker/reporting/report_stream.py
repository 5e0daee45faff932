"""The stream of a worker's reports to the leading nimbus."""

from __future__ import annotations

import asyncio
from typing import Final

import grpc
import grpc.aio

from tupletree._rpc.channels import aio_channel
from tupletree.errors import TupletreeError, UnavailableError
from tupletree.v1 import nimbus_pb2, nimbus_pb2_grpc

DEADLINE_S: Final = 2.0

REPORT_ERRORS: Final = (grpc.aio.AioRpcError, asyncio.InvalidStateError, TimeoutError, TupletreeError)
"""The errors of ``ReportStream.report``."""


class ReportStream:
    """A stream of reports to one nimbus. After an error, close it and open another."""

    def __init__(self, address: str) -> None:
        self._channel = aio_channel(address)
        self._stream = nimbus_pb2_grpc.NimbusStub(self._channel).ReportWorker()

    async def report(self, report: nimbus_pb2.WorkerReport) -> None:
        """Send a report and wait for the reply of nimbus. Raises one of ``REPORT_ERRORS`` otherwise."""
        async with asyncio.timeout(DEADLINE_S):
            await self._stream.write(report)
            if await self._stream.read() is grpc.aio.EOF:
                raise UnavailableError("nimbus closed the stream of reports")

    async def close(self) -> None:
        await self._channel.close()
