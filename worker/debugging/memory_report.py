"""A census of a worker's memory as text for people."""

from __future__ import annotations  # pure

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_MAX_TYPES: Final = 60
_MB: Final = 1_000_000


@dataclass(slots=True)
class Use:
    """The objects of one type."""

    count: float = 0.0
    bytes: float = 0.0


@dataclass(frozen=True, slots=True)
class Large:
    """A large object. ``items``: None for an object without a length. ``holders``: the types that refer to it."""

    type: str
    bytes: int
    items: int | None
    holders: Sequence[str]


@dataclass(frozen=True, slots=True)
class Census:
    """The result. ``seen``: the share of the objects that was reached in time."""

    types: dict[str, Use]
    largest: Sequence[Large]
    seen: float
    paused_s: float
    took_s: float


def report(title: str, census: Census, resident_bytes: int | None) -> str:
    """Return the text. ``resident_bytes``: of the process with those that it has started; None if unknown."""
    types = sorted(census.types.items(), key=lambda one: (-one[1].bytes, one[0]))
    found = sum(use.bytes for _, use in types)
    count = sum(use.count for _, use in types)
    lines = [title, ""]
    if resident_bytes is not None:
        lines.append(f"{resident_bytes / _MB:12,.1f} MB  resident memory of the process and those that it has started")
    lines.append(f"{found / _MB:12,.1f} MB  in {count:,.0f} objects of Python")
    lines += ["", f"{'bytes':>15} {'objects':>12}  type"]
    lines += [f"{use.bytes:15,.0f} {use.count:12,.0f}  {name}" for name, use in types[:_MAX_TYPES]]
    if rest := types[_MAX_TYPES:]:
        size, objects = sum(use.bytes for _, use in rest), sum(use.count for _, use in rest)
        lines.append(f"{size:15,.0f} {objects:12,.0f}  {len(rest)} other types")
    lines += ["", f"{'bytes':>15} {'items':>12}  largest objects, each without what is in it"]
    lines += [_line(one) for one in census.largest]
    lines += [
        "",
        f"Counted in {census.took_s:.1f} s, of which no other thread ran for {census.paused_s * 1000:.0f} ms.",
    ]
    if census.seen < 1:
        lines.append(f"The time was over after {census.seen:.0%} of the objects: numbers and sizes are of these.")
    lines.append("Memory that C libraries hold for objects (Arrow, gRPC) is in the resident memory alone.")
    return "\n".join(lines) + "\n"


def _line(one: Large) -> str:
    items = "" if one.items is None else f"{one.items:,}"
    held = f", in {', '.join(one.holders)}" if one.holders else ""
    return f"{one.bytes:15,} {items:>12}  {one.type}{held}"
