"""A worker's stream of reports to nimbuses of this version and of an earlier one."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tupletree._rpc.server import start_server
from tupletree.nimbus.leader.leader_state import LeaderState
from tupletree.nimbus.leader.scheduler import Slot
from tupletree.v1 import nimbus_pb2 as rpc
from tupletree.v1.nimbus_pb2_grpc import NimbusServicer, add_NimbusServicer_to_server
from tupletree.worker.reporting.report_stream import MAX_PAUSE_S, REPORT_ERRORS, ReportStream

Answer = Callable[[rpc.WorkerReport], rpc.WorkerReportReply | None]


class Nimbus(NimbusServicer):
    """The end of the streams, which keeps what arrives. ``answer`` None: the stream ends."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.named: list[list[int]] = []

    async def ReportWorker(
        self, request_iterator: AsyncIterator[rpc.WorkerReport], context: Any
    ) -> AsyncIterator[rpc.WorkerReportReply]:
        async for report in request_iterator:
            self.named.append([one.task_id for one in report.tasks])
            reply = self.answer(report)
            if reply is None:
                return
            yield reply


def report(*executed: int) -> rpc.WorkerReport:
    tasks = [rpc.TaskStats(task_id=number, component_id="c", executed=one) for number, one in enumerate(executed, 1)]
    return rpc.WorkerReport(topology_id="t", worker_id="w", supervisor_id="s", port=1, tasks=tasks)


async def exchange(nimbus: Nimbus, *reports: rpc.WorkerReport) -> list[float]:
    """Send the reports on one stream; return the pauses asked for."""
    server = await start_server([functools.partial(add_NimbusServicer_to_server, nimbus)], "127.0.0.1", 0)
    stream = ReportStream(f"127.0.0.1:{server.port}")
    try:
        return [await stream.report(one) for one in reports]
    finally:
        await stream.close()
        await server.stop()


def test_a_leader_gets_what_has_changed_and_all_tasks_once_it_has_forgotten_the_worker() -> None:
    def leader() -> LeaderState:
        made = LeaderState(1, 30, 120, 0.0)
        made.assigned({"t": {Slot("s", 1): ((1, 2),)}}, {"t"}, 0.0)
        return made

    leaders = iter([leader(), None, None, leader(), None])
    current: list[LeaderState] = []

    def answer(arrived: rpc.WorkerReport) -> rpc.WorkerReportReply:
        current.extend(one for one in [next(leaders)] if one is not None)
        return rpc.WorkerReportReply(takes_changes=True, wants_all=not current[-1].report(arrived, 1.0))

    nimbus = Nimbus(answer)
    asyncio.run(exchange(nimbus, report(1, 1), report(1, 2), report(1, 2), report(1, 2), report(1, 3)))
    assert nimbus.named == [[1, 2], [2], [], [], [1, 2]]
    assert current[-1].statistics("t").component("c").executed == 4


def test_a_nimbus_of_an_earlier_version_gets_all_tasks() -> None:
    nimbus = Nimbus(lambda _: rpc.WorkerReportReply(epoch=1))
    assert asyncio.run(exchange(nimbus, report(1, 1), report(1, 1), report(1, 2))) == [0, 0, 0]
    assert nimbus.named == [[1, 2]] * 3


def test_the_pause_that_nimbus_asks_for_is_bounded() -> None:
    nimbus = Nimbus(lambda _: rpc.WorkerReportReply(next_after_s=1e9))
    assert asyncio.run(exchange(nimbus, report(1))) == [MAX_PAUSE_S]


def test_the_end_of_the_stream_is_an_error() -> None:
    with pytest.raises(REPORT_ERRORS):
        asyncio.run(exchange(Nimbus(lambda _: None), report(1)))
