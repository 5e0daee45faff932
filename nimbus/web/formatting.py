"""Storm's JSON formats of times, latencies, windows, ids and log links."""

from __future__ import annotations  # pure

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from tupletree._health.errors import Complaint
from tupletree.errors import UsageError
from tupletree.v1 import topology_pb2 as pb

from ..statistics.counters import Figures
from ..statistics.windowed_counters import WINDOWS_S

ALL_TIME: Final = ":all-time"
WINDOWS: Final[Mapping[str, float | None]] = {**{str(one): float(one) for one in WINDOWS_S}, ALL_TIME: None}
"""Window lengths in seconds, by the names that clients use; None for all time."""

_UNITS: Final = (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))


def window_of(text: str) -> str:
    """Return the window with a client's name; an empty name means all time. Raises UsageError for an unknown name."""
    name = text or ALL_TIME
    if name not in WINDOWS:
        raise UsageError(f"the window is one of {', '.join(WINDOWS)}, not {text[:40]!r}")
    return name


def window_hint(window: str) -> str:
    """Return a window as ``10m 0s``, or ``All time``."""
    seconds = WINDOWS[window]
    return "All time" if seconds is None else uptime_text(seconds)


def uptime_text(seconds: float) -> str:
    """Return a time as ``1d 2h 3m 4s``, starting with the first unit that is not 0."""
    left = max(0, int(seconds))
    parts: list[str] = []
    for unit, size in _UNITS:
        count, left = divmod(left, size)
        if count or parts or unit == "s":
            parts.append(f"{count}{unit}")
    return " ".join(parts)


def number_text(value: float) -> str:
    """Return a latency in milliseconds or a capacity as a string with three decimals."""
    return f"{value:.3f}"


def percentiles(figures: Figures, kind: str) -> dict[str, float | None]:
    """Return the 50th, 99th and 99.9th percentile of ``process`` or ``complete`` latencies in milliseconds.

    An addition to Storm's fields.
    """
    found = {name: figures.percentile_ms(kind, share) for name, share in (("p50", 0.5), ("p99", 0.99), ("p999", 0.999))}
    return {name: None if value is None else round(value, 3) for name, value in found.items()}


def encoded(name: str) -> str:
    """Return an id encoded for a URL."""
    return quote(name, safe="")


def worker_log_link(base: str, topology_id: str, host: str, port: int, file: str = "worker.log") -> str:
    """Return the link to a worker's log. ``base``: the URL of this nimbus as the client addresses it."""
    where = quote(f"{topology_id}/{port}/{file}", safe="")
    return f"{base}/api/v1/log?file={where}&host={quote(host, safe='')}"


def dumps_link(base: str, topology_id: str, host: str, port: int) -> str:
    """Return the link to a worker's profiles."""
    return f"{base}/api/v1/dumps/{quote(topology_id, safe='')}/{quote(f'{host}:{port}', safe='')}"


def status_name(record: pb.TopologyRecord) -> str:
    """Return a topology's status as text, such as ``ACTIVE``."""
    return str(pb.TopologyStatus.Name(record.status)).removeprefix("TOPOLOGY_STATUS_")


def error_fields(complaint: Complaint, topology_id: str, base: str, now_unix_s: float) -> dict[str, Any]:
    """Return an error with its traceback in one string, as in Storm, and the number of occurrences."""
    one = complaint.latest
    return {
        "component": one.component_id,
        "task": one.task_id,
        **error_place(one, topology_id, base, now_unix_s),
        "time": int(1000 * one.at_unix_s),
        "errorTime": int(1000 * one.at_unix_s),
        "error": one.traceback or one.message,
        "message": one.message,
        "times": complaint.count,
        "firstErrorTime": int(1000 * complaint.first_unix_s),
        "tasks": list(complaint.tasks),
        "isOver": complaint.is_over,
    }


def error_place(one: pb.ComponentError, topology_id: str, base: str, now_unix_s: float) -> dict[str, Any]:
    """Return the place and age of an error."""
    return {
        "errorHost": one.host,
        "errorPort": one.port,
        "errorLapsedSecs": max(0, int(now_unix_s - one.at_unix_s)),
        "errorWorkerLogLink": worker_log_link(base, topology_id, one.host, one.port),
    }
