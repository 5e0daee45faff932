"""Requests to nimbus, made from the arguments of a call: a value that a message cannot hold is a user's mistake."""

from __future__ import annotations  # pure

from typing import Any, TypeVar

from google.protobuf.message import Message

from tupletree._limits import shown
from tupletree.errors import UsageError

_Request = TypeVar("_Request", bound=Message)


def request_of(kind: type[_Request], **fields: Any) -> _Request:
    """Return a message with these fields. Raises UsageError naming the field whose value the message cannot hold."""
    request = kind()
    for field, value in fields.items():
        try:
            request.MergeFrom(kind(**{field: value}))
        except (TypeError, ValueError, OverflowError) as error:
            call = kind.__name__.removesuffix("Request")
            raise UsageError(f"{call}: {field} cannot be {shown(value)}: {str(error)[:200]}") from None
    return request


def seconds(wait_secs: float | None) -> float | None:
    """Return a wait that a user has given. Raises UsageError if it is no number of seconds."""
    if wait_secs is not None and not (isinstance(wait_secs, int | float) and wait_secs >= 0):
        raise UsageError(f"wait_secs must be a number of seconds, 0 or more, not {shown(wait_secs)}")
    return wait_secs
