"""Parsing and validation of REST requests, and encoding of responses."""

from __future__ import annotations  # pure

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlsplit

from tupletree.errors import (
    AuthorityError,
    ConflictError,
    ForbiddenError,
    NameInUseError,
    NotFoundError,
    UnauthenticatedError,
    UnavailableError,
    UsageError,
)

from .formatting import window_of

MAX_BODY_BYTES: Final = 1_000_000
MAX_DISCARDED_BYTES: Final = 4 * MAX_BODY_BYTES  # maximum bytes of a refused body that are read
_CALLBACK: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*(\.[A-Za-z_$][A-Za-z0-9_$]*)*")
_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9_.-]+)(:[0-9]{1,5})?")
_YES: Final = frozenset({"1", "true", "yes"})


class StoreFailedError(UnavailableError):
    """A store of dead letters, or the worker of a state, does not answer.

    The status is not 503, which tells a page that no nimbus leads.
    """


# Most specific type first.
_STATUSES: Final = (
    (StoreFailedError, HTTPStatus.BAD_GATEWAY),
    (NotFoundError, HTTPStatus.NOT_FOUND),
    (NameInUseError, HTTPStatus.CONFLICT),
    (UsageError, HTTPStatus.BAD_REQUEST),
    (ConflictError, HTTPStatus.CONFLICT),
    (UnauthenticatedError, HTTPStatus.UNAUTHORIZED),
    (ForbiddenError, HTTPStatus.FORBIDDEN),
    (AuthorityError, HTTPStatus.FORBIDDEN),
    (UnavailableError, HTTPStatus.SERVICE_UNAVAILABLE),
)


@dataclass(frozen=True)
class ApiCall:
    """A request, as passed to endpoints."""

    path: Mapping[str, str] = field(default_factory=dict)  # values of {…} in the path
    query: Mapping[str, str] = field(default_factory=dict)
    body: Any = None  # parsed JSON; None if there was none
    base: str = ""  # URL of this nimbus as the client addresses it: http://host:port
    user: str = ""
    accept: str = ""

    @property
    def window(self) -> str:
        """The requested window. Raises UsageError for an unknown window."""
        return window_of(self.query.get("window", ""))

    @property
    def sys(self) -> bool:
        """True if system components and streams are included."""
        return self.query.get("sys", "").lower() in _YES

    @property
    def wants_json(self) -> bool:
        """True if the client requests a log as JSON rather than text."""
        return self.query.get("format") == "json" or (
            not self.query.get("format") and "application/json" in self.accept
        )

    def seconds(self, name: str) -> float:
        """Parse a number of seconds in the path. Raises UsageError."""
        text = self.path[name]
        try:
            return float(text)
        except ValueError:
            raise UsageError(f"{name} is a number of seconds, not {text[:40]!r}") from None

    def whole(self, name: str, default: int, least: int, most: int) -> int:
        """Parse a whole number in the query. Raises UsageError."""
        text = self.query.get(name, "")
        if not text:
            return default
        if not re.fullmatch(r"-?[0-9]{1,18}", text) or not least <= int(text) <= most:
            raise UsageError(f"{name} is a whole number from {least} to {most}, not {text[:40]!r}")
        return int(text)


def encode(value: Any, callback: str = "") -> tuple[str, bytes]:
    """Return content type and body of a response. Raises UsageError if ``callback`` is no JavaScript function name."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    if not callback:
        return "application/json", text.encode("utf-8", "replace")
    if len(callback) > 100 or not _CALLBACK.fullmatch(callback):
        raise UsageError("callback must be the name of a JavaScript function, of letters, digits, _, $ and dots")
    safe = text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return "application/javascript", f"/**/{callback}({safe});".encode("utf-8", "replace")


def decode_body(data: bytes) -> Any:
    """Parse a request's JSON body; None for an empty body. Raises UsageError."""
    if not data.strip():
        return None
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise UsageError("the body is not JSON") from None


def failure(error: BaseException) -> tuple[HTTPStatus, dict[str, str]]:
    """Return the HTTP status and JSON body of an error. Unexpected errors reveal no details."""
    for kind, status in _STATUSES:
        if isinstance(error, kind):
            return status, refusal(status, str(error))
    return HTTPStatus.INTERNAL_SERVER_ERROR, refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "internal error")


def refusal(status: HTTPStatus, sentence: str) -> dict[str, str]:
    """Return an error body in Storm's format."""
    return {"error": f"{status.value} {status.phrase}", "errorMessage": sentence}


def base_of(scheme: str, host: str, fallback: str) -> str:
    """Return the URL of this nimbus from the Host header; from ``fallback`` (host:port) if the header is invalid."""
    return f"{scheme}://{host if len(host) <= 300 and _HOST.fullmatch(host) else fallback}"


def forbidden_post(headers: Mapping[str, str]) -> str | None:
    """Return the reason for refusing a POST as possibly cross-site; None if the POST is allowed.

    A browser sends the page's Origin. Before sending JSON or a custom header to another site, a browser makes a CORS
    preflight request, which nimbus never grants.
    """
    origin = headers.get("origin", "")
    if origin:
        try:
            own = origin != "null" and urlsplit(origin).netloc.lower() == headers.get("host", "").lower()
        except ValueError:  # not a valid URL
            own = False
        return None if own else f"a page of {origin[:200]} may not change anything here"
    content_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type == "application/json" or "x-requested-with" in headers:
        return None
    return "a POST needs the header 'X-Requested-With', or the content type application/json"
