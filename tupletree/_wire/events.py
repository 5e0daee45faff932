"""The format of events.jsonl, one JSON object per line: sampled tuples and the hops of traced trees.

Every event has ``at`` (Unix seconds by the clock of its machine), ``kind`` and ``worker`` (host:port). Ids of trees and
edges are 16 hexadecimal digits, as JSON numbers lack the precision; ``task`` is the task in which the event happens.

    kind      of       further
    tuple     sample   component, task, stream, targets, values (each as repr, cut)
    begin     trace    root, component, task, message: a spout emitted, or a bolt began a new tree
    send      trace    root, edge, component, task, stream, target: handed over to the target task
    receive   trace    root, edge, target: arrived from another worker
    execute   trace    root, edge, component, task, source, until, children (edges), and error if it raised
    ack       trace    root, component, task: a bolt acked a tuple of the tree
    fail      trace    root, component, task: a bolt failed a tuple of the tree
    verdict   trace    root, component, task, verdict (acked, failed, expired): the spout was told the tree's result
    left_out  both     count: events dropped because there were too many
"""

from __future__ import annotations  # pure

import json
import math
from typing import Any, Final

KINDS: Final = frozenset(
    ("tuple", "begin", "send", "receive", "execute", "ack", "fail", "verdict", "left_out"),
)
MAX_VALUES: Final = 32  # per tuple
MAX_VALUE_LENGTH: Final = 200  # characters per value
MAX_LINE_LENGTH: Final = 64 * 1024


_line = json.JSONEncoder(separators=(",", ":"))  # created once: json.dumps would create an encoder per event


def id_name(number: int) -> str:
    """Return the written form of a root or edge id."""
    return f"{number:016x}"


def encode_event(event: dict[str, Any]) -> str:
    """Return an event as one line, without the line end."""
    return _line.encode(event)


def decode_event(line: str | bytes) -> dict[str, Any] | None:
    """Return the event of a line; None if the line is invalid, such as half a line after a crash."""
    if len(line) > MAX_LINE_LENGTH:
        return None
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(event, dict) or not isinstance(event.get("kind"), str) or event["kind"] not in KINDS:
        return None
    at = event.get("at")
    if isinstance(at, bool) or not isinstance(at, int | float) or not math.isfinite(at):
        return None
    return event
