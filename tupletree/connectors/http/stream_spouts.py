"""Spouts over streams that a server sends for as long as a connection lasts: server-sent events, WebSockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from typing import Any, Final

from tupletree._wire.fail_reasons import FailReason
from tupletree.component import SpoutCollector, TopologyContext
from tupletree.connectors.arguments import check, check_field, check_headers, check_seconds, check_whole
from tupletree.connectors.formats import Format, FormatError, Text, checked_format
from tupletree.connectors.http.addresses import checked_url, shown
from tupletree.connectors.http.event_parser import EventParser, StreamEvent
from tupletree.connectors.http.stream_reader import Stream, StreamEndedError, StreamReader
from tupletree.connectors.source_thread import register_thread
from tupletree.errors import UnavailableError
from tupletree.outputs import DEFAULT_STREAM
from tupletree.reliable_spout import Message, ReliableSpout

MIB: Final = 1024 * 1024


class StreamSpout(ReliableSpout):
    """Common base of the two spouts. Each task has a connection of its own, and gets every event of the stream."""

    _reader: StreamReader | None = None

    def __init__(self, url: str, format: Format | None, max_in_flight: int, silence_s: float, max_bytes: int) -> None:
        name = type(self).__name__
        check_whole(name, "max_in_flight", max_in_flight)
        check_seconds(name, "silence_s", silence_s)
        self.url = url
        self.format = checked_format(self, format, Text)
        self.outputs = self.format.outputs  # type: ignore[misc]  # set per instance, unlike in other spouts
        self.blocking = self.format.blocking
        self.max_ahead = max_in_flight
        self.silence_s = silence_s
        self.max_bytes = max_bytes
        self._number = 0

    def _open_stream(self) -> Stream:
        raise NotImplementedError

    def _row(self, row: Sequence[Any], event: StreamEvent) -> Sequence[Any]:
        """Return the values of an event, given those of its data."""
        return row

    def open(self, conf: Mapping[str, Any], context: TopologyContext, collector: SpoutCollector) -> None:
        register_thread(context, self, "queue", shown(self.url))

    def close(self) -> None:
        """Commit the last position, and end the connection."""
        super().close()
        self._rows = None  # ends ``read``

    @property
    def is_connected(self) -> bool:
        """True while the connection stands."""
        return self._reader is not None and self._reader.is_connected

    @property
    def outstanding(self) -> int:
        """The number of messages from the oldest that is not processed up to the newest."""
        return 0 if self._kept is None else len(self._kept)

    @property
    def lag(self) -> int | None:
        """None: a server does not say how much it has to send."""
        return None

    @property
    def error(self) -> str:
        """The reason why the last connection was lost."""
        return "" if self._reader is None else self._reader.problem

    @property
    def refusal(self) -> str:
        """Empty: a stream has no parts that could be refused."""
        return ""

    def read(self) -> Iterator[Message | None]:
        reader = self._reader = StreamReader(self._open_stream, self.position or "", self.reconnect, self.max_ahead)
        try:
            while True:
                while (problem := reader.take_problem()) is not None:
                    self.collector.report_error(UnavailableError(f"{shown(self.url)}: {problem}"))
                event = reader.take()
                if event is not None:
                    yield from self._messages(event)
                elif reader.has_ended:
                    return
                else:
                    yield None
        finally:
            self._reader = None
            reader.close()

    def _messages(self, event: StreamEvent) -> Iterator[Message | None]:
        """Yield the message of an event, and None while it cannot be decoded for now."""
        self._number += 1
        id, position, failures, again_s = event.id or f"#{self._number}", event.id or None, 0, 0.0
        while True:
            try:
                if self.context.clock() >= again_s:
                    yield Message(self._row(self.format.decode(event.data), event), id, position)
                    return
            except UnavailableError as error:
                failures += 1
                again_s = self.context.clock() + self.reconnect.pause_s(failures)
                self.collector.report_error(error)
            except FormatError as error:
                self._refuse(event.data, id, position, error)
                return
            yield None

    def _refuse(self, data: bytes, id: str, position: str | None, error: FormatError) -> None:
        """Give a message up that cannot be decoded."""
        self._is_counted = False
        self._read_rows += 1
        self._last = position
        pending = self._replay.begin([data], DEFAULT_STREAM, id, position)
        reason = FailReason.of(self.context.component_id, self.context.task_id, error)
        self._replay.count_attempt(pending, FailReason(reason.component, reason.task, reason.error, retry=False))
        self._give_up(pending)


class EventStreamSpout(StreamSpout):
    """Emits the server-sent events of an HTTP response, and reconnects with the id of the last event.

        EventStreamSpout("https://stream.example/changes", Json(["id", "title"]), event_field="event")

    **Guarantee.** An event that was received is emitted until it is processed, as long as the worker lives, also over
    reconnects. After a reconnect the server is sent ``Last-Event-ID``: events sent meanwhile arrive if the server gives
    events ids and keeps them, and are lost otherwise. A worker that dies loses its events in process, unless the id is
    kept: with aligned checkpoints it is part of the checkpoint, and a subclass may save it in ``commit`` and set
    ``self.position`` in ``setup``. Then the stream is at least once, as far as the server keeps it.

    An event that ``format`` cannot read is given up at once: a dead letter, or a reported error. Status 204 ends the
    stream; after any other answer than an event stream the spout reports it, and asks again after a pause.

    Needs the extra ``tupletree[http]``.

    Args:
        url: the URL, which begins with http:// or https://.
        format: decodes the data of events; its fields are the spout's outputs. By default Text.
        event_field: a further field, with the type of the event.
        headers: further headers of the request.
        max_in_flight: the maximum number of events in process per task, and of those received ahead.
        silence_s: a connection on which nothing arrives for so long is taken for lost; servers send comments.
        max_event_bytes: the maximum size of an event; a larger one ends the connection, which is reported.

    Raises:
        UsageError: the URL is not one, or a number is out of range.
    """

    def __init__(
        self,
        url: str,
        format: Format | None = None,
        *,
        event_field: str | None = None,
        headers: Mapping[str, str] | None = None,
        max_in_flight: int = 1000,
        silence_s: float = 300.0,
        max_event_bytes: int = MIB,
    ) -> None:
        checked_url("EventStreamSpout", url, ("http", "https"))
        check_field("EventStreamSpout", "event_field", event_field)
        check_headers("EventStreamSpout", "headers", headers)
        check_whole("EventStreamSpout", "max_event_bytes", max_event_bytes)
        super().__init__(url, format, max_in_flight, silence_s, max_event_bytes)
        self.event_field = event_field
        if event_field is not None:
            self.outputs = [*self.format.fields, event_field]  # type: ignore[misc]
        self.headers = {"Accept": "text/event-stream", "Cache-Control": "no-cache", **(headers or {})}

    def _open_stream(self) -> Stream:
        return EventStream(self.url, self.headers, self.silence_s, self.max_bytes)

    def _row(self, row: Sequence[Any], event: StreamEvent) -> Sequence[Any]:
        return row if self.event_field is None else [*row, event.kind]


class WebSocketSpout(StreamSpout):
    """Emits the messages that a WebSocket server sends.

        WebSocketSpout("wss://feed.example/trades", Json(["pair", "price"]), subscribe=['{"subscribe": "trades"}'])

    **At most once.** A message that was received is emitted until it is processed, as long as the worker lives. The
    protocol has no way to ask for earlier messages: those sent while the spout is not connected are lost, and so are
    those in process when its worker dies, unless the server sends them again for a message of ``subscribe``.

    A message that ``format`` cannot read is given up at once: a dead letter, or a reported error.

    Needs the extra ``tupletree[http]``.

    Args:
        url: the URL, which begins with ws:// or wss://.
        format: decodes messages; text arrives as UTF-8. Its fields are the spout's outputs. By default Text.
        subscribe: messages to send after each connect.
        headers: further headers of the request.
        max_in_flight: the maximum number of messages in process per task, and of those received ahead.
        silence_s: a connection on which nothing arrives for so long, not even the answer to a ping, is taken for lost.
        max_message_bytes: the maximum size of a message; a larger one ends the connection, which is reported.

    Raises:
        UsageError: the URL is not one, or a number is out of range.
    """

    def __init__(
        self,
        url: str,
        format: Format | None = None,
        *,
        subscribe: Sequence[str] = (),
        headers: Mapping[str, str] | None = None,
        max_in_flight: int = 1000,
        silence_s: float = 60.0,
        max_message_bytes: int = MIB,
    ) -> None:
        checked_url("WebSocketSpout", url, ("ws", "wss"))
        messages = [subscribe] if isinstance(subscribe, str) else subscribe
        is_list = isinstance(messages, list | tuple) and all(isinstance(one, str) for one in messages)
        check("WebSocketSpout", "subscribe", subscribe, is_list, "a list of texts", is_secret=True)
        check_headers("WebSocketSpout", "headers", headers)
        check_whole("WebSocketSpout", "max_message_bytes", max_message_bytes)
        super().__init__(url, format, max_in_flight, silence_s, max_message_bytes)
        self.subscribe = list(messages)
        self.headers = dict(headers or {})

    def _open_stream(self) -> Stream:
        return WebSocket(self.url, self.headers, self.silence_s, self.max_bytes, self.subscribe)


class EventStream(Stream):
    """Server-sent events."""

    def __init__(self, url: str, headers: Mapping[str, str], silence_s: float, max_bytes: int) -> None:
        self._url = url
        self._headers = headers
        self._silence_s = silence_s
        self._max_bytes = max_bytes

    async def follow(self, session: Any, last_id: str) -> AsyncGenerator[StreamEvent | None, None]:
        from aiohttp import ClientTimeout

        headers = {**self._headers, "Last-Event-ID": last_id} if last_id else self._headers
        timeout = ClientTimeout(total=None, sock_connect=session.timeout.sock_connect, sock_read=self._silence_s)
        async with session.get(self._url, headers=headers, timeout=timeout) as answer:
            if answer.status == 204:
                raise StreamEndedError
            if answer.status != 200 or answer.content_type != "text/event-stream":
                said = f"{answer.status} with {answer.content_type}"
                raise ConnectionError(f"the server answered {said}, and an event stream was expected")
            yield None
            parser = EventParser(self._max_bytes, last_id)
            async for chunk in answer.content.iter_any():
                try:
                    events = parser.feed(chunk)
                except ValueError as error:
                    raise ConnectionError(str(error)) from error
                self.retry_s = parser.retry_s
                for event in events:
                    yield event


class WebSocket(Stream):
    """The messages of a WebSocket server."""

    def __init__(
        self, url: str, headers: Mapping[str, str], silence_s: float, max_bytes: int, subscribe: Sequence[str]
    ) -> None:
        self._url = url
        self._headers = headers
        self._silence_s = silence_s
        self._max_bytes = max_bytes
        self._subscribe = subscribe

    async def _connect(self, session: Any) -> Any:
        options = {"headers": self._headers, "max_msg_size": self._max_bytes, "autoping": False}
        try:
            async with asyncio.timeout(self._silence_s):
                return await session.ws_connect(self._url, **options)
        except TimeoutError:
            raise ConnectionError(f"the server has not answered the handshake for {self._silence_s:g} s") from None

    async def follow(self, session: Any, last_id: str) -> AsyncGenerator[StreamEvent | None, None]:
        from aiohttp import WSMsgType

        async with await self._connect(session) as socket:
            for message in self._subscribe:
                await socket.send_str(message)
            yield None
            has_pinged = False
            while True:
                try:
                    message = await socket.receive(timeout=self._silence_s / 2)
                except TimeoutError:
                    if has_pinged:
                        raise ConnectionError(f"nothing has arrived for {self._silence_s:g} s") from None
                    has_pinged = True
                    await socket.ping()
                    continue
                has_pinged = False
                match message.type:
                    case WSMsgType.TEXT:
                        yield StreamEvent(message.data.encode())
                    case WSMsgType.BINARY:
                        yield StreamEvent(message.data)
                    case WSMsgType.PING:
                        await socket.pong(message.data)
                    case WSMsgType.ERROR:
                        raise ConnectionError(str(message.data))
                    case WSMsgType.CLOSE | WSMsgType.CLOSING | WSMsgType.CLOSED:
                        return
