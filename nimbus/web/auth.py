"""Authorization over HTTP, by a token in the Authorization header or in the cookie that the login page sets.

    GET /          without a valid token -> /login
    POST /login    token=... -> sets the cookie, redirects to /
    POST /logout   deletes the cookie

The cookie is the token itself: nimbus keeps no sessions, so any nimbus accepts the cookie. JavaScript cannot read the
cookie (HttpOnly), other sites cannot make a browser send the cookie (SameSite=Strict), and with TLS the cookie travels
only over TLS (Secure).
"""

from __future__ import annotations

import html
import os
import time
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from tupletree._security.guard import Gatekeeper, bearer, caller
from tupletree._security.impersonation import HEADER
from tupletree._security.rights import Principal, Right, Row
from tupletree._security.tokens import unverified
from tupletree.errors import ForbiddenError, UnauthenticatedError

from . import requests
from .endpoint import Endpoint

COOKIE: Final = "tupletree-token"
_PAGE: Final = os.path.join(os.path.dirname(__file__), "static", "login.html")
_MESSAGE: Final = "<!-- message -->"
_MAX_FORM_BYTES: Final = 16 * 1024
_MAX_COOKIE: Final = 3800  # characters of a token; browsers drop cookies of more than 4,096 with name and attributes
_MAX_OPERATION: Final = 300  # characters in a line of the audit log


class Authorizer:
    """Checks requests for the required rights. If the cluster requires no tokens, every request is allowed."""

    def __init__(self, keeper: Gatekeeper) -> None:
        self._keeper = keeper

    async def allow(self, request: Request, operation: str, row: Row) -> str:
        """Authorize a request and return the user's name; "" if no token is required. Raises ForbiddenError.

        ``operation``: the request in error messages.
        """
        if row.right is Right.OPEN:
            return ""
        who = await self.identify(request)
        caller.set(who)  # for the audit log, if the next step refuses
        peer = request.client.host if request.client is not None else ""
        who = self._keeper.acting(who, request.headers.get(HEADER), peer)
        caller.set(who)
        is_by_cookie = who is not None and bearer(request.headers.get("authorization")) is None
        if is_by_cookie and "callback" in request.query_params:
            # A page at another port of this host, or at a sibling host, can load scripts from here with the cookie.
            raise ForbiddenError("a callback requires a token in the Authorization header, not in a cookie")
        await self._keeper.judge(who, row, operation, _named(request, row))
        return who.name if who is not None else ""

    async def identify(self, request: Request) -> Principal | None:
        """Return the caller; None without a token. Raises UnauthenticatedError for an invalid token."""
        token = bearer(request.headers.get("authorization")) or request.cookies.get(COOKIE)
        return await self._keeper.identify(token)

    def audit(self, request: Request, endpoint: Endpoint, error: BaseException | None, status: int = 0) -> None:
        """Write the outcome of a request to the audit log if the request changes state or was refused."""
        if error is None and status >= HTTPStatus.BAD_REQUEST:
            error = RuntimeError(f"answered with {status}")
        peer = request.client.host if request.client is not None else ""
        topology = str(_named(request, endpoint.row) or "")
        operation = endpoint.operation
        if not endpoint.row.by:  # nothing else names the store of a dead letter
            operation = f"{endpoint.method} {request.url.path}?{request.url.query}".rstrip("?")[:_MAX_OPERATION]
        self._keeper.log_outcome(operation, endpoint.row, caller.get(), f"http:{peer}", topology, error)

    async def index(self, request: Request) -> Response | None:
        """Return a redirect to the login page for visitors without a valid token; None for all others."""
        try:
            if self._keeper.security.keyring is None or await self.identify(request) is not None:
                return None
        except UnauthenticatedError:
            pass
        return RedirectResponse("/login", HTTPStatus.SEE_OTHER)

    async def login_page(self, request: Request) -> Response:
        return _page("")

    async def log_in(self, request: Request) -> Response:
        """Validate the token in the form and store the token in the cookie."""
        reason = requests.forbidden_post(request.headers)
        if reason is not None:
            return _page(reason, HTTPStatus.FORBIDDEN)
        data = bytearray()
        async for chunk in request.stream():
            data += chunk
            if len(data) > _MAX_FORM_BYTES:
                return _page("the text is too long to be a token", HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        token = parse_qs(data.decode("utf-8", "replace")).get("token", [""])[0].strip()
        try:
            if await self._keeper.identify(token or None) is None:
                return _page("paste a token", HTTPStatus.UNAUTHORIZED)
        except UnauthenticatedError as error:
            self._keeper.log_outcome(
                "login", None, None, f"http:{request.client.host if request.client else ''}", "", error
            )
            return _page(str(error), HTTPStatus.UNAUTHORIZED)
        if len(token) > _MAX_COOKIE:
            return _page(
                f"the token has {len(token):,} characters, and browsers keep {_MAX_COOKIE:,}: have its issuer put "
                "fewer claims into it",
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            )
        reply = RedirectResponse("/", HTTPStatus.SEE_OTHER)
        lifetime_s = max(0, int(unverified(token)["exp"] - time.time()))
        is_secure = request.url.scheme == "https"
        reply.set_cookie(
            COOKIE, token, max_age=lifetime_s, path="/", secure=is_secure, httponly=True, samesite="strict"
        )
        return reply

    async def log_out(self, request: Request) -> Response:
        if requests.forbidden_post(request.headers) is not None:
            return _page("", HTTPStatus.FORBIDDEN)
        reply = RedirectResponse("/login", HTTPStatus.SEE_OTHER)
        reply.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
        return reply


def _named(request: Request, row: Row) -> str | None:
    """Return the topology reference in a request, parsed exactly as the handlers parse it."""
    if not row.by:
        return None
    query = dict(request.query_params)
    if row.by == "id":
        return str(request.path_params.get("id", ""))
    if row.by == "file":
        return query.get("file", "").split("/")[0]
    return query.get(row.by, "")


def _page(message: str, status: HTTPStatus = HTTPStatus.OK) -> Response:
    with open(_PAGE, encoding="utf-8") as file:
        text = file.read()
    shown = f'<p role="alert">{html.escape(message)}</p>' if message else ""
    return HTMLResponse(text.replace(_MESSAGE, shown), status, headers={"cache-control": "no-store"})
