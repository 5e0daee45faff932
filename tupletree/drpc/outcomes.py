"""The end of a request as its caller sees it: a value, or an error."""

from __future__ import annotations  # pure

from typing import Any

from tupletree.drpc.requests import Kind
from tupletree.drpc.values import decoded
from tupletree.errors import DRPCError, DRPCTimeoutError


def value_of(kind: Kind, text: str | bytes) -> Any:
    """Return the answer. Raises DRPCError, or DRPCTimeoutError."""
    if kind is Kind.ANSWERED:
        return decoded(text, "the answer")
    raise (DRPCTimeoutError if kind is Kind.TIMEOUT else DRPCError)(str(text), kind.value)
