"""A connection to a stream of events, read on the event loop, with reconnects; a spout's thread takes the events."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, Callable
from typing import Any, Final

from tupletree._event_loop import EventLoop
from tupletree.backoff import Backoff
from tupletree.connectors.extras import imported
from tupletree.connectors.http.event_parser import StreamEvent

FULL_S: Final = 0.01
CONNECT_S: Final = 30.0


class StreamEndedError(Exception):
    """The server says that the stream is at its end, and that nobody is to connect again."""


class Stream:
    """A stream that a ``StreamReader`` follows.

    ``retry_s``: the shortest pause before a reconnect, if the server has asked for one.
    """

    retry_s: float = 0.0

    def follow(self, session: Any, last_id: str) -> AsyncGenerator[StreamEvent | None, None]:
        """Connect, and yield None once connected, then events. Return when the server ends the connection.

        Raises OSError or an error of the client if the connection is lost, StreamEndedError at the end of the stream.
        """
        raise NotImplementedError


class StreamReader:
    """Follows a stream, and holds up to ``limit`` events that are not taken yet."""

    def __init__(self, open_stream: Callable[[], Stream], last_id: str, reconnect: Backoff, limit: int) -> None:
        self.is_connected = False
        self.problem = ""  # why the last connection was lost
        self.has_ended = False
        self._stream = open_stream()
        self._last_id = last_id
        self._reconnect = reconnect
        self._limit = limit
        self._events: deque[StreamEvent] = deque()
        self._problems: deque[str] = deque(maxlen=10)
        self._broken: BaseException | None = None
        self._client = imported("aiohttp", "http")
        self._loop = EventLoop.acquire()
        self._task = self._loop.run(self._start())

    def take(self) -> StreamEvent | None:
        """Return the next event; None if there is none now. Raises what has ended the reader, if it was unexpected."""
        if self._events:
            return self._events.popleft()
        if self._broken is not None:
            raise self._broken
        return None

    def take_problem(self) -> str | None:
        """Return why a connection was lost, once."""
        return self._problems.popleft() if self._problems else None

    def close(self) -> None:
        """End the connection."""
        self._loop.run(self._stop())
        self._loop.release()

    async def _start(self) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(self._run())

    async def _stop(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _run(self) -> None:
        timeout = self._client.ClientTimeout(total=None, sock_connect=CONNECT_S)
        failures = 0
        try:
            async with self._client.ClientSession(timeout=timeout) as session:
                while True:
                    try:
                        async with contextlib.aclosing(self._stream.follow(session, self._last_id)) as events:
                            async for event in events:
                                failures = 0 if event is not None else failures
                                await self._add(event)
                    except (OSError, self._client.ClientError) as error:
                        self.problem = self._text_of(error)
                        self._problems.append(self.problem)
                    self.is_connected = False
                    failures += 1
                    await asyncio.sleep(max(self._reconnect.pause_s(failures), self._stream.retry_s))
        except StreamEndedError:
            self.has_ended = True
        except Exception as error:
            self._broken = error
        finally:
            self.is_connected = False

    def _text_of(self, error: Exception) -> str:
        """Return the text of an error without the URL, which may contain a password."""
        if isinstance(error, self._client.ClientResponseError):
            return f"the server answered {error.status}"
        if isinstance(error, self._client.ClientError):
            return type(error).__name__
        return str(error)[:500] or type(error).__name__

    async def _add(self, event: StreamEvent | None) -> None:
        if event is None:
            self.is_connected = True
            return
        while len(self._events) >= self._limit:
            await asyncio.sleep(FULL_S)
        self._events.append(event)
        self._last_id = event.id
