"""Calls on the thread of a task, from the event loop of its worker."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TypeVar

from tupletree.errors import UnavailableError

from ..core.task import Task

T = TypeVar("T")


async def on_task(task: Task, call: Callable[[], T], timeout_s: float, remedy: str) -> T | BaseException:
    """Return what ``call`` returns or raises on the thread of a task, between two batches, whichever copy of the
    component is there then.

    ``remedy``: the end of the sentence for a task that does not come to it. Raises UnavailableError with this sentence.
    """
    loop = asyncio.get_running_loop()
    answered: asyncio.Future[T | BaseException] = loop.create_future()

    def settle(outcome: T | BaseException) -> None:
        if not answered.done():
            answered.set_result(outcome)

    def run() -> None:  # must not raise
        outcome: T | BaseException
        try:
            outcome = call()
        except (Exception, SystemExit) as error:
            outcome = error
        with contextlib.suppress(RuntimeError):  # the event loop is closed
            loop.call_soon_threadsafe(settle, outcome)

    assert task.ask_soon is not None
    task.ask_soon(True, None, run)
    try:
        return await asyncio.wait_for(answered, timeout_s)
    except TimeoutError:
        raise UnavailableError(
            f"task {task.context.task_index} of component '{task.component_id}' is in a call of its own for more than "
            f"{timeout_s:g} s; {remedy}"
        ) from None
