"""HttpBolt: posts each tuple to an HTTP server, many at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Final

from tupletree.async_bolt import AsyncBolt
from tupletree.backoff import Backoff
from tupletree.connectors.arguments import check_field, check_headers, check_seconds, check_whole
from tupletree.connectors.extras import imported
from tupletree.connectors.formats import Format, FormatError, Json, checked_format
from tupletree.connectors.http.addresses import checked_url, shown
from tupletree.connectors.sinks import message_id
from tupletree.errors import FailedException, ReportedFailedException, UnavailableError
from tupletree.tuples import Tuple

RETRIED: Final = frozenset({408, 425, 429})
"""Statuses below 500 after which a request is sent again. All from 500 on are, too."""
MAX_SHOWN: Final = 200
MAX_READ: Final = 64 * 1024


class RefusedForNowError(UnavailableError):
    """The server answered that the request is to be sent again. ``pause_s``: not before this time has passed."""

    def __init__(self, text: str, pause_s: float) -> None:
        super().__init__(text)
        self.pause_s = pause_s


class HttpBolt(AsyncBolt):
    """Posts each tuple, and acks it when the server has answered with a status from 200 to 299.

        HttpBolt("https://billing.example/orders", Json(["order", "amount"]), id_field="order")

    **At least once.** A request is sent again after connection errors, timeouts and the statuses 408, 425, 429 and from
    500 on: after the pauses of ``retry``, or Retry-After if that is longer, but at most ``retry.max_s``. After the last
    attempt its tuple fails, and so does a tuple whose worker has died; the spout replays it. With ``id_field`` all
    requests for a tuple have the same ``Idempotency-Key``, by which a server can recognise repetitions.

    **Refusals.** After any other status the tuple fails without a retry, for the dead letters of the spout, and so does
    a tuple that ``format`` cannot write. Redirects are not followed: they are refusals.

    **Back-pressure.** At most ``in_flight`` requests are sent and not answered, over as many connections, per task.

    Needs the extra ``tupletree[http]``.

    Args:
        url: the URL, which begins with http:// or https://. A password in the URL is sent, and shown in no error.
        format: writes the bodies; ``Json()`` and others as for queues.
        id_field: the field with the key of the request: text, a whole number or a UUID.
        headers: further headers of all requests. By default Content-Type is application/json for Json, and
            application/octet-stream for others.
        in_flight: the maximum number of requests that are not answered, per task.
        timeout_s: the maximum duration of one attempt.

    Raises:
        UsageError: the URL is not one, or a number is out of range.

    Attributes:
        retry: the attempts and the pauses between them.
    """

    retry: Backoff | None = Backoff(first_s=0.1, factor=2, max_s=30, max_attempts=5)

    def __init__(
        self,
        url: str,
        format: Format | None = None,
        *,
        id_field: str | None = None,
        headers: Mapping[str, str] | None = None,
        in_flight: int = 100,
        timeout_s: float = 30.0,
    ) -> None:
        self.url = checked_url("HttpBolt", url, ("http", "https"))
        check_field("HttpBolt", "id_field", id_field)
        check_headers("HttpBolt", "headers", headers)
        check_whole("HttpBolt", "in_flight", in_flight)
        check_seconds("HttpBolt", "timeout_s", timeout_s)
        self.format = checked_format(self, format)
        self.id_field = id_field
        content = "application/json" if isinstance(self.format, Json) else "application/octet-stream"
        self.headers = {"Content-Type": content, **(headers or {})}
        self.in_flight = in_flight
        self.timeout_s = timeout_s

    async def open_async(self) -> None:
        client = imported("aiohttp", "http")
        self._lost_on = client.ClientError
        connector = client.TCPConnector(limit=self.in_flight)
        self._session = client.ClientSession(connector=connector, timeout=client.ClientTimeout(total=None))

    async def close_async(self) -> None:
        await self._session.close()

    async def execute(self, tup: Tuple) -> None:
        try:
            key = message_id(tup, self.id_field)
            encode = self.format.encode
            body = await asyncio.to_thread(encode, tup) if self.format.blocking else encode(tup)
        except FormatError as error:
            raise FailedException(str(error), retry=False) from error
        headers = self.headers if key is None else {**self.headers, "Idempotency-Key": key}
        try:
            async with self._session.post(self.url, data=body, headers=headers, allow_redirects=False) as answer:
                text = await answer.content.read(MAX_READ)  # a connection is used again if its answer was read
                self._judge(answer.status, answer.headers, text)
        except self._lost_on as error:
            raise UnavailableError(f"{shown(self.url)} cannot be reached: {type(error).__name__}") from error

    def _judge(self, status: int, headers: Mapping[str, str], text: bytes) -> None:
        """Return for a request that was processed. Raises FailedException or RefusedForNowError for others."""
        if 200 <= status < 300:
            return
        refusal = f"{shown(self.url)} answered {status}: {text[:MAX_SHOWN].decode(errors='replace').strip()}"
        if status in RETRIED or status >= 500:
            raise RefusedForNowError(refusal, pause_of(headers.get("Retry-After"), headers.get("Date")))
        raise ReportedFailedException(refusal, retry=False)

    def pause_s(self, error: BaseException, attempts: int, retry: Backoff) -> float:
        asked_s = error.pause_s if isinstance(error, RefusedForNowError) else 0.0
        return max(retry.pause_s(attempts), min(asked_s, retry.max_s))


def pause_of(retry_after: str | None, date: str | None) -> float:
    """Return the seconds of a header Retry-After: a number, or a time after the header Date; 0 for anything else."""
    text: Any = (retry_after or "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        return max(0.0, (parsedate_to_datetime(text) - parsedate_to_datetime(date or "")).total_seconds())
    except (ValueError, TypeError):
        return 0.0
