"""What a task says of itself (``context.register_status``), as it travels: a JSON object of bounded size.

A status is written by user code, and read by nimbus, the command line and people: none of them may suffer from it. So
encoding never fails, and what cannot travel becomes a status that says why; and decoding takes nothing but a JSON
object within the limit, which every JSON encoder and every UTF-8 terminal can then carry on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

MAX_BYTES = 8 * 1024
"""Of one status."""

MAX_BYTES_TOGETHER = 1024 * 1024
"""Of the statuses of one worker's report, and of all that nimbus keeps of one topology."""

_ERROR_CHARACTERS = 200


def encode_status(read: Callable[[], Mapping[str, Any]]) -> str:
    """Call what a component registered; the status to report. Never raises: an error becomes ``{"error": …}``."""
    try:
        status = read()
        if not isinstance(status, Mapping):
            return error_status(f"the status function returned {type(status).__name__}; a mapping was expected")
        text = json.dumps(dict(status), ensure_ascii=False, allow_nan=False)
        size = len(text.encode())
    except BaseException as error:  # user code; nothing but a thread of its own would see what it raises
        return error_status(sentence_of(error))
    if size > MAX_BYTES:
        return error_status(f"the status has {size:,} bytes as JSON; at most {MAX_BYTES:,} are shown")
    return text


def error_status(sentence: str) -> str:
    """A status that says why there is no other."""
    return json.dumps({"error": sentence[:_ERROR_CHARACTERS].encode(errors="backslashreplace").decode()})


def decode_status(text: str) -> dict[str, Any] | None:
    """The status that a text stands for. None if it is none: too large, not JSON, not an object."""
    if _size(text) > MAX_BYTES:
        return None
    try:
        status = json.loads(text)
        json.dumps(status, ensure_ascii=False, allow_nan=False).encode()  # no infinite number, no half of a character
    except (ValueError, RecursionError):
        return None
    return status if isinstance(status, dict) else None


def committed_by(component: str, status: Mapping[str, Any], coordinators: Mapping[str, Any]) -> Any:
    """The last committed transaction of a pipeline. ``coordinators``: what each coordinator says, by its component.

    A pipeline that was started again hears of commits with its next batch; its coordinator has read them before.
    """
    own, other = status.get("committed_txid"), coordinators.get(f"{component}:coordinator")
    if type(other) is not int:
        return own
    return max(own, other) if type(own) is int else other


def within(limit: int, statuses: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Of some statuses, with their task ids, those that are small enough and fit into ``limit`` bytes together."""
    for task_id, text in statuses:
        size = _size(text)
        if size <= min(limit, MAX_BYTES):
            limit -= size
            yield task_id, text


def _size(text: str) -> int:
    return len(text.encode(errors="replace"))


def sentence_of(error: BaseException) -> str:
    """An exception of user code as a sentence."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # its own __str__ raises
        return type(error).__name__
