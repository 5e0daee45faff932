"""The connections of this process to one database: each is used by one caller at a time, and kept for the next one."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar


class Closable(Protocol):
    """What a connection has at least."""

    def close(self) -> None: ...


C = TypeVar("C", bound=Closable)
R = TypeVar("R")


class Connections(Generic[C]):
    """Opened as needed, by any thread. As many are kept as were ever in use at the same time.

    ``is_lost`` says whether a connection on which something failed was lost, rather than the request refused.
    """

    def __init__(self, connect: Callable[[], C], is_lost: Callable[[C], bool] = lambda connection: False) -> None:
        self._connect = connect
        self._is_lost = is_lost
        self._idle: list[C] = []  # append and pop are atomic: this needs no lock

    def use(self, work: Callable[[C], R]) -> R:
        """Do work with a connection of one's own.

        A connection on which work fails is closed. If it was an old one that had been lost meanwhile, the work is done
        once more with a new one.
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
            self.close()  # what befell one befell the others
        else:
            self._idle.append(connection)
            return result
        return self.use(work)

    def close(self) -> None:
        """Close those that nobody uses now."""
        while self._idle:
            self._idle.pop().close()


@contextlib.contextmanager
def cut_after(timeout_s: float, descriptor: int) -> Iterator[None]:
    """Shut a socket down if the work takes longer, so that whoever waits for a peer that fell silent gets an error."""
    over = threading.Lock()  # held from the end of the work: the number may be somebody else's file then

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
