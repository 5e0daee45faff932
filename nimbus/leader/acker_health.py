"""Health of the registered ackers. The shards of a dead acker move without waiting for its session to time out.

The leader holds one health Watch stream open to each acker. Beside the stream, each acker is asked for its ledger every
two seconds, for display only. When an acker process is killed, its stream is reset at once and the next connection is
refused: the acker is dead. A new process at the same address answers with another acker id. An acker that this nimbus
has not heard from yet, because it has just begun to lead, counts as alive until its state is known.

    registered -> UNKNOWN -> SERVING <-> NOT_SERVING      the stream says: ready for new shards or not
                     \\           |           |
                      +----> UNREACHABLE <----+           retried until its node is gone
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import logging
import time
from collections.abc import Callable, Mapping

import grpc
import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tupletree._log import event
from tupletree._rpc.channels import aio_channel
from tupletree._rpc.status import from_rpc_error
from tupletree.errors import TupletreeError
from tupletree.v1 import acker_pb2
from tupletree.v1.acker_pb2_grpc import AckerStub
from tupletree.v1.topology_pb2 import Presence

from ..rpc_clients import address_of
from ..statistics.acker_stats import LedgerHistory
from .shard_placement import Acker

log = logging.getLogger("tupletree.nimbus")

_IDENTIFY_TIMEOUT_S = 5.0
_RETRY_S = 0.5
_PAUSE_S = 0.05
_LEDGER_PAUSE_S = 2.0
_SERVING = health_pb2.HealthCheckResponse.SERVING


class State(enum.Enum):
    UNKNOWN = "unknown"
    SERVING = "serving"
    NOT_SERVING = "not serving"
    UNREACHABLE = "unreachable"


_HEARD = frozenset({State.SERVING, State.NOT_SERVING})


class AckerHealth:
    """Watches the ackers given to ``watch``. Calls ``wake`` after every change of state.

    ``hear``: is called with each description of a ledger, the seconds for which its acker has been up, and the time.
    """

    def __init__(
        self, wake: Callable[[], None], hear: Callable[[acker_pb2.DescribeLedgerReply, float, float], None]
    ) -> None:
        self._wake = wake
        self._hear = hear
        self._presences: dict[str, Presence] = {}
        self._states: dict[str, State] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self.ledgers: dict[str, LedgerHistory] = {}  # of the ackers followed, by id
        self.silences: dict[str, str] = {}  # why an acker does not answer, by id

    def watch(self, presences: Mapping[str, Presence]) -> None:
        """Watch the registered ackers. Of two ackers at one address, the older is dead and only its node is left.

        An acker that is no longer registered is still watched while its stream is open: the acker lost its ZooKeeper
        session, not its ledgers.
        """
        heard = {one: known for one, known in self._presences.items() if self._states[one] in _HEARD}
        newest: dict[str, Presence] = {}
        for presence in sorted({**heard, **presences}.values(), key=lambda one: (one.started_unix_s, one.id)):
            newest[address_of(presence)] = presence
        wanted = {presence.id: presence for presence in newest.values()}
        for acker_id in self._tasks.keys() - wanted.keys():
            self._tasks.pop(acker_id).cancel()
            self._states.pop(acker_id, None)
            self.ledgers.pop(acker_id, None)
            self.silences.pop(acker_id, None)
        for acker_id in wanted.keys() - self._tasks.keys():
            self._states[acker_id] = State.UNKNOWN
            self.ledgers[acker_id] = LedgerHistory()
            self._tasks[acker_id] = asyncio.create_task(self._watch(acker_id, address_of(wanted[acker_id])))
        self._presences = wanted

    def alive(self) -> dict[str, Acker]:
        """Return the ackers that can hold shards, by id."""
        return {
            acker_id: Acker(address_of(presence), presence.draining, self._states[acker_id] == State.SERVING)
            for acker_id, presence in self._presences.items()
            if self._states[acker_id] != State.UNREACHABLE
        }

    async def wait_until_known(self, timeout_s: float) -> None:
        """Wait until every acker's state is known, for at most ``timeout_s``."""
        deadline = asyncio.get_running_loop().time() + timeout_s
        while State.UNKNOWN in self._states.values() and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.01)

    async def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._tasks.clear()
        self._states.clear()
        self._presences.clear()
        self.ledgers.clear()
        self.silences.clear()

    async def _watch(self, acker_id: str, address: str) -> None:
        while True:
            try:
                async with aio_channel(address) as channel:
                    if await self._is_another(acker_id, channel):
                        self._set(acker_id, State.UNREACHABLE, "another acker answers at this address now")
                        return
                    asking = asyncio.create_task(self._keep_asking(acker_id, channel))
                    try:
                        await self._follow_health(acker_id, channel)
                    finally:
                        asking.cancel()
                    await asyncio.sleep(_PAUSE_S)
                    continue  # the stream was closed cleanly, which happens when an acker stops
            except grpc.aio.AioRpcError as error:
                if self._states.get(acker_id) in _HEARD:
                    self._states[acker_id] = State.UNKNOWN
                    continue  # the stream broke: one more attempt decides
                who = f"acker at {address}"
                self._set(acker_id, State.UNREACHABLE, str(from_rpc_error(error, who)).removeprefix(f"{who} "))
            except TupletreeError as error:  # a certificate or a token that is being replaced cannot be read
                event(log, "acker.not_asked", level=logging.WARNING, acker=acker_id, cause=error)
            await asyncio.sleep(_RETRY_S)

    async def _follow_health(self, acker_id: str, channel: grpc.aio.Channel) -> None:
        request = health_pb2.HealthCheckRequest(service="")
        async for reply in health_pb2_grpc.HealthStub(channel).Watch(request):
            serving = reply.status == _SERVING
            self._set(acker_id, State.SERVING if serving else State.NOT_SERVING, "reported by its health stream")

    async def _keep_asking(self, acker_id: str, channel: grpc.aio.Channel) -> None:
        """Ask for the ledger periodically. Failures are ignored: the health stream detects them."""
        request = acker_pb2.DescribeLedgerRequest()
        while True:
            with contextlib.suppress(grpc.aio.AioRpcError):
                reply = await AckerStub(channel).DescribeLedger(request, timeout=_IDENTIFY_TIMEOUT_S)
                if acker_id in self.ledgers:
                    now_s = time.monotonic()
                    self.ledgers[acker_id].add_sample(reply, now_s)
                    self._hear(reply, time.time() - self._presences[acker_id].started_unix_s, now_s)
            await asyncio.sleep(_LEDGER_PAUSE_S)

    async def _is_another(self, acker_id: str, channel: grpc.aio.Channel) -> bool:
        request = acker_pb2.DescribeLedgerRequest()
        reply = await AckerStub(channel).DescribeLedger(request, timeout=_IDENTIFY_TIMEOUT_S)
        return bool(reply.acker_id != acker_id)

    def _set(self, acker_id: str, state: State, cause: str) -> None:
        before = self._states.get(acker_id)
        if before is not None and state == State.UNREACHABLE:
            self.silences[acker_id] = cause  # the latest: the first error of a broken connection can differ
        elif state in _HEARD:
            self.silences.pop(acker_id, None)
        if before is None or before == state:
            return
        self._states[acker_id] = state
        level = logging.WARNING if state == State.UNREACHABLE else logging.INFO
        event(log, "acker.state", level=level, acker=acker_id, state=state.value, was=before.value, cause=cause)
        self._wake()
