"""Cache of the slots of all supervisors. Each supervisor is asked at most every two seconds, and only on demand.

A supervisor that hangs delays a request only briefly: its last answer is used until the new answer arrives.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import grpc.aio

from tupletree._rpc.status import from_rpc_error
from tupletree.v1 import supervisor_pb2
from tupletree.v1.topology_pb2 import Presence

from .leader.reconciler import Reconciler
from .rpc_clients import address_of

_FRESH_S: Final = 2.0
_KNOWN_S: Final = 10.0  # maximum age of an answer that may be used while the next is awaited
_PATIENCE_S: Final = 0.5  # wait for a supervisor whose last answer can be used
_CALL_S: Final = 3.0

Answer = supervisor_pb2.ListSlotsReply | str  # slots, or the reason for no answer


@dataclass(frozen=True)
class _Said:
    at_s: float
    answer: Answer


class SlotCache:
    """The last answer of each supervisor: its slots, or why it gave none. Used only in the event loop's thread."""

    def __init__(self) -> None:
        self._said: dict[str, _Said] = {}
        self._asking: dict[str, asyncio.Task[None]] = {}

    async def of(self, reconciler: Reconciler, supervisors: Mapping[str, Presence]) -> dict[str, Answer]:
        """Return the slots of the given supervisors, or the reason for no answer, by supervisor id."""
        self._said = {one: said for one, said in self._said.items() if one in supervisors}
        patient: list[asyncio.Task[None]] = []
        eager: list[asyncio.Task[None]] = []
        for supervisor_id, presence in supervisors.items():
            said = self._said.get(supervisor_id)
            age_s = time.monotonic() - said.at_s if said is not None else float("inf")
            if age_s > _FRESH_S:
                asking = self._asking.get(supervisor_id) or self._query(reconciler, supervisor_id, presence)
                (eager if age_s <= _KNOWN_S else patient).append(asking)
        if patient:
            await asyncio.wait(patient, timeout=2 * _CALL_S)
        if eager:
            await asyncio.wait(eager, timeout=_PATIENCE_S)
        return {one: self._said[one].answer for one in supervisors if one in self._said}

    def _query(self, reconciler: Reconciler, supervisor_id: str, presence: Presence) -> asyncio.Task[None]:
        asking = asyncio.create_task(self._fetch(reconciler, supervisor_id, address_of(presence)))
        self._asking[supervisor_id] = asking
        asking.add_done_callback(lambda done: self._on_queried(supervisor_id, done))
        return asking

    def _on_queried(self, supervisor_id: str, done: asyncio.Task[None]) -> None:
        del self._asking[supervisor_id]
        if not done.cancelled():
            done.exception()  # mark as retrieved, e.g. after the leadership ended; the next request asks again

    async def _fetch(self, reconciler: Reconciler, supervisor_id: str, address: str) -> None:
        who = f"supervisor at {address}"
        stub: Any = reconciler.supervisor(address)  # asynchronous, which the generated types do not show
        answer: Answer
        try:
            answer = await stub.ListSlots(supervisor_pb2.ListSlotsRequest(), timeout=_CALL_S)
        except grpc.aio.AioRpcError as error:
            answer = str(from_rpc_error(error, who)).removeprefix(f"{who} ")
        self._said[supervisor_id] = _Said(time.monotonic(), answer)
