"""One Track stream from the acker's side: what it still has to tell its worker, and how often it does.

Verdicts come from anybody's updates; the stream collects them until its one writer takes them. The first word after a
silence goes out at once, later ones not more often than every ``REPLY_INTERVAL_S``, and after a reply of many roots
every ``BUSY_INTERVAL_S``, or less often where trees take long anyhow (linger.py): under load that packs the verdicts
of some milliseconds into one message, which costs both ends far less than a message each. A confirmation that has no
verdicts to go with is in no hurry: it tells the worker what it need not doubt should the stream break.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import defaultdict

from tupletree._wire.packed import pack_u64
from tupletree.errors import UnavailableError
from tupletree.v1 import acker_pb2 as pb

from .ledger import Verdicts
from .linger import Linger
from .updates import Hello

REPLY_INTERVAL_S = 0.002
BUSY_INTERVAL_S, _BUSY_ROOTS = 0.006, 100
CONFIRM_INTERVAL_S = 0.05  # after the reply before, if there are no verdicts
MAX_WAITING = 16_000_000  # roots: 128 MB
_ROOTS_PER_REPLY = 1_000_000  # 8 MB, well under the limit of a message


class TrackStream:
    """``put`` and ``confirm`` collect, ``next_reply`` waits and takes, ``end`` says how it is to finish.

    What was put before ``end(None)`` is still delivered; ``end(error)`` lets go of it. A worker that takes no verdicts
    is cut off with UnavailableError when ``MAX_WAITING`` roots wait for it. (Its verdicts replace the entries of its
    own trees, which are larger; so only a flood of timeout resets, each a root more, gets there.)
    """

    def __init__(self, hello: Hello) -> None:
        self.hello = hello
        self.number = 0  # in the Registry
        self.waiting = 0
        """Roots put and not taken yet."""
        self._pieces: list[tuple[int, str, bytes]] = []  # task, kind of verdict, packed roots
        self._confirmed = self._told = 0
        self._is_held = self._told_held = False
        self._wake = asyncio.Event()
        self._ended = False
        self._error: BaseException | None = None
        self._replied_s = -math.inf
        self._interval_s = REPLY_INTERVAL_S
        self._linger = Linger()
        self._rest: asyncio.TimerHandle | None = None  # until a confirmation goes out alone

    def put(self, verdicts: Verdicts) -> None:
        """Have these delivered, unless the stream has ended: a worker that writes on would keep it from its end."""
        if self._ended:
            return
        for kind in Verdicts.__slots__:
            for task, roots in getattr(verdicts, kind).items():
                self._pieces.append((task, kind, pack_u64(roots)))
                self.waiting += len(roots)
        if self.waiting > MAX_WAITING:
            self.end(UnavailableError(f"worker {self.hello.worker_id} does not take its verdicts"))
        self._wake.set()

    def confirm(self, sequence: int) -> None:
        """Have it delivered that updates up to ``sequence`` are applied, unless the stream has ended."""
        if self._ended:
            return
        self._confirmed = sequence
        if self._rest is None:
            self._wake.set()

    def hold(self, *, is_held: bool) -> None:
        """Have the worker begin no more trees for now, or again."""
        if is_held != self._is_held:
            self._is_held = is_held
            self._wake.set()

    def look(self, pending: int, completed: int, now_s: float) -> None:
        """So many trees of its topology are pending now, and so many have been completed."""
        self._linger.look(pending, completed, now_s)

    def end(self, error: BaseException | None) -> None:
        """Finish the stream: with this error, or properly. The first call decides."""
        if not self._ended:
            self._ended, self._error = True, error
            self._wake.set()

    async def next_reply(self) -> pb.TrackReply | None:
        """The next message for the worker; None when the stream ended properly. Raises the error it ended with."""
        await self._due()
        if not self._pieces and self._confirmed == self._told and self._is_held == self._told_held:
            return None
        pause_s = self._replied_s + self._interval_s - time.monotonic()
        if pause_s > 0:
            await asyncio.sleep(pause_s)
        self._replied_s = time.monotonic()
        return self._take()

    async def _due(self) -> None:
        """Wait for verdicts, the end, or the time for a lone confirmation. Raises the error the stream ended with."""
        while True:
            await self._wake.wait()
            if self._error is not None:
                raise self._error
            is_untold = self._confirmed != self._told
            pause_s = self._replied_s + CONFIRM_INTERVAL_S - time.monotonic()
            if self._pieces or self._ended or self._is_held != self._told_held or (is_untold and pause_s <= 0):
                break
            self._wake.clear()
            if is_untold and self._rest is None:
                self._rest = asyncio.get_running_loop().call_later(pause_s, self._rested)
        if self._rest is not None:
            self._rest.cancel()
            self._rest = None

    def _rested(self) -> None:
        self._rest = None
        self._wake.set()

    def _take(self) -> pb.TrackReply:
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
        self._told, self._told_held = self._confirmed, self._is_held
        verdicts = [
            pb.Verdicts(spout_task=task, **{kind: b"".join(parts) for kind, parts in kinds.items()})
            for task, kinds in taken.items()
        ]
        gather_us = round(1e6 * self._linger.pause_s)
        return pb.TrackReply(confirmed=self._told, verdicts=verdicts, gather_us=gather_us, hold=self._told_held)
