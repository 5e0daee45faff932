"""Pool of this process's connections to one database: a connection serves one caller at a time and is then reused."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar


class Closable(Protocol):
    """The interface required of a connection."""

    def close(self) -> None: ...


C = TypeVar("C", bound=Closable)
R = TypeVar("R")


class Connections(Generic[C]):
    """A pool that opens connections as needed, for any thread.

    The pool keeps as many connections as were ever in use at the same time. After an error ``is_lost`` tells a lost
    connection (True) from a refused request.
    """

    def __init__(self, connect: Callable[[], C], is_lost: Callable[[C], bool] = lambda connection: False) -> None:
        self._connect = connect
        self._is_lost = is_lost
        self._idle: list[C] = []  # append and pop are atomic: this needs no lock

    def use(self, work: Callable[[C], R]) -> R:
        """Run ``work`` with a connection that nobody else uses meanwhile.

        If the work fails, its connection is closed. If this was a reused connection that had been lost meanwhile, the
        work is repeated with a new connection.
        """
        try:
            connection, is_new = self._idle.pop(), False
        except IndexError:
            connection, is_new = self._connect(), True
        try:
            result = work(connection)
        except BaseException:
            lost = self._is_lost(connection)
            connection.close()
            if is_new or not lost:
                raise
            self.close()  # the other idle connections are probably lost too
        else:
            self._idle.append(connection)
            return result
        return self.use(work)

    def close(self) -> None:
        """Close all idle connections."""
        while self._idle:
            self._idle.pop().close()


@contextlib.contextmanager
def cut_after(timeout_s: float, descriptor: int) -> Iterator[None]:
    """Shut a socket down if the work takes longer than ``timeout_s``, so that a wait for a silent peer ends."""
    over = threading.Lock()  # held after the work has ended: the descriptor can then belong to another file

    def cut() -> None:
        if over.acquire(blocking=False):
            with socket.socket(fileno=os.dup(descriptor)) as connection:
                connection.shutdown(socket.SHUT_RDWR)
            over.release()

    timer = threading.Timer(timeout_s, cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        over.acquire()
