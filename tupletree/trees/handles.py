"""Tree and Child: what programs hold of a tree."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from concurrent.futures import Future
from secrets import randbits
from types import TracebackType
from typing import Self

from tupletree._limits import check_timeout
from tupletree.errors import UsageError, named
from tupletree.trees.link import Link
from tupletree.trees.outcomes import Outcome
from tupletree.trees.tokens import Token


def new_id() -> int:
    """Return a random id of 64 bits, which is not 0. Forked processes draw different ones."""
    return randbits(64) or 1


class _Node:
    """A node of a tree that this program holds: its own edge, and the edges of the children made of it."""

    def __init__(self, link: Link, token: Token) -> None:
        self._link = link
        self._token = token
        self._value = token.edge
        self._is_settled = False
        self._lock = threading.Lock()

    def child(self) -> str:
        """Return the token of a new child: the tree is done only once that has been acked.

        Raises:
            UsageError: the node was settled.
        """
        edge = new_id()
        with self._lock:
            if self._is_settled:
                raise UsageError("a child is made before its parent is acked, failed or waited for, not afterwards")
            self._value ^= edge
        return self._token._replace(edge=edge).encode()

    def fail(self, reason: str = "") -> None:
        """Fail the whole tree, for a reason of which at most 4 KiB arrive. Nothing if the node was settled."""
        if self._settles():
            self._link.fail(self._token, reason)

    def _ack(self) -> None:
        if self._settles():
            self._link.ack(self._token, self._value)

    def _settles(self) -> bool:
        """True for the first call."""
        with self._lock:
            is_first, self._is_settled = not self._is_settled, True
            return is_first


class Child(_Node):
    """A child whose token this program got. Thread-safe; made by ``TreeClient.child``.

        with trees.child(token) as child:
            send(child.child())

    At the end of the block the child is acked; an exception fails it, with the exception as the reason.

    Guarantees: children made here join the tree in the same update that acks this one, so the tree cannot be done in
    between. No update is sent twice. Not guaranteed: that the update arrives, if this process dies or its connection
    breaks: then the tree fails or times out. ``TreeClient.flush`` waits until it has arrived.

    A token that two programs ack, as a queue has delivered it twice, counts as not acked: the tree times out, and is
    never done too early.
    """

    def ack(self) -> None:
        """Say that the work of this child is done, except for its own children. A second call does nothing."""
        self._ack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            self.ack()
        else:
            self.fail(named(error))


class Tree(_Node):
    """A tree that this program has begun. Thread-safe; made by ``TreeClient.begin``.

        tree = trees.begin()
        send(tree.child())
        outcome = tree.wait()   # or: outcome = await tree

    The tree stays open until ``close``, which ``wait`` and ``await`` call: no child can be made afterwards. A tree that
    is never closed times out.

    Guarantees: each tree has exactly one outcome, at the latest a quarter of a second after its timeout, whatever
    happens to other programs and to the acker. DONE means that all children were acked, except with a probability of
    2^-64. Not guaranteed: FAILED, TIMED_OUT and LOST trees were possibly done, in part or as a whole.
    """

    def __init__(self, link: Link, token: Token, waiting: Future[Outcome]) -> None:
        super().__init__(link, token)
        self._waiting = waiting

    def close(self) -> None:
        """Make no more children. A second call does nothing."""
        self._ack()

    @property
    def outcome(self) -> Outcome | None:
        """The outcome, or None while the tree is open. Raises as ``wait``."""
        return self._waiting.result() if self._waiting.done() else None

    def wait(self, timeout_s: float | None = None) -> Outcome:
        """Close the tree and wait for its outcome.

        Args:
            timeout_s: how long to wait. The tree goes on afterwards; its own timeout is that of ``begin``.

        Raises:
            TimeoutError: the tree has no outcome yet.
            OverloadedError: the acker has refused the tree, as its namespace has as many open trees as it may have.
            UsageError: ``timeout_s`` is no number of seconds. The tree is not closed.
        """
        if timeout_s is not None:
            check_timeout(timeout_s, may_be_zero=True)
        self.close()
        return self._waiting.result(timeout_s)

    def __await__(self) -> Generator[object, None, Outcome]:
        """Close the tree and await its outcome, as ``wait``. Cancelling does not end the tree."""
        self.close()
        return asyncio.wrap_future(self._waiting).__await__()
