"""TreeClient: trees of work over any programs, tracked by ackers."""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

from tupletree._address import with_port
from tupletree._event_loop import EventLoop
from tupletree._limits import check_timeout
from tupletree._security.current import Security
from tupletree.client import NimbusClient
from tupletree.config import load
from tupletree.errors import (
    NotFoundError,
    OverloadedError,
    TupletreeError,
    UnavailableError,
    UsageError,
)
from tupletree.trees.handles import Child, Tree, new_id
from tupletree.trees.link import Link, LinkContext, TreesLoop
from tupletree.trees.outcomes import Outcome
from tupletree.trees.tokens import Token

CONNECT_S: Final = 10.0
_CLOSE_S: Final = 5.0
_MIN_TICK_S, _MAX_TICK_S = 0.01, 0.25  # between looks at deadlines
_ASK_S: Final = 1.0  # between questions to nimbus about ackers that are not known
_MAX_GONE: Final = 1000


class TreeClient:
    """Begins trees, and settles children of trees that other programs have begun.

        with TreeClient("acker-1,acker-2", namespace="orders") as trees:
            tree = trees.begin(timeout_s=30)
            token = tree.child()            # a text for another process, which calls:  trees.child(token).ack()
            outcome = tree.wait()           # done, failed, timed out or lost

        async with TreeClient(namespace="orders") as trees:
            outcome = await trees.begin()

    Thread-safe. One thread does the network's work of all clients of a process; nothing but ``connect``, ``flush``,
    ``close`` and ``Tree.wait`` waits, and ``child`` if it has to ask nimbus for the acker of a token. A process that
    forks opens its clients afterwards.

    Guarantees: each tree has one outcome; DONE comes only after all its children were acked. The acker keeps some
    40 bytes for a tree of any size. Not guaranteed: trees outlive neither their client nor the process of their acker
    (they are LOST); and a token works only in a client that knows the tree's acker.

    Args:
        ackers: addresses (``host`` or ``host:port``), as a comma-separated text or a list; None: the ackers that
            nimbus knows when the client connects, and those that it knows later, once a token of one comes. New trees
            go to each in turn.
        namespace: one of ``acker.trees.namespaces`` of the ackers.
        conf: the configuration; None: the result of ``tupletree.config.load()``.
    """

    def __init__(
        self, ackers: str | Sequence[str] | None = None, *, namespace: str, conf: Mapping[str, Any] | None = None
    ) -> None:
        self.namespace = namespace
        self._conf = {**load(), **(conf or {})}
        if isinstance(ackers, str):
            ackers = [part.strip() for part in ackers.split(",") if part.strip()]
        if ackers is not None and not ackers:
            raise UsageError("there is no acker in ackers: name at least one as host:port, or pass None to ask nimbus")
        self._ackers = ackers
        self._changed = threading.Condition()
        self._opening = threading.Lock()
        self._links: list[Link] = []
        self._gone: set[str] = set()  # ids of ackers of tokens, which nimbus did not know when it was asked last
        self._next_ask_s = 0.0
        self._turns = itertools.count()
        self._loop: EventLoop | None = None
        self._is_closed = False

    def connect(self, timeout_s: float = CONNECT_S) -> None:
        """Connect to the ackers, and wait until each has answered or failed to. ``begin`` and ``child`` call it.

        Nothing if the client is connected. One acker suffices.

        Raises:
            UnavailableError: no acker, or no nimbus, can be reached.
            NotFoundError: the ackers have no such namespace.
            ForbiddenError: the token does not permit calls, or the namespace has other users.
            UsageError: ``timeout_s`` is no number of seconds.
        """
        check_timeout(timeout_s, may_be_zero=True)
        with self._opening:
            if self._is_closed:
                raise UsageError("this TreeClient is closed")
            if self._loop is None:
                self._open()
        with self._changed:
            self._changed.wait_for(self._is_answered, timeout_s)
            if all(link.error is not None for link in self._links):
                raise self._refusal()

    def begin(self, timeout_s: float | None = None) -> Tree:
        """Begin a tree.

        Args:
            timeout_s: the tree times out this long after its begin; None, and at most: the timeout of the namespace.

        Raises:
            OverloadedError: the quota of open trees is used up, as far as is known here (otherwise ``Tree.wait`` raises
                it), or the acker has no room, or too many updates wait to be sent. Begin again when trees have ended.
            UnavailableError, NotFoundError, ForbiddenError: no acker can be used.
            UsageError: ``timeout_s`` is out of range.
        """
        if timeout_s is not None:
            check_timeout(timeout_s)
        link = self._next_link()
        most_s = link.welcome.timeout_s
        if timeout_s is None:
            timeout_s = most_s
        elif timeout_s > most_s:
            raise UsageError(
                f"timeout_s is {timeout_s}: trees of namespace '{self.namespace}' take more than 0 and up to {most_s:g}"
            )
        waiting: Future[Outcome] = Future()
        waiting.set_running_or_notify_cancel()  # who awaits the tree cannot cancel it
        token = link.begin(new_id(), new_id(), time.monotonic() + timeout_s, waiting)
        return Tree(link, token, waiting)

    def child(self, token: str | bytes) -> Child:
        """Return the child of a token.

        Raises:
            NotFoundError: the tree's acker has ended: its tree is lost, drop the message. Or it is none of ``ackers``.
            UnavailableError: an acker that is possibly the tree's, or nimbus, cannot be reached now: try again later.
            UsageError: the text is no token, or one of another namespace.
        """
        decoded = Token.decode(token, self.namespace)
        if not self._links or self._is_closed:
            self.connect()
        link = self._link_to(decoded.acker_id)
        if link is None and self._ackers is None:
            self._ask_for(decoded.acker_id)
            link = self._link_to(decoded.acker_id)
        if link is not None:
            return Child(link, decoded)
        links = self._links
        if decoded.acker_id not in self._gone:
            for link in links:
                if link.error is not None:  # possibly it is this one, which has restarted
                    raise UnavailableError(f"acker {decoded.acker_id} is not connected: {link.error}")
        known = ", ".join(link.acker_id for link in links)
        raise NotFoundError(
            f"acker {decoded.acker_id} of the token has ended, with its trees, or is none of this client's: {known}"
        )

    def flush(self, timeout_s: float = CONNECT_S) -> None:
        """Wait until the ackers have confirmed every update. In a coroutine: ``await asyncio.to_thread(trees.flush)``.

        Raises:
            UnavailableError: not within ``timeout_s``.
            UsageError: ``timeout_s`` is no number of seconds.
        """
        check_timeout(timeout_s, may_be_zero=True)
        with self._changed:
            if not self._changed.wait_for(self._is_idle, timeout_s):
                left = sum(len(link.outbox) for link in self._links)
                raise UnavailableError(f"the ackers have not confirmed all within {timeout_s:g} s; {left} updates wait")

    def close(self) -> None:
        """Send what waits, for at most five seconds, and disconnect. Trees that are open are LOST."""
        with self._opening:
            self._is_closed = True
            loop, self._loop = self._loop, None
        if loop is None:
            return
        with suppress(UnavailableError):
            self.flush(_CLOSE_S if any(link.error is None for link in self._links) else 0.0)
        loop.run(self._stop())
        loop.release()

    def __enter__(self) -> Self:
        return self._entered()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self._entered)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)

    def _entered(self) -> Self:
        try:
            self.connect()
        except BaseException:
            self.close()
            raise
        return self

    def _open(self) -> None:
        addresses = self._addresses()
        security = Security.of_client(self._conf)
        self._loop = TreesLoop.acquire()  # what can fail comes before: close() stops what runs on the loop
        client_id = f"{socket.gethostname()}-{os.getpid()}"
        context = LinkContext(self.namespace, client_id, security, self._changed, self._loop)
        self._context = context
        self._loop.run(self._start(addresses))

    def _addresses(self) -> Collection[str]:
        if self._ackers is not None:
            return [with_port(one, int(self._conf["acker.port"])) for one in self._ackers]
        found = self._known_to_nimbus()
        if not found:
            raise UnavailableError("nimbus knows no acker: start one, or pass the addresses of ackers")
        return found.values()

    def _known_to_nimbus(self) -> dict[str, str]:
        """Return the addresses of ackers by id, with those that drain: their trees are settled there."""
        with NimbusClient(conf=self._conf) as nimbus:
            return {one.presence.id: one.presence.address for one in nimbus.cluster().ackers}

    def _ask_for(self, acker_id: str) -> None:
        """Ask nimbus for an acker, at most once a second, and connect to the ackers that are new.

        Raises UnavailableError if nimbus cannot be asked now.
        """
        with self._opening:
            if self._loop is None or self._link_to(acker_id) is not None:
                return
            if (now_s := time.monotonic()) < self._next_ask_s:
                if acker_id in self._gone:
                    return
                raise UnavailableError(f"acker {acker_id} is not known, and nimbus was asked just now: try again")
            self._next_ask_s = now_s + _ASK_S
            known = self._known_to_nimbus()
            asked = self._gone if len(self._gone) < _MAX_GONE else set()
            self._gone = {acker_id, *asked}.difference(known)
            if known:
                self._loop.run(self._follow(known.values()))
        with self._changed:
            self._changed.wait_for(self._is_answered, CONNECT_S)

    async def _start(self, addresses: Collection[str]) -> None:
        await self._follow(addresses)
        self._watching = asyncio.create_task(self._watch())

    async def _follow(self, addresses: Collection[str]) -> None:
        """Add links to these ackers where there are none, and leave ackers that are not connected and not named."""
        ended = [link for link in self._links if link.address not in addresses and link.error is not None]
        kept = [link for link in self._links if link not in ended]
        linked = {link.address for link in kept}
        new = [address for address in dict.fromkeys(addresses) if address not in linked]
        self._links = kept + [Link(address, self._context) for address in new]
        for link in ended:
            await link.close()

    async def _watch(self) -> None:
        """End trees at their deadlines, forever."""
        while True:
            now_s, links = time.monotonic(), self._links
            next_s = min((due for link in links if (due := link.expire(now_s)) is not None), default=now_s + 1)
            await asyncio.sleep(min(max(next_s - now_s, _MIN_TICK_S), _MAX_TICK_S))

    async def _stop(self) -> None:
        self._watching.cancel()
        for link in self._links:
            await link.close()

    def _next_link(self) -> Link:
        """Return the acker whose turn it is to get a tree. Raises as ``begin``."""
        if not self._links or self._is_closed:
            self.connect()
        links = self._links
        first = next(self._turns) % len(links)
        up = [link for link in links[first:] + links[:first] if link.error is None]
        if not up:
            raise self._refusal()
        free = next((link for link in up if not link.is_held), None)
        if free is None:
            raise OverloadedError("no acker takes new trees at the moment: begin again when some have ended")
        return free

    def _link_to(self, acker_id: str) -> Link | None:
        return next((link for link in self._links if link.acker_id == acker_id), None)

    def _is_answered(self) -> bool:
        return all(link.is_tried for link in self._links)

    def _is_idle(self) -> bool:
        return all(link.outbox.is_idle for link in self._links)

    def _refusal(self) -> TupletreeError:
        """Return why no acker can be used: what a user can put right rather than what passes by itself."""
        errors = [link.error for link in self._links if link.error is not None]
        errors.append(UnavailableError("the ackers have only just answered: try again"))
        found = next((error for error in errors if not isinstance(error, UnavailableError)), errors[0])
        return found.with_traceback(None)  # otherwise it grows with each raise
