"""Lines of statsd, and the packets that carry them.

    tupletree_worker_acked_tuples_total:120|c|#job:tupletree-worker,instance:s1:6700,topology:words,component:count,…
    tupletree.worker.s1_6700.tupletree_worker_acked_tuples_total.count.default.split.3.words:120|c     (without tags)

Counters are sent as their growth, gauges as they are, histograms as the growth of ``_count`` and ``_sum``.
"""

from __future__ import annotations  # pure

import re
from collections.abc import Iterable, Iterator
from typing import Final, Literal

from .history import Difference
from .readings import Reading, Series, Target

MAX_PACKET_BYTES: Final = 1432  # what an Ethernet frame carries of UDP, with room for a tunnel's headers

Tags = Literal["dogstatsd", "none"]

_NAME: Final = re.compile(r"[^A-Za-z0-9_.]")
_NODE: Final = re.compile(r"[^A-Za-z0-9_-]")
_TAG: Final = re.compile(r"[\s,|#@\x00-\x1f\x7f]")


def lines_of(reading: Reading, differences: Iterable[Difference], job: str, tags: Tags) -> Iterator[str]:
    """Yield the lines of a reading. Lines that belong together, in their order, are one text with a line feed."""
    for series in reading.series:
        if series.kind == "gauge" and isinstance(series.value, float):
            name, tail = _place(series.name, series, reading.target, job, tags)
            line = f"{name}:{_number(series.value)}|g{tail}"
            # A gauge with a sign is a change of its value: a negative value is a change from 0.
            yield line if series.value >= 0 else f"{name}:0|g{tail}\n{line}"
    for one in differences:
        amounts = {one.series.name: one.amount}
        if one.series.kind == "histogram":
            amounts = {f"{one.series.name}_count": one.amount, f"{one.series.name}_sum": one.sum}
        for full_name, amount in amounts.items():
            name, tail = _place(full_name, one.series, reading.target, job, tags)
            yield f"{name}:{_number(amount)}|c{tail}"


def packets_of(lines: Iterable[str]) -> Iterator[bytes]:
    """Yield packets of whole lines, of at most ``MAX_PACKET_BYTES``. A longer line is left out."""
    packet = bytearray()
    for line in lines:
        encoded = line.encode("utf-8", "replace")
        if len(encoded) > MAX_PACKET_BYTES:
            continue
        if packet and len(packet) + 1 + len(encoded) > MAX_PACKET_BYTES:
            yield bytes(packet)
            packet.clear()
        if packet:
            packet += b"\n"
        packet += encoded
    if packet:
        yield bytes(packet)


def _place(name: str, series: Series, target: Target, job: str, tags: Tags) -> tuple[str, str]:
    """Return a series' name in statsd, and what follows the type in its lines."""
    if tags == "none":
        nodes = [job, target.role, target.place, name, *(value for _, value in series.labels)]
        return ".".join(_NODE.sub("_", node) or "_" for node in nodes), ""
    named = [("job", f"{job}-{target.role}"), ("instance", target.place), *series.labels]
    if target.topology and not any(label == "topology" for label, _ in series.labels):
        named.append(("topology", target.topology))
    shown = ",".join(f"{_TAG.sub('_', label)}:{_TAG.sub('_', value)}" for label, value in named)
    return _NAME.sub("_", name), f"|#{shown}"


def _number(value: float) -> str:
    return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
