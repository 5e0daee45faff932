"""The run loop of a daemon process: signals, exit status, and one-sentence errors."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Awaitable, Callable
from typing import Final

from tupletree._log import logs_to_file
from tupletree.errors import TupletreeError, UsageError

log = logging.getLogger("tupletree.daemon")

EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
_THREADS_GRACE_S: Final = 2.0

Main = Callable[[asyncio.Event], Awaitable[int | None]]


def run_daemon(main: Main) -> int:
    """Run ``main(stop)`` in a new event loop until it returns; returns the exit status for ``sys.exit``.

    SIGTERM and SIGINT set ``stop``, after which ``main`` must finish; a second signal ends the process at once. A
    UsageError gives one sentence on stderr and status 2, another TupletreeError one sentence and status 1, any other
    exception a traceback and status 1. Must be called from the main thread, as the last action of the process. If
    threads still hang two seconds after ``main`` returned (a call to a dead ZooKeeper, a thread pool of a component
    that raised), the process exits without waiting for them.
    """
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    code = EXIT_FAILED
    try:
        code = loop.run_until_complete(_serve(main))
    except UsageError as error:
        code = EXIT_USAGE
        _say(str(error))
    except TupletreeError as error:
        _say(str(error))
    except Exception:
        _say(traceback.format_exc().rstrip())
    finally:
        _wind_up(loop, code)
    return code


async def _serve(main: Main) -> int:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()

    def on_signal(number: signal.Signals) -> None:
        if stop.is_set():
            os._exit(128 + number)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    return await main(stop) or 0


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
    if logs_to_file():
        log.critical("%s", text)


def _wind_up(loop: asyncio.AbstractEventLoop, code: int) -> None:
    """Cancel the remaining tasks, as asyncio.run does, but wait for threads only briefly."""
    try:
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        if tasks:
            loop.run_until_complete(asyncio.wait(tasks, timeout=_THREADS_GRACE_S))
        loop.run_until_complete(loop.shutdown_asyncgens())
        threads = loop.create_task(loop.shutdown_default_executor())
        _, hanging = loop.run_until_complete(asyncio.wait({threads}, timeout=_THREADS_GRACE_S))
    except Exception:
        log.exception("daemon.wind_up")
        hanging = set()
    if hanging:
        end_now(code)
    asyncio.set_event_loop(None)
    loop.close()
    threading.Thread(target=_exit_later, args=(code,), name="exit", daemon=True).start()


def _exit_later(code: int) -> None:
    """End a process that still waits for foreign threads."""
    time.sleep(_THREADS_GRACE_S)
    end_now(code)


def end_now(code: int) -> None:
    """End the process at once, after flushing logs and output. Callable from any thread."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
