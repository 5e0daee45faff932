"""docs/metrics.md as rows, and what a page of /metrics shows as families."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "metrics.md"


@dataclass(frozen=True)
class Row:
    """One metric. ``name`` is that of its family: a counter's without ``_total``, which is ``suffix``."""

    name: str
    suffix: str
    type: str
    labels: tuple[str, ...]
    meaning: str


def documented() -> list[Row]:
    """The rows of the tables of docs/metrics.md: | name | type | labels | meaning |."""
    rows = []
    for line in DOCUMENT.read_text(encoding="utf-8").splitlines():
        if line.startswith("| `tupletree_"):
            full, kind, labels, meaning = [cell.strip() for cell in line.strip("|").split(" | ")]
            full, suffix = full.strip("`"), "_total" if kind == "counter" else ""
            assert full.endswith(suffix), line
            names = tuple(one for one in labels.replace("`", "").split(", ") if one != "none")
            rows.append(Row(full.removesuffix(suffix), suffix, kind, names, meaning))
    return rows


def shown(text: str) -> dict[str, Any]:
    """The families of a page, by name; a counter's without ``_total``."""
    return {family.name: family for family in text_string_to_metric_families(text)}
