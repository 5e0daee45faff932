"""The HTTP face: GET /drpc/FUNCTION, GET /drpc/FUNCTION/ARGS and POST /drpc/FUNCTION, as Storm has them.

    200  the answer: text as it is, any other value as JSON
    400  the name or the arguments are wrong            403  the caller may not call the function
    429  too many requests are pending
    500  a bolt failed the request, or there is no result    503  lost with a process, or the server ends
    504  not answered in time

Text in a path or in a body is the argument as text; a body of the content type application/json is the value itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final
from urllib.parse import unquote

from tupletree._daemon.http_connection import Page, Request
from tupletree._security.guard import caller
from tupletree.drpc.requests import Kind
from tupletree.drpc.values import decoded, encoded
from tupletree.errors import ForbiddenError, OverloadedError, UnavailableError, UsageError

from .desk import Desk

PREFIX: Final = "/drpc/"
TEXT: Final = "text/plain; charset=utf-8"
_STATUS: Final[Mapping[Kind, HTTPStatus]] = {
    Kind.FAILED: HTTPStatus.INTERNAL_SERVER_ERROR,
    Kind.TIMEOUT: HTTPStatus.GATEWAY_TIMEOUT,
    Kind.LOST: HTTPStatus.SERVICE_UNAVAILABLE,
    Kind.SHUTDOWN: HTTPStatus.SERVICE_UNAVAILABLE,
}


class Pages:
    """Answers HTTP requests by executing functions."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def call(self, rest: str, request: Request | None) -> Page:
        """Answer GET (``request`` None) or POST of a path; ``rest`` follows /drpc/."""
        function, slash, text = unquote(rest).partition("/")
        try:
            if request is None:
                args = encoded(text if slash else None, "the argument")
            else:
                args = _args_of(request)
            ended = await self._desk.execute(caller.get(), function, args)
        except UsageError as error:
            return _sentence(HTTPStatus.BAD_REQUEST, error)
        except ForbiddenError as error:
            return _sentence(HTTPStatus.FORBIDDEN, error)
        except OverloadedError as error:
            return _sentence(HTTPStatus.TOO_MANY_REQUESTS, error)
        except UnavailableError as error:
            return _sentence(HTTPStatus.SERVICE_UNAVAILABLE, error)
        if ended.kind is not Kind.ANSWERED:
            return _sentence(_STATUS[ended.kind], ended.text)
        if ended.text.startswith('"'):
            return HTTPStatus.OK, TEXT, json.loads(ended.text).encode("utf-8", "replace")
        return HTTPStatus.OK, "application/json", ended.text.encode("utf-8", "replace")


def _args_of(request: Request) -> str:
    kind = (request.header("content-type") or "").partition(";")[0].strip().lower()
    try:
        text = request.body.decode()
    except UnicodeDecodeError:
        raise UsageError("the body must be text in UTF-8") from None
    return encoded(decoded(text, "the body") if kind == "application/json" else text, "the body")


def _sentence(status: HTTPStatus, text: object) -> Page:
    return status, TEXT, f"{text}\n".encode("utf-8", "replace")
