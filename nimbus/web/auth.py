"""Who may see and do what over HTTP: a token in the Authorization header, or in the cookie that the login page sets.

    GET /          without a token that counts -> /login
    POST /login    token=... -> the cookie, and back to /
    POST /logout   takes the cookie away

The cookie is the token itself: nimbus keeps no sessions, so any nimbus takes it. JavaScript cannot read it, no other
site can have a browser send it, and with TLS it goes over nothing else.
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
from tupletree._security.rights import PAGES, PATHS, Principal, Right, Row
from tupletree._security.tokens import unverified
from tupletree.errors import ForbiddenError, UnauthenticatedError

from . import requests

COOKIE: Final = "tupletree-token"
_PAGE: Final = os.path.join(os.path.dirname(__file__), "static", "login.html")
_MESSAGE: Final = "<!-- message -->"
_MAX_FORM_BYTES: Final = 16 * 1024


class Authorizer:
    """Judges requests by the table of rights. Where tokens are not asked for, all may."""

    def __init__(self, keeper: Gatekeeper) -> None:
        self._keeper = keeper

    async def allow(self, request: Request, operation: str) -> str:
        """The user's name, "" where tokens are not asked for. ``operation``: method and path, as the table has them.

        Raises ForbiddenError if the user may not.
        """
        row = PATHS.get(operation) or PAGES.get(operation)
        if row is not None and row.right is Right.OPEN:
            return ""
        who = self.identify(request)
        caller.set(who)
        is_by_cookie = who is not None and bearer(request.headers.get("authorization")) is None
        if is_by_cookie and "callback" in request.query_params:
            # A page at another port of this machine, or at a neighbour, loads scripts from here with the cookie.
            raise ForbiddenError("a callback takes a token in the Authorization header: the cookie does not do for it")
        await self._keeper.judge(who, row, operation, _named(request, row))
        return who.name if who is not None else ""

    def identify(self, request: Request) -> Principal | None:
        """Who asks; None without a token. Raises UnauthenticatedError for a token that does not count."""
        token = bearer(request.headers.get("authorization")) or request.cookies.get(COOKIE)
        return self._keeper.identify(token)

    def note(self, request: Request, operation: str, error: BaseException | None, status: int = 0) -> None:
        """Write what came of a request that changes something, or was refused, into the audit log."""
        row = PATHS.get(operation)
        if error is None and status >= HTTPStatus.BAD_REQUEST:
            error = RuntimeError(f"answered with {status}")
        peer = request.client.host if request.client is not None else ""
        topology = str(_named(request, row) or "")
        self._keeper.note(operation, row, caller.get(), f"http:{peer}", topology, error)

    async def index(self, request: Request) -> Response | None:
        """Where a visitor without a token is sent instead of the first page; None for one who may see it."""
        try:
            if self._keeper.security.keyring is None or self.identify(request) is not None:
                return None
        except UnauthenticatedError:
            pass
        return RedirectResponse("/login", HTTPStatus.SEE_OTHER)

    async def login_page(self, request: Request) -> Response:
        return _page("")

    async def log_in(self, request: Request) -> Response:
        """Take a token from the form and put it into the cookie."""
        reason = requests.forbidden_post(request.headers)
        if reason is not None:
            return _page(reason, HTTPStatus.FORBIDDEN)
        data = bytearray()
        async for chunk in request.stream():
            data += chunk
            if len(data) > _MAX_FORM_BYTES:
                return _page("that is too long to be a token", HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        token = parse_qs(data.decode("utf-8", "replace")).get("token", [""])[0].strip()
        try:
            if self._keeper.identify(token or None) is None:
                return _page("paste a token", HTTPStatus.UNAUTHORIZED)
        except UnauthenticatedError as error:
            self._keeper.note("login", None, None, f"http:{request.client.host if request.client else ''}", "", error)
            return _page(str(error), HTTPStatus.UNAUTHORIZED)
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


def _named(request: Request, row: Row | None) -> str | None:
    """What a request says of its topology, in the very way in which the pages read it."""
    if row is None or not row.by:
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
