"""Metrics of one process at one time, from the text that its ``/metrics`` shows; and the list of the processes.

Both come from other machines: what does not have the expected form is refused with ValueError.
"""

from __future__ import annotations  # pure

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

_META: Final = "__meta_tupletree_"
_STARTED: Final = "process_start_time_seconds"
_BOUND: Final = "le"
_MAX_COUNT: Final = 2.0**63

Labels = tuple[tuple[str, str], ...]
Kind = Literal["counter", "gauge", "histogram"]


class Target(NamedTuple):
    """A process with metrics. ``id``: that of the process; a restarted one has another."""

    address: str
    role: str
    id: str
    topology: str = ""
    topology_id: str = ""
    slot: str = ""

    @property
    def place(self) -> str:
        """A name of the process that its successor has too, as far as there is one: a worker's slot."""
        return self.slot or self.id


@dataclass(frozen=True, slots=True)
class Distribution:
    """A histogram: ``counts`` by bucket, of which the last has no bound, and what Prometheus shows beside them."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    sum: float
    count: int


class Series(NamedTuple):
    """One metric with one set of labels. ``name``: as Prometheus shows it; a histogram's without a suffix."""

    name: str
    kind: Kind
    labels: Labels
    value: float | Distribution
    help: str = ""

    @property
    def key(self) -> tuple[str, Labels]:
        return self.name, self.labels


class Reading(NamedTuple):
    """All metrics of a process at one time. ``started_s``: when the process began, in Unix time; NaN if unknown."""

    target: Target
    at_s: float
    started_s: float
    series: tuple[Series, ...]


def parse_targets(text: bytes) -> list[Target]:
    """Return the processes that nimbus lists (docs/guides/metrics.md). Raises ValueError."""
    found = json.loads(text)
    if not isinstance(found, list):
        raise ValueError("the list of processes is no list")
    targets = []
    for entry in found:
        if not isinstance(entry, Mapping) or not isinstance(labels := entry.get("labels"), Mapping):
            raise ValueError("an entry of the list of processes has no labels")
        facts = {name: labels.get(_META + name, "") for name in Target._fields[1:]}
        for address in entry.get("targets") or ():
            if not all(isinstance(one, str) for one in (address, *facts.values())):
                raise ValueError("an entry of the list of processes holds what is no text")
            targets.append(Target(address, **facts))
    return targets


def parse_reading(target: Target, text: str, at_s: float) -> Reading:
    """Return what a page of metrics shows. Raises ValueError if the page is not in Prometheus' text format.

    Values that are not known (NaN) or infinite are left out, as are kinds of metrics that no process here has.
    """
    try:
        series = tuple(_series(text))
    except LookupError as error:  # of the parser, for a label without a name
        raise ValueError(f"it is not in the text format: {error}") from error
    started_s = next((one.value for one in series if one.name == _STARTED), math.nan)
    return Reading(target, at_s, started_s if isinstance(started_s, float) else math.nan, series)


def _series(text: str) -> Iterator[Series]:
    for family in text_string_to_metric_families(text):
        if family.type == "histogram":
            yield from _histograms(family.name, family.documentation, family.samples)
        elif family.type in ("counter", "gauge", "unknown", "untyped"):
            kind: Kind = "counter" if family.type == "counter" else "gauge"
            for sample in family.samples:
                if math.isfinite(sample.value):
                    labels = tuple(sorted(sample.labels.items()))
                    yield Series(sample.name, kind, labels, float(sample.value), family.documentation)


def _histograms(name: str, help: str, samples: Iterable[Sample]) -> Iterator[Series]:
    buckets: dict[Labels, list[tuple[float, float]]] = {}
    sums: dict[Labels, float] = {}
    for sample in samples:
        labels = tuple(sorted((key, value) for key, value in sample.labels.items() if key != _BOUND))
        if sample.name == f"{name}_bucket":
            buckets.setdefault(labels, []).append((float(sample.labels.get(_BOUND, "nan")), sample.value))
        elif sample.name == f"{name}_sum":
            sums[labels] = sample.value
    for labels, found in buckets.items():
        found.sort()
        bounds, totals = [bound for bound, _ in found], [total for _, total in found]
        if bounds[-1] != math.inf or not all(math.isfinite(one) for one in (*bounds[:-1], *totals)):
            raise ValueError(f"the histogram {name} has no bucket without a bound, or a bound that is no number")
        counts = [int(total) - int(below) for below, total in zip([0.0, *totals], totals, strict=False)]
        if totals[-1] >= _MAX_COUNT:
            raise ValueError(f"the histogram {name} has a count of more than 64 bits")
        if min(counts) < 0:
            raise ValueError(f"the histogram {name} has buckets whose counts fall")
        value = Distribution(tuple(bounds[:-1]), tuple(counts), sums.get(labels, 0.0), int(totals[-1]))
        yield Series(name, "histogram", labels, value, help)
