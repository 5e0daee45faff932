"""The requests that a webhook spout has accepted and not answered, and the answers that it remembers.

admit ----> open ----> finish        a repetition of an open request joins it,
                                     one of a remembered request gets the remembered answer
"""

from __future__ import annotations  # pure

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

Answer = tuple[HTTPStatus, str, bytes]
"""Status, content type and body, as the HTTP server sends them."""


def sentence(status: HTTPStatus, text: str) -> Answer:
    """Return an answer of one sentence."""
    return status, "text/plain; charset=utf-8", f"{text}\n".encode()


PROCESSED: Final = sentence(HTTPStatus.OK, "processed")
ACCEPTED: Final = sentence(HTTPStatus.ACCEPTED, "accepted")
GIVEN_UP: Final = sentence(HTTPStatus.UNPROCESSABLE_ENTITY, "the request was given up: it would fail again")
FAILED: Final = sentence(HTTPStatus.SERVICE_UNAVAILABLE, "the request failed: send it again later")
FULL: Final = sentence(HTTPStatus.SERVICE_UNAVAILABLE, "too many requests are in process: send it again later")
INACTIVE: Final = sentence(HTTPStatus.SERVICE_UNAVAILABLE, "the topology is deactivated: send it again later")
LATE: Final = sentence(HTTPStatus.SERVICE_UNAVAILABLE, "the request is not processed yet: send it again later")
UNDECODED: Final = sentence(HTTPStatus.SERVICE_UNAVAILABLE, "the body cannot be decoded now: send it again later")
OTHER_BODY: Final = sentence(HTTPStatus.UNPROCESSABLE_ENTITY, "the key belongs to a request with another body")

REMEMBERED: Final = (HTTPStatus.OK, HTTPStatus.UNPROCESSABLE_ENTITY)
"""The answers that are remembered: after the others, the request is processed if it is sent again."""


@dataclass(eq=False, slots=True)
class OpenRequest:
    """A request that is not processed. ``id``: its key, if it has one, which becomes the message's id.

    ``callers``: functions that answer those who wait. ``is_withdrawn``: it was answered before it was emitted.
    """

    id: str | None
    body: bytes
    row: Sequence[Any]
    callers: list[Callable[[Answer], None]] = field(default_factory=list)
    is_emitted: bool = False
    is_withdrawn: bool = False


class OpenRequests:
    """The requests of one task: at most ``max_open``, and as many callers; at most ``max_remembered`` answers."""

    def __init__(self, max_open: int, max_remembered: int) -> None:
        self._max_open = max_open
        self._max_remembered = max_remembered
        self._by_key: dict[str, OpenRequest] = {}
        self._open: dict[OpenRequest, None] = {}
        self._remembered: OrderedDict[str, tuple[int, Answer]] = OrderedDict()  # the oldest first
        self.callers = 0

    def __len__(self) -> int:
        """The number of open requests."""
        return len(self._open)

    @property
    def is_full(self) -> bool:
        """True if no further caller can wait, or no further request be open."""
        return max(len(self._open), self.callers) >= self._max_open

    def find(self, key: str, body: bytes) -> OpenRequest | Answer | None:
        """Return the open request with this key, or its answer if it is remembered; None for a new key."""
        if (request := self._by_key.get(key)) is not None:
            return request if request.body == body else OTHER_BODY
        if (known := self._remembered.get(key)) is not None:
            digest, answer = known
            return answer if digest == hash(body) else OTHER_BODY
        return None

    def admit(self, request: OpenRequest) -> None:
        """Add a new request. Only if there is room."""
        self._open[request] = None
        if request.id is not None:
            self._by_key[request.id] = request

    def finish(self, request: OpenRequest, answer: Answer) -> None:
        """Remove a request, answer its callers, and remember the answer if the request has a key."""
        if self._open.pop(request, self) is self:
            return
        if request.id is not None:
            del self._by_key[request.id]
            if answer[0] in REMEMBERED and self._max_remembered:
                self._remembered[request.id] = hash(request.body), answer
                if len(self._remembered) > self._max_remembered:
                    self._remembered.popitem(last=False)
        for tell in request.callers:
            tell(answer)

    def withdraw(self, request: OpenRequest, answer: Answer) -> None:
        """Answer a request that was not emitted, and never will be."""
        request.is_withdrawn = True
        self.finish(request, answer)
