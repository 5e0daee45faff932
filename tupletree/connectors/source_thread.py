"""The thread that owns a source's connection, and what a spout shows of it.

A spout is called only while the topology has room, and never while it is deactivated. The system must be answered all
the same: a delivery has its time limit, a connection its heartbeats. So nothing of the connection hangs on
``next_tuple``: the spout and this thread exchange messages and commands. pump.py is the thread of queues, log_pump.py
that of logs.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Protocol

from tupletree.backoff import Backoff
from tupletree.component import TopologyContext
from tupletree.errors import FailedException, UnavailableError, named

LAG_EVERY_S: Final = 2.0
CLOSE_S: Final = 5.0
"""How long ``close`` waits for the last acknowledgements."""


@dataclass(frozen=True, slots=True)
class Lost:
    """The connection is lost. ``error``: why."""

    error: Exception


@dataclass(frozen=True, slots=True)
class Broken:
    """The source raised an exception after which it is not opened again."""

    error: BaseException


class Source(Protocol):
    """The common part of a QueueSource and a LogSource."""

    title: ClassVar[str]
    lost_on: ClassVar[tuple[type[Exception], ...]]

    def close(self) -> None:
        """Disconnect."""


class SourceState(Protocol):
    """The state of a source that is shown to people. Read from other threads."""

    @property
    def is_connected(self) -> bool: ...
    @property
    def outstanding(self) -> int: ...
    @property
    def lag(self) -> int | None: ...
    @property
    def error(self) -> str: ...
    @property
    def refusal(self) -> str: ...


class SourceThread(threading.Thread):
    """Connects again and again, and serves the source while it is connected.

    A subclass implements ``_open``, ``_serve`` and ``_notify``, which run on this thread. ``pause``, ``close`` and the
    attributes are for the spout's thread.

    The pauses before a new connection grow until the source has answered: then the subclass sets ``_failures`` to 0. So
    a source that can be opened, and nothing else, is not opened ten times per second.

    Attributes:
        is_connected: true while the connection stands.
        lag: how much the source has that was not read; None if that is not known.
        error: why the connection was lost last, or why the source is not opened again.
        refusal: why a part of the source cannot be read while the connection stands; empty if all can be read.
    """

    def __init__(self, source: Source, task_index: int, reconnect: Backoff) -> None:
        super().__init__(name=f"{source.title}-{task_index}", daemon=True)
        self.is_connected = False
        self.lag: int | None = None
        self.error = ""
        self.refusal = ""
        self._owned = source
        self._task_index = task_index
        self._reconnect = reconnect
        self._lag_at_s = 0.0
        self._is_paused = False
        self._is_closing = threading.Event()
        self._failures = 0  # since the source has answered

    def pause(self, is_paused: bool) -> None:
        """Receive nothing more, or go on. What was received is still answered for."""
        self._is_paused = is_paused

    @property
    @abstractmethod
    def outstanding(self) -> int:
        """The number of messages received and not processed. Any thread."""

    def close(self) -> None:
        """Send the last acknowledgements, disconnect, and end."""
        self._is_closing.set()
        self.join(CLOSE_S)

    def run(self) -> None:
        lost_on: tuple[type[Exception], ...] = (*self._owned.lost_on, UnavailableError, FailedException)
        while not self._is_closing.is_set():
            try:
                self._open()
                self.is_connected = True
                self._lag_at_s = 0.0
                self._serve()
            except lost_on as error:
                self._failures += 1
                self.error = named(error)
                self._notify(Lost(error))
            except BaseException as error:
                self.error = named(error)  # the spout hears of it once it is active
                self._notify(Broken(error))
                return
            finally:
                self.is_connected = False
                self.lag = None
                with contextlib.suppress(Exception):  # as the contract has it, and no thread may end of it in silence
                    self._owned.close()
            if not self._is_closing.is_set():
                self._is_closing.wait(self._reconnect.pause_s(max(1, self._failures)))

    @abstractmethod
    def _open(self) -> None:
        """Connect the source."""

    @abstractmethod
    def _serve(self) -> None:
        """Drive the source until the thread is closed or an exception ends the connection."""

    @abstractmethod
    def _notify(self, event: Lost | Broken) -> None:
        """Tell the spout of an end of the connection."""

    def _measure_lag(self, read: Callable[[], int | None]) -> None:
        """Measure the lag, if it is time."""
        now_s = time.monotonic()
        if now_s >= self._lag_at_s:
            self._lag_at_s = now_s + LAG_EVERY_S
            self.lag = read()


def register_thread(
    context: TopologyContext, thread: SourceState, kind: str, title: str, lag_unit: str = "messages"
) -> None:
    """Show the state of a source in metrics and in ``tupletree describe``.

    ``kind``: "queue" or "log". ``lag_unit``: "messages" or "bytes".
    """
    own = context.register_own
    text = "1 while the spout is connected to its queue or log."
    own("spout_connected", "gauge", text, lambda: float(thread.is_connected))
    text = "Messages that the spout has received and that are not processed."
    own("spout_outstanding_messages", "gauge", text, lambda: thread.outstanding)
    text = f"{lag_unit.capitalize()} that wait in the queue or log, as of the last seconds; NaN if that is not known."
    own(f"spout_lag_{lag_unit}", "gauge", text, lambda: math.nan if thread.lag is None else thread.lag)

    def status() -> dict[str, Any]:
        state = {"kind": kind, kind: title, "connected": thread.is_connected}
        state |= {"outstanding": thread.outstanding, "lag": thread.lag, "lag_unit": lag_unit}
        error = thread.refusal if thread.is_connected else thread.error
        return {**state, "error": error[:500]} if error else state

    context.register_status(status)
