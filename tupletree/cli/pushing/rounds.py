"""Rounds: read all processes, send what they show, wait. The last round follows the signal to end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tupletree.cli.pushing.notices import RECEIVER, Notices
from tupletree.cli.pushing.receivers import Receiver
from tupletree.cli.pushing.source import Source
from tupletree.errors import UnavailableError


class Round(NamedTuple):
    """One round. ``fault``: why nothing was sent; "" if it was."""

    processes: int
    values: int
    fault: str = ""


def push_round(source: Source, receiver: Receiver, notices: Notices) -> Round:
    """Read and send once. A fault is reported once; the next round tries again, with what there is then."""
    readings = source.read()
    if not readings:
        return Round(0, 0, "no process of the cluster answers")
    try:
        values = receiver.send(readings)
    except UnavailableError as error:
        notices.report(RECEIVER, str(error))
        return Round(len(readings), 0, str(error))
    notices.resolve(RECEIVER, "the receiver answers again")
    return Round(len(readings), values)


def push_rounds(
    push: Callable[[], Round], every_s: float, stop: threading.Event, clock: Callable[[], float] = time.monotonic
) -> Iterator[Round]:
    """Push at once and then each ``every_s`` until ``stop`` is set, and a last time then."""
    due_s = clock()
    while not stop.is_set():
        yield push()
        due_s = max(due_s + every_s, clock())
        stop.wait(due_s - clock())
    yield push()
