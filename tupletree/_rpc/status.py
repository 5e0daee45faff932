"""The mapping between Tupletree's errors and gRPC status codes, in both directions.

A servicer raises one of ``tupletree.errors``; ``_rpc.server`` answers with the code below and the error message as
details; the caller translates the received ``grpc.RpcError`` back to the same type. The code thus conveys the same
advice as the type: correct the request, decide again, stand down, or retry.
"""

from __future__ import annotations

import errno
import re
from typing import Final

import grpc

from tupletree.errors import (
    AuthorityError,
    ConflictError,
    ForbiddenError,
    InternalError,
    NameInUseError,
    NotFoundError,
    OverloadedError,
    ProtocolError,
    TupletreeError,
    UnauthenticatedError,
    UnavailableError,
    UsageError,
)

Code = grpc.StatusCode

# Most specific type first: the first entry that matches by isinstance applies.
_CODE_OF: Final[tuple[tuple[type[TupletreeError], grpc.StatusCode], ...]] = (
    (NotFoundError, Code.NOT_FOUND),
    (NameInUseError, Code.ALREADY_EXISTS),
    (UsageError, Code.INVALID_ARGUMENT),
    (ConflictError, Code.ABORTED),
    (AuthorityError, Code.FAILED_PRECONDITION),
    (OverloadedError, Code.RESOURCE_EXHAUSTED),
    (UnavailableError, Code.UNAVAILABLE),
    (ProtocolError, Code.OUT_OF_RANGE),
    (UnauthenticatedError, Code.UNAUTHENTICATED),
    (ForbiddenError, Code.PERMISSION_DENIED),
    (InternalError, Code.INTERNAL),
)

# The inverse, plus the codes that gRPC itself produces.
_TYPE_OF: Final[dict[grpc.StatusCode, type[TupletreeError]]] = {
    **{code: error_type for error_type, code in _CODE_OF},
    Code.DEADLINE_EXCEEDED: UnavailableError,
    Code.CANCELLED: UnavailableError,
    Code.RESOURCE_EXHAUSTED: UnavailableError,
    Code.UNIMPLEMENTED: ProtocolError,
    Code.DATA_LOSS: ProtocolError,
    Code.UNKNOWN: InternalError,
}

_MAX_SENTENCE: Final = 6000
_DISK_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_PLAIN_DETAILS: Final = {
    Code.DEADLINE_EXCEEDED: "did not answer in time",
    Code.CANCELLED: "ended the call",
    Code.UNIMPLEMENTED: "does not offer this call",
}


def _is_disk_full(error: BaseException | None) -> bool:
    return isinstance(error, OSError) and error.errno in _DISK_FULL


def to_status(error: BaseException) -> tuple[grpc.StatusCode, str]:
    """Return the code and the message sent to a peer for ``error``, cut to the size that a gRPC trailer can carry.

    A full disk is RESOURCE_EXHAUSTED, whether raised directly or as the cause of an UnavailableError. Any other foreign
    exception is INTERNAL with a message that reveals nothing; its traceback belongs in the server's log.
    """
    code, sentence = _status(error)
    return code, _carried(sentence)


def _carried(sentence: str) -> str:
    # gRPC sends the sentence in a header of at most 8 KiB, with three bytes per non-ASCII byte.
    encoded = sentence.encode("utf-8", "backslashreplace")
    if len(encoded) + 2 * sum(not 0x20 <= byte < 0x7F for byte in encoded[:_MAX_SENTENCE]) <= _MAX_SENTENCE:
        return encoded.decode()
    return encoded[: _MAX_SENTENCE // 3].decode("utf-8", "ignore") + "…"


def _status(error: BaseException) -> tuple[grpc.StatusCode, str]:
    if _is_disk_full(error):
        assert isinstance(error, OSError)
        place = f" at {error.filename}" if error.filename else ""
        return Code.RESOURCE_EXHAUSTED, f"the disk is full{place}"
    if isinstance(error, UnavailableError) and _is_disk_full(error.__cause__):
        return Code.RESOURCE_EXHAUSTED, str(error)
    for error_type, code in _CODE_OF:
        if isinstance(error, error_type):
            return code, str(error)
    return Code.INTERNAL, "internal error"


def from_rpc_error(error: grpc.RpcError, peer: str = "") -> TupletreeError:
    """Return the error to raise for a failed call. ``peer`` ("nimbus at 10.0.0.1:6627") names the other end if gRPC
    itself produced the message; a message written by the other end is passed on unchanged.

    An error of a class that is not in the table arrives as its base class (a TopologyError as a UsageError).
    """
    code = error.code() if isinstance(error, grpc.Call | grpc.aio.AioRpcError) else Code.UNKNOWN
    details = (error.details() if isinstance(error, grpc.Call | grpc.aio.AioRpcError) else str(error)) or ""
    who = peer or "the peer"
    if code is Code.UNAVAILABLE and (reason := transport_failure(details)):
        details = f"{who} cannot be reached: {reason}"
    elif code in _PLAIN_DETAILS:
        details = f"{who} {_PLAIN_DETAILS[code]}"
    return _TYPE_OF.get(code, InternalError)(details or f"{who} failed with {code.name}")


def error_of(code: int, sentence: str) -> TupletreeError:
    """Return the error to raise for the number of a code and a message that came outside of gRPC."""
    known = next((one for one in _TYPE_OF if one.value[0] == code), None)
    return (InternalError if known is None else _TYPE_OF[known])(sentence)


_BY_GRPC: Final = re.compile(
    r"failed to connect|ipv[46]:|errors? resolving|resolution|socket closed|goaway|recvmsg|sendmsg|connection reset"
    r"|keepalive|ping|stream removed|end of tcp",
    re.IGNORECASE,
)
_TRANSPORT: Final = (
    (re.compile(r"connection refused", re.I), "connection refused"),
    (
        re.compile(r"certificate_verify_failed|hostname verification", re.I),
        "its certificate is not signed by tls.ca, or names another host",
    ),
    (re.compile(r"wrong_version_number", re.I), "it does not speak TLS, which tls.ca requires"),
    (
        re.compile(r"failed to connect.*(socket closed|connection reset|end of tcp|tls handshake|alert)", re.I),
        "it ended the connection at once; does it expect TLS (tls.ca), or a certificate (tls.cert)?",
    ),
    (re.compile(r"resolv|resolution|domain name|dns", re.I), "the name does not resolve"),
    (re.compile(r"no route|unreachable", re.I), "no route to the host"),
    (re.compile(r"time ?out|timed out", re.I), "connecting timed out"),
    (re.compile(r"failed to connect", re.I), "connecting failed"),
)


def transport_failure(details: str) -> str:
    """Return the transport failure that ``details`` describe if gRPC wrote them; "" if a server wrote them."""
    if not _BY_GRPC.search(details):
        return ""
    return next((reason for pattern, reason in _TRANSPORT if pattern.search(details)), "the connection was lost")
