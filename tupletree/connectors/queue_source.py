"""The contract of queues: systems that deliver messages, and hear of each message when it is processed."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message that a queue has delivered.

    Attributes:
        data: the message.
        handle: what the source acknowledges it by; hashable, unique within a connection.
        id: what a person knows the message by, shown in errors and dead letters: the same whenever the message is
            delivered, and that of no other message. If empty, the id is made of the handle and the connection.
        deliveries: how often it was delivered, this time included; None if neither queue nor source counts.
        headers: those that came with the message.
        problem: why ``data`` is not a message for the format, if the source can tell: it is given up at once.
    """

    data: bytes
    handle: Any
    id: str = ""
    deliveries: int | None = None
    headers: Mapping[str, Any] = field(default_factory=dict)
    problem: str = ""


class QueueSource(ABC):
    """A queue, as one task of a spout uses it.

    An instance is made where the topology is built, and pickled: it opens its connection in ``open``. All methods are
    called on one thread, which belongs to the connection. A method that raises one of ``lost_on`` has lost the
    connection: ``close`` is called, and after a pause ``open``. The queue then delivers again what was not
    acknowledged. Any other exception ends the worker.

    Attributes:
        title: the name of the system, for messages to people.
        lost_on: the exceptions that mean a lost connection.
        keep_every_s: seconds between calls of ``keep``, for queues with a time limit for each delivery; None: no calls.
        has_delays: true if ``release`` lets the queue wait; otherwise messages are released when the pause is over.
        counts: true if ``Delivery.deliveries`` is set, which may depend on the queue; known once ``open`` has returned.
            If false, failed messages stay with the task, which counts their attempts: ``release`` is not called.
    """

    title: ClassVar[str] = "queue"
    lost_on: ClassVar[tuple[type[Exception], ...]] = (OSError,)
    has_delays: ClassVar[bool] = False
    counts: bool = False
    keep_every_s: float | None = None

    @abstractmethod
    def open(self, prefetch: int, task_index: int) -> None:
        """Connect. ``prefetch``: the maximum number of messages that will be delivered and not acknowledged."""

    @abstractmethod
    def receive(self, limit: int, wait_s: float) -> Sequence[Delivery]:
        """Return at most ``limit`` messages, waiting at most ``wait_s`` seconds for the first one."""

    @abstractmethod
    def acknowledge(self, handles: Sequence[Any]) -> None:
        """Remove processed messages from the queue. Lost if the connection is: then they are delivered again."""

    @abstractmethod
    def release(self, handles: Sequence[Any], delay_s: float) -> None:
        """Return messages to the queue, which delivers them again, after a delay if ``has_delays``."""

    def reject(self, handles: Sequence[Any]) -> None:
        """Set aside messages that are given up, where the queue can: as its own dead letters. Otherwise remove them."""
        self.acknowledge(handles)

    def keep(self, handles: Sequence[Any]) -> None:  # noqa: B027, needed by few
        """Restart the time limits of messages in process."""

    def lag(self) -> int | None:
        """Return the number of messages that wait in the queue and are not delivered; None if that is not known."""
        return None

    def idle(self, wait_s: float) -> None:
        """Wait while nothing may be received, and answer the queue's heartbeats if it has any."""
        time.sleep(wait_s)

    @abstractmethod
    def close(self) -> None:
        """Disconnect; the queue delivers again what was not acknowledged. Never raises, also after ``lost_on``."""
