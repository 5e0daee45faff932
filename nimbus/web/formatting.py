"""How Storm writes things down in JSON: times, latencies, windows, ids, links to logs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from tupletree.errors import UsageError
from tupletree.v1 import topology_pb2 as pb

from ..statistics.counters import Figures
from ..statistics.windowed_counters import WINDOWS_S

ALL_TIME: Final = ":all-time"
WINDOWS: Final[Mapping[str, float | None]] = {**{str(one): float(one) for one in WINDOWS_S}, ALL_TIME: None}
"""The windows by the names that clients give them, with their seconds."""

_UNITS: Final = (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))

NO_RESOURCES: Final[Mapping[str, Any]] = {
    "requestedMemOnHeap": 0.0,
    "requestedMemOffHeap": 0.0,
    "requestedTotalMem": 0.0,
    "requestedCpu": 0.0,
    "assignedMemOnHeap": 0.0,
    "assignedMemOffHeap": 0.0,
    "assignedTotalMem": 0.0,
    "assignedCpu": 0.0,
    "requestedGenericResources": "",
    "assignedGenericResources": "",
}
"""What a topology asks for and gets of a resource aware scheduler; there is none, and clients read the fields."""


def window_of(text: str) -> str:
    """The window that a client names; an empty text is all time. Raises UsageError for any other than the four."""
    name = text or ALL_TIME
    if name not in WINDOWS:
        raise UsageError(f"the window is one of {', '.join(WINDOWS)}, not {text[:40]!r}")
    return name


def window_hint(window: str) -> str:
    """``10m 0s``, or ``All time``."""
    seconds = WINDOWS[window]
    return "All time" if seconds is None else uptime_text(seconds)


def uptime_text(seconds: float) -> str:
    """``1d 2h 3m 4s``, from the first unit that is not 0."""
    left = max(0, int(seconds))
    parts: list[str] = []
    for unit, size in _UNITS:
        count, left = divmod(left, size)
        if count or parts or unit == "s":
            parts.append(f"{count}{unit}")
    return " ".join(parts)


def number_text(value: float) -> str:
    """A latency in milliseconds or a capacity as a string with three decimals."""
    return f"{value:.3f}"


def percentiles(figures: Figures, kind: str) -> dict[str, float | None]:
    """Ours: the 50th, 99th and 99.9th percentile of ``process`` or ``complete`` latencies in milliseconds."""
    found = {name: figures.percentile_ms(kind, share) for name, share in (("p50", 0.5), ("p99", 0.99), ("p999", 0.999))}
    return {name: None if value is None else round(value, 3) for name, value in found.items()}


def encoded(name: str) -> str:
    """An id as it stands in a URL."""
    return quote(name, safe="")


def worker_log_link(base: str, topology_id: str, host: str, port: int, file: str = "worker.log") -> str:
    """Where a worker's log is read. ``base``: this nimbus as the client calls it."""
    where = quote(f"{topology_id}/{port}/{file}", safe="")
    return f"{base}/api/v1/log?file={where}&host={quote(host, safe='')}"


def dumps_link(base: str, topology_id: str, host: str, port: int) -> str:
    """Where a worker's profiles are."""
    return f"{base}/api/v1/dumps/{quote(topology_id, safe='')}/{quote(f'{host}:{port}', safe='')}"


def status_name(record: pb.TopologyRecord) -> str:
    """``ACTIVE`` and so on."""
    return str(pb.TopologyStatus.Name(record.status)).removeprefix("TOPOLOGY_STATUS_")
