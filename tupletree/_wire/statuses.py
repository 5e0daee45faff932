"""Encoding of task statuses (``context.register_status``): JSON objects of bounded size.

A status comes from user code and must harm none of its readers: nimbus, the command line and people. Therefore encoding
never fails: a status that cannot be encoded is replaced by a status with the reason. Decoding accepts only a JSON
object within the size limit, which every JSON encoder and every UTF-8 terminal can handle.
"""

from __future__ import annotations  # pure

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

MAX_BYTES = 8 * 1024
"""Maximum size of one status."""

MAX_BYTES_TOGETHER = 1024 * 1024
"""Maximum total size of the statuses in one worker's report, and of those that nimbus keeps per topology."""

_ERROR_CHARACTERS = 200


def encode_status(read: Callable[[], Mapping[str, Any]]) -> str:
    """Call a registered status function and return the status. Never raises: an error becomes ``{"error": …}``."""
    try:
        status = read()
        if not isinstance(status, Mapping):
            return error_status(f"the status function returned {type(status).__name__}; a mapping was expected")
        text = json.dumps(dict(status), ensure_ascii=False, allow_nan=False)
        size = len(text.encode())
    except BaseException as error:  # user code: otherwise the exception would only end the calling thread
        return error_status(sentence_of(error))
    if size > MAX_BYTES:
        return error_status(f"the status has {size:,} bytes as JSON; at most {MAX_BYTES:,} are shown")
    return text


def error_status(sentence: str) -> str:
    """Return a status with the reason why there is no other status."""
    return json.dumps({"error": sentence[:_ERROR_CHARACTERS].encode(errors="backslashreplace").decode()})


def decode_status(text: str) -> dict[str, Any] | None:
    """Decode a status. Returns None if the text is too large, not JSON, or not an object."""
    if _size(text) > MAX_BYTES:
        return None
    try:
        status = json.loads(text)
        json.dumps(status, ensure_ascii=False, allow_nan=False).encode()  # no infinite number, no unpaired surrogate
    except (ValueError, RecursionError):
        return None
    return status if isinstance(status, dict) else None


def committed_by(component: str, status: Mapping[str, Any], coordinators: Mapping[str, Any]) -> Any:
    """Return the last committed transaction of a pipeline. ``coordinators``: the txid known to each coordinator.

    A restarted pipeline learns of commits with its next batch; its coordinator has read them before.
    """
    own, other = status.get("committed_txid"), coordinators.get(f"{component}:coordinator")
    if type(other) is not int:
        return own
    return max(own, other) if type(own) is int else other


def source_of(status: Mapping[str, Any]) -> str:
    """Return the system that a spout is connected to or not, according to its status; "" if it does not say."""
    if "connected" not in status:
        return ""
    return next((str(status[key]) for key in ("queue", "log", "stream") if status.get(key)), "")


def lag_of(kind: str, statuses: Iterable[Mapping[str, Any]]) -> int | None:
    """Return the lag of one source, as its tasks report it: of the same queue, or of their partitions of a log."""
    known = [lag for one in statuses if isinstance(lag := one.get("lag"), int)]
    return (max if kind == "queue" else sum)(known) if known else None


def within(limit: int, statuses: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Yield the statuses, with task ids, that are small enough and together fit into ``limit`` bytes."""
    for task_id, text in statuses:
        size = _size(text)
        if size <= min(limit, MAX_BYTES):
            limit -= size
            yield task_id, text


def _size(text: str) -> int:
    return len(text.encode(errors="replace"))


def sentence_of(error: BaseException) -> str:
    """Return the message of an exception from user code."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # its own __str__ raises
        return type(error).__name__
