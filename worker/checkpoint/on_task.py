"""Calls on the thread of a task, from the event loop of its worker."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TypeVar

from tupletree.errors import UnavailableError

from ..core.task import Task

T = TypeVar("T")


class LateError(UnavailableError):
    """A task that does not come to a call in time."""


async def on_task(task: Task, call: Callable[[], T], timeout_s: float, remedy: str) -> T | BaseException:
    """Return what ``call`` returns or raises on the thread of a task, between two batches, whichever copy of the
    component is there then.

    ``remedy``: the end of the sentence for a task that does not come to it. Raises UnavailableError with this sentence.
    """
    answered: asyncio.Future[T | BaseException] = asyncio.get_running_loop().create_future()

    def done(outcome: T | BaseException) -> None:
        if not answered.done():
            answered.set_result(outcome)

    ask_task(task, call, timeout_s, remedy, done)
    outcome = await answered
    if isinstance(outcome, LateError):
        raise outcome
    return outcome


def ask_task(
    task: Task, call: Callable[[], T], timeout_s: float, remedy: str, done: Callable[[T | BaseException], None]
) -> None:
    """Have a call made as ``on_task`` does, and ``done`` called on the event loop with what it returns or raises, or
    with a LateError. This wakes the event loop once, and makes no task of it."""
    loop = asyncio.get_running_loop()
    is_done = False

    def settle(outcome: T | BaseException) -> None:
        nonlocal is_done
        if not is_done:
            is_done = True
            timer.cancel()
            done(outcome)

    def run() -> None:  # must not raise
        outcome: T | BaseException
        try:
            outcome = call()
        except (Exception, SystemExit) as error:
            outcome = error
        with contextlib.suppress(RuntimeError):  # the event loop is closed
            loop.call_soon_threadsafe(settle, outcome)

    late = LateError(
        f"task {task.context.task_index} of component '{task.component_id}' is in a call of its own for more than "
        f"{timeout_s:g} s; {remedy}"
    )
    assert task.ask_soon is not None
    timer = loop.call_later(timeout_s, settle, late)
    try:
        task.ask_soon(True, None, run)
    except BaseException:
        timer.cancel()
        raise
