"""The acker's side of a Track stream: verdicts and confirmations that wait for the worker, and the rate of replies.

Verdicts arise from any worker's updates; a stream queues the verdicts for its own worker. The first reply after a
pause goes out at once. Further replies go out at most every ``REPLY_INTERVAL_S``, and after a reply with many
roots at most every ``BUSY_INTERVAL_S``, or less often if trees take long anyway (linger.py). Under load this batches
the verdicts of several milliseconds into one message, which costs both ends far less than single messages. A
confirmation without verdicts is not urgent: if the stream breaks, it tells the worker which updates were applied.
"""

from __future__ import annotations

import asyncio
import math
import time
from array import array
from collections import defaultdict

from tupletree._wire import reason_messages
from tupletree._wire.fail_reasons import WaitingReasons
from tupletree._wire.packed import pack_u64, unpack_u64
from tupletree.errors import UnavailableError
from tupletree.v1 import acker_pb2 as pb

from .linger import Linger
from .namespaces import Quota
from .updates import Hello
from .verdicts import KINDS, Verdicts

REPLY_INTERVAL_S = 0.002
BUSY_INTERVAL_S, _BUSY_ROOTS = 0.006, 100
CONFIRM_INTERVAL_S = 0.05  # after the previous reply, if there are no verdicts
MAX_WAITING = 16_000_000  # roots: 128 MB
_ROOTS_PER_REPLY = 1_000_000  # 8 MB, well below the message size limit


class TrackStream:
    """An outgoing queue. ``put`` and ``confirm`` add to it, ``next_reply`` takes from it, and ``end`` finishes it.

    Verdicts put before ``end(None)`` are still delivered; ``end(error)`` discards them. A worker that reads no verdicts
    is disconnected with UnavailableError when more than ``MAX_WAITING`` roots wait. (A verdict that ends a tree
    replaces an entry, which is larger. Only a flood of timeout resets, each of which adds a root, reaches the limit.)
    """

    def __init__(self, hello: Hello, number: int, quota: Quota | None = None) -> None:
        self.hello = hello
        self.quota = quota  # of the namespace, if the stream is of one
        self.number = number  # in the Registry
        self.waiting = 0
        """Number of roots queued and not yet sent."""
        self._pieces: list[tuple[int, str, bytes]] = []  # task, kind of verdict, packed roots
        self._reasons = WaitingReasons()
        self._confirmed = self._sent_confirmed = 0
        self._is_held = self._sent_held = False
        self._wake = asyncio.Event()
        self._ended = False
        self._error: BaseException | None = None
        self._replied_s = -math.inf
        self._interval_s = REPLY_INTERVAL_S
        self._linger = Linger()
        self._confirm_timer: asyncio.TimerHandle | None = None  # until a confirmation is sent without verdicts

    def put(self, verdicts: Verdicts) -> None:
        """Queue verdicts. No-op once ended, so that a worker that goes on writing cannot keep the stream open."""
        if self._ended:
            return
        if verdicts.reasons:
            self._reasons.add(verdicts.reasons)
        for kind in KINDS:
            for task, roots in getattr(verdicts, kind).items():
                self._pieces.append((task, kind, pack_u64(roots)))
                self.waiting += len(roots)
        if self.waiting > MAX_WAITING:
            self.end(UnavailableError(f"worker {self.hello.worker_id} does not read its verdicts"))
        self._wake.set()

    def refuse(self, roots: array[int]) -> None:
        """Queue the refusal of trees. No-op once ended."""
        if roots and not self._ended:
            self._pieces.append((0, "refused", pack_u64(roots)))
            self.waiting += len(roots)
            self._wake.set()

    def confirm(self, sequence: int) -> None:
        """Queue the confirmation of all updates up to ``sequence``. No-op once ended."""
        if self._ended:
            return
        self._confirmed = sequence
        if self._confirm_timer is None:
            self._wake.set()

    def set_held(self, *, is_held: bool) -> None:
        """Tell the worker to stop beginning trees, or to resume."""
        if is_held != self._is_held:
            self._is_held = is_held
            self._wake.set()

    def update_linger(self, pending: int, completed: int, now_s: float) -> None:
        """Update the linger from the pending and the completed trees of the topology."""
        self._linger.update(pending, completed, now_s)

    def end(self, error: BaseException | None) -> None:
        """End the stream, with an error unless ``error`` is None. Only the first call takes effect."""
        if not self._ended:
            self._ended, self._error = True, error
            self._wake.set()

    async def next_reply(self) -> pb.TrackReply | None:
        """Return the worker's next message, or None after a normal end. Raises the error passed to ``end``."""
        await self._due()
        if not self._pieces and self._confirmed == self._sent_confirmed and self._is_held == self._sent_held:
            return None
        pause_s = self._replied_s + self._interval_s - time.monotonic()
        if pause_s > 0:
            await asyncio.sleep(pause_s)
        self._replied_s = time.monotonic()
        return self._dequeue()

    async def _due(self) -> None:
        """Wait until a reply is due or the stream ends. Raises the error passed to ``end``."""
        while True:
            await self._wake.wait()
            if self._error is not None:
                raise self._error
            is_unconfirmed = self._confirmed != self._sent_confirmed
            pause_s = self._replied_s + CONFIRM_INTERVAL_S - time.monotonic()
            if self._pieces or self._ended or self._is_held != self._sent_held or (is_unconfirmed and pause_s <= 0):
                break
            self._wake.clear()
            if is_unconfirmed and self._confirm_timer is None:
                self._confirm_timer = asyncio.get_running_loop().call_later(pause_s, self._confirm_now)
        if self._confirm_timer is not None:
            self._confirm_timer.cancel()
            self._confirm_timer = None

    def _confirm_now(self) -> None:
        self._confirm_timer = None
        self._wake.set()

    def _dequeue(self) -> pb.TrackReply:
        taken: defaultdict[int, defaultdict[str, list[bytes]]] = defaultdict(lambda: defaultdict(list))
        roots = count = 0
        for task, kind, packed in self._pieces:
            taken[task][kind].append(packed)
            roots += len(packed) // 8
            count += 1
            if roots >= _ROOTS_PER_REPLY:
                break
        del self._pieces[:count]
        self.waiting -= roots
        self._interval_s = max(BUSY_INTERVAL_S, self._linger.pause_s) if roots >= _BUSY_ROOTS else REPLY_INTERVAL_S
        self._sent_confirmed, self._sent_held = self._confirmed, self._is_held
        verdicts = [
            pb.Verdicts(
                task=task,
                **{kind: b"".join(parts) for kind, parts in kinds.items()},
                reasons=self._reasons_of(kinds["failed"]) if "failed" in kinds else None,
            )
            for task, kinds in taken.items()
        ]
        linger_us = round(1e6 * self._linger.pause_s)
        return pb.TrackReply(confirmed=self._confirmed, verdicts=verdicts, linger_us=linger_us, hold=self._is_held)

    def _reasons_of(self, failed: list[bytes]) -> pb.FailReasons | None:
        reasons = self._reasons.take(root for packed in failed for root in unpack_u64(packed))
        return reason_messages.packed([reasons])
