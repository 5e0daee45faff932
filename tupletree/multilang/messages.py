"""Messages of the multilang protocol: JSON, each followed by a line ``end``.

From a child come ``{"command": …}`` and, once, ``{"pid": …}``. Each is checked: a child can send anything.
"""

from __future__ import annotations  # pure

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tupletree.errors import ProtocolError, UnregisteredTypeError
from tupletree.outputs import DEFAULT_STREAM

MAX_BYTES: Final = 64 * 1024 * 1024
"""The largest message that is read."""
LEVELS: Final = (5, 10, 20, 30, 40)
"""Python's levels for Storm's: trace, debug, info, warn, error."""

_END: Final = b"end"


@dataclass(frozen=True, slots=True)
class Emit:
    """``task``: of a direct emit. ``wants_tasks``: the child reads the ids of the tasks that got the tuple."""

    values: list[Any]
    stream: str = DEFAULT_STREAM
    anchors: tuple[str, ...] = ()
    id: Any = None
    task: int | None = None
    wants_tasks: bool = True


@dataclass(frozen=True, slots=True)
class Ack:
    id: str


@dataclass(frozen=True, slots=True)
class Fail:
    id: str


@dataclass(frozen=True, slots=True)
class Log:
    text: str
    level: int


@dataclass(frozen=True, slots=True)
class Error:
    text: str


@dataclass(frozen=True, slots=True)
class Metric:
    name: str
    value: Any


@dataclass(frozen=True, slots=True)
class Sync:
    """The child is done with what it was told, or answers a heartbeat."""


@dataclass(frozen=True, slots=True)
class Pid:
    pid: int


Message = Emit | Ack | Fail | Log | Error | Metric | Sync | Pid


def encode(message: Any) -> bytes:
    """Encode a message for a child. Raises UnregisteredTypeError for what JSON has no form for."""
    try:
        return json.dumps(message, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode() + b"\nend\n"
    except (TypeError, ValueError, RecursionError) as error:
        raise UnregisteredTypeError(f"a component in another language gets JSON, and {error}") from None


def decode(text: bytes) -> Message:
    """Decode a message of a child. Raises ProtocolError."""
    try:
        message = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(
            f"{_shown(text)} is not JSON: {error}; print to standard error, not to standard output"
        ) from None
    if not isinstance(message, dict):
        raise ProtocolError(f'{_shown(text)} is not a message: an object such as {{"command": "sync"}} was expected')
    try:
        found = _message(message)
    except (KeyError, TypeError, ValueError):
        found = None
    if found is None:
        raise ProtocolError(f"{_shown(text)} is not a message of the multilang protocol")
    return found


def _message(message: Mapping[str, Any]) -> Message | None:
    match message.get("command"):
        case "emit":
            return _emit(message)
        case "ack":
            return Ack(str(message["id"]))
        case "fail":
            return Fail(str(message["id"]))
        case "log":
            level = message.get("level", 2)
            return Log(str(message["msg"]), LEVELS[level] if type(level) is int and 0 <= level < len(LEVELS) else 20)
        case "error":
            return Error(str(message["msg"]))
        case "metrics":
            return Metric(str(message["name"]), message.get("params"))
        case "sync":
            return Sync()
        case None if type(message.get("pid")) is int:
            return Pid(message["pid"])
    return None


def _emit(message: Mapping[str, Any]) -> Emit | None:
    values, stream = message["tuple"], message.get("stream") or DEFAULT_STREAM
    task = message.get("task") or None  # 0 is none
    anchors, wants_tasks = message.get("anchors") or [], message.get("need_task_ids")
    if isinstance(anchors, str):
        anchors = [anchors]
    if type(values) is not list or type(stream) is not str or type(anchors) is not list:
        return None
    if task is not None and type(task) is not int:
        return None
    return Emit(values, stream, tuple(map(str, anchors)), message.get("id"), task, wants_tasks is not False)


def split(lines: Iterator[bytes]) -> Iterator[bytes]:
    """Iterate over the messages in lines, without their ends. Raises ProtocolError for one that is too large."""
    parts: list[bytes] = []
    size = 0
    for line in lines:
        if line.rstrip(b"\r\n") == _END:
            yield b"".join(parts)
            parts, size = [], 0
            continue
        size += len(line)
        if size > MAX_BYTES:
            raise ProtocolError(f"a message is larger than {MAX_BYTES:,} bytes, or its line 'end' is missing")
        if line.strip():
            parts.append(line)


def _shown(text: bytes) -> str:
    shown = text[:200].decode(errors="replace").strip()
    return repr(shown) + ("…" if len(text) > 200 else "")
