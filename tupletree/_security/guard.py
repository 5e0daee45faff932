"""The check in front of every gRPC method: authentication, authorization, and a line in the audit log.

    metadata -> token -> Principal -> row of the call -> topology that the request names -> may / may not

A request stream is judged by its first message. Later messages belong to the same topology, because only the first
message names a topology.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

import grpc
import grpc.aio

from tupletree._log import event
from tupletree._security.audit import AuditLog
from tupletree._security.current import Security
from tupletree._security.impersonation import HEADER, impersonated
from tupletree._security.methods import parts_of
from tupletree._security.rights import CALLS, Acl, Principal, Right, Row, refusal
from tupletree.errors import ForbiddenError, ProtocolError, UnauthenticatedError

log = logging.getLogger("tupletree.security")

Topologies = Callable[[str, Any], Awaitable[Acl | None]]
"""Returns the access list of a topology, given "name", "topology_id" or "port" and a value; None if unknown."""

FIRST_MESSAGE_S: Final = 10.0
_BEARER: Final = "bearer "

caller: ContextVar[Principal | None] = ContextVar("caller", default=None)
"""The caller of the current call. None: tokens are disabled, or the call is open to everybody."""


def bearer(authorization: str | None) -> str | None:
    """Return the token of an Authorization header."""
    if authorization is None or authorization[: len(_BEARER)].lower() != _BEARER:
        return None
    return authorization[len(_BEARER) :].strip()


@dataclass(frozen=True)
class Gatekeeper:
    """Authorizes gRPC calls and HTTP requests. ``topologies`` None: this process needs no access lists."""

    security: Security
    topologies: Topologies | None = None
    audit: AuditLog | None = None

    async def identify(self, token: str | None) -> Principal | None:
        """Return the bearer of this token; None without a token. Raises UnauthenticatedError for an invalid token."""
        if token is None or self.security.keyring is None:
            return None
        oidc = self.security.oidc
        if oidc is not None and oidc.is_for(token):
            return await oidc.verify(token)
        return self.security.keyring.verify(token)

    def acting(self, who: Principal | None, as_user: str | None, peer: str) -> Principal | None:
        """Return the user in whose name ``who`` calls, by the header ``as_user``. Raises ForbiddenError."""
        return who if self.security.keyring is None else impersonated(who, as_user, peer, self.security.proxies)

    async def judge(self, who: Principal | None, row: Row | None, operation: str, named: Any = None) -> str:
        """Raise ForbiddenError unless ``who`` may make the call. ``named``: the request's reference to a topology.
        Returns the topology's name for the audit log."""
        label = "" if named is None else str(named)
        if self.security.keyring is None:
            return label
        topology: Acl | str | None = None
        if row is not None and row.by and who is not None:  # no ZooKeeper access for unauthenticated callers
            if row.right is Right.WORKER:
                topology = str(named)
            elif self.topologies is not None:
                topology = await self.topologies(row.by, named)
        why = refusal(who, row, operation, self.security.admins, topology)
        if why is not None:
            raise UnauthenticatedError(why) if who is None else ForbiddenError(why)
        return label

    def log_outcome(
        self,
        operation: str,
        row: Row | None,
        who: Principal | None,
        peer: str,
        topology: str,
        error: BaseException | None,
    ) -> None:
        """Log the outcome of a call that changes something or was refused to the audit log, if there is one."""
        refused = isinstance(error, ForbiddenError)
        if self.audit is None:
            if refused:
                event(log, "call.refused", level=logging.WARNING, operation=operation, peer=peer, cause=error)
            return
        if not refused and (row is None or not row.mutates):
            return
        through = {"through": who.through} if who is not None and who.through else {}
        outcome = "done" if error is None else "refused" if refused else "failed"
        self.audit.write(
            operation, who, peer, outcome, topology=topology, why="" if error is None else str(error), **through
        )


class _Call:
    """One call to authorize."""

    __slots__ = ("_gate", "_peer", "operation", "row", "topology", "who")

    def __init__(self, gate: Gatekeeper, row: Row | None, operation: str, peer: str) -> None:
        self._gate = gate
        self._peer = peer
        self.row = row
        self.operation = operation
        self.who: Principal | None = None
        self.topology = ""

    async def identify(self, metadata: Any) -> None:
        """Determine the caller. Raises UnauthenticatedError."""
        headers = {key: value for key, value in metadata or () if key in ("authorization", HEADER)}
        self.who = await self._gate.identify(bearer(headers.get("authorization")))
        self.who = self._gate.acting(self.who, headers.get(HEADER), self._peer)

    async def admit(self, request: Any) -> None:
        """Raise ForbiddenError unless the caller may make the call. Sets ``caller`` for the handlers."""
        row = self.row
        part = getattr(request, row.part, None) if row is not None and row.part else request
        named = getattr(part, row.by, None) if row is not None and row.by else None
        self.topology = str(named if named is not None else getattr(part, "name", getattr(part, "key", "")))
        await self._gate.judge(self.who, row, self.operation, named)
        caller.set(self.who)
        is_submission = row is not None and row.part == "header" and request is not None
        if self.who is not None and is_submission and request.HasField("header"):
            request.header.owner = self.who.name  # overrides the client's claim

    def ended(self, error: BaseException | None) -> None:
        self._gate.log_outcome(self.operation, self.row, self.who, self._peer, self.topology, error)


class _Replayed:
    """The messages of a stream, including the first message, which was already read."""

    def __init__(self, first: Any, rest: Any) -> None:
        self._first = [first]
        self._rest = rest

    def __aiter__(self) -> _Replayed:
        return self

    def __anext__(self) -> Awaitable[Any]:
        return _now(self._first.pop()) if self._first else self._rest.__anext__()


async def _now(message: Any) -> Any:
    return message


class Guard(grpc.aio.ServerInterceptor):
    """Puts a Gatekeeper in front of every method of a server."""

    def __init__(self, gate: Gatekeeper) -> None:
        self._gate = gate

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        method: Any = await continuation(handler_call_details)
        if method is None:
            return None
        name = str(handler_call_details.method)
        row = CALLS.get(name)
        is_noted = row is not None and row.mutates and self._gate.audit is not None
        is_free = row is not None and row.right is Right.OPEN
        if is_free or (self._gate.security.keyring is None and not is_noted):
            return method  # type: ignore[no-any-return]
        make, handler = parts_of(method)
        guarded = self._guarded(name.rpartition("/")[2], row, handler, bool(method.request_streaming))
        return make(guarded, method.request_deserializer, method.response_serializer)

    def _guarded(self, operation: str, row: Row | None, handler: Any, streams: bool) -> Any:
        gate = self._gate

        async def admitted(call: _Call, request: Any, context: Any) -> Any:
            """Return the request to pass to the handler."""
            await call.identify(context.invocation_metadata())
            if not streams:
                await call.admit(request)
                return request
            rest = aiter(request)
            try:
                first = await asyncio.wait_for(anext(rest), FIRST_MESSAGE_S)
            except StopAsyncIteration:
                await call.admit(None)
                return rest  # the handler reports the error of an empty stream
            except TimeoutError:
                raise ProtocolError(f"no first message within {FIRST_MESSAGE_S:g} s") from None
            await call.admit(first)
            return _Replayed(first, rest)

        @functools.wraps(handler)
        async def unary(request: Any, context: Any) -> Any:
            call = _Call(gate, row, operation, unquote(context.peer()))
            try:
                reply = await handler(await admitted(call, request, context), context)
            except BaseException as error:
                call.ended(error)
                raise
            call.ended(None)
            return reply

        @functools.wraps(handler)
        async def stream(request: Any, context: Any) -> AsyncIterator[Any]:
            call = _Call(gate, row, operation, unquote(context.peer()))
            try:
                replies = handler(await admitted(call, request, context), context)
                async with contextlib.aclosing(replies):
                    async for reply in replies:
                        yield reply
            except BaseException as error:
                call.ended(error)
                raise
            call.ended(None)

        return stream if inspect.isasyncgenfunction(handler) else unary
