"""The stream of a worker's reports to the leading nimbus.

    worker                                       nimbus
      |== all tasks =============================> |
      | <============ takes_changes, next_after_s = |
      |== only_changes: the tasks with news ======> |
      | <================================ wants_all = |   it has forgotten the worker, or never knew it
      |== all tasks =============================> |

A nimbus of an earlier version does not say that it takes changes, and gets all tasks in each report.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

import grpc
import grpc.aio

from tupletree._rpc.channels import aio_channel
from tupletree.errors import TupletreeError, UnavailableError
from tupletree.v1 import nimbus_pb2, nimbus_pb2_grpc

DEADLINE_S: Final = 2.0
MAX_PAUSE_S: Final = 10.0
"""The longest pause between two reports that a worker lets nimbus ask for."""

REPORT_ERRORS: Final = (grpc.aio.AioRpcError, asyncio.InvalidStateError, TimeoutError, TupletreeError)
"""The errors of ``ReportStream.report``."""


class ReportStream:
    """A stream of reports to one nimbus. After an error, close it and open another."""

    def __init__(self, address: str) -> None:
        self._channel = aio_channel(address)
        self._stream = nimbus_pb2_grpc.NimbusStub(self._channel).ReportWorker()
        self._answered: dict[int, bytes] | None = None  # the tasks that nimbus knows; None: send all

    async def report(self, report: nimbus_pb2.WorkerReport) -> float:
        """Send a complete report, without the tasks that nimbus knows already, and wait for the reply.

        Return the seconds for which nimbus needs no further report. Raises one of ``REPORT_ERRORS``.
        """
        tasks = {one.task_id: one.SerializeToString() for one in report.tasks}
        if self._answered is not None:
            leave_out_known(report, tasks, self._answered)
        async with asyncio.timeout(DEADLINE_S):
            await self._stream.write(report)
            reply = await self._stream.read()
        if not isinstance(reply, nimbus_pb2.WorkerReportReply):  # EOF
            raise UnavailableError("nimbus closed the stream of reports")
        self._answered = tasks if reply.takes_changes and not reply.wants_all else None
        return min(MAX_PAUSE_S, max(0.0, reply.next_after_s))

    async def close(self) -> None:
        await self._channel.close()


def leave_out_known(report: nimbus_pb2.WorkerReport, tasks: Mapping[int, bytes], known: Mapping[int, bytes]) -> None:
    """Reduce a complete report to the tasks that are not as ``known``. ``tasks``: all of them, encoded, by id."""
    changed = [one for one in report.tasks if tasks[one.task_id] != known.get(one.task_id)]
    report.only_changes = True
    del report.tasks[:]
    report.tasks.extend(changed)
