"""Medians over rounds, ratios, and their table."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

FIGURES = ("words_per_s", "cpu_us_per_word", "peak_rss_mb")


def summary(rounds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the medians of one row's rounds, and the words per second of each round."""
    medians = {name: statistics.median(one[name] for one in rounds) for name in FIGURES}
    return {
        "exact": True,
        "words": rounds[0]["words"],
        "words_per_s": round(medians["words_per_s"]),
        "cpu_us_per_word": round(medians["cpu_us_per_word"], 3),
        "peak_rss_mb": round(medians["peak_rss_mb"]),
        "words_per_s_by_round": [one["words_per_s"] for one in rounds],
    }


def ratios(rows: Mapping[str, Mapping[str, Any]], base: str) -> dict[str, float]:
    """Return, per other row, the words per second of ``base`` divided by those of the row."""
    if not rows.get(base, {}).get("exact"):
        return {}
    words_per_s = rows[base]["words_per_s"]
    return {
        name: round(words_per_s / row["words_per_s"], 2) for name, row in rows.items() if row["exact"] and name != base
    }


def table(result: Mapping[str, Any]) -> str:
    """Format the result for people: one line per row, fastest first, then the rows without a result and the reasons."""
    rows = {name: row for name, row in result["rows"].items() if row["exact"]}
    lines = [f"{'':<32}{'words/s':>12}{'CPU us/word':>13}{'peak MB':>9}  {result['base']} is"]
    for name, row in sorted(rows.items(), key=lambda item: -item[1]["words_per_s"]):
        ratio = result["ratios"].get(name)
        times = f"{ratio:.2f} times that" if ratio is not None else "-"
        lines.append(
            f"{name:<32}{row['words_per_s']:>12,}{row['cpu_us_per_word']:>13.2f}{row['peak_rss_mb']:>9,}  {times}"
        )
    lines += [f"{name}: wrong: {row['reason']}" for name, row in result["rows"].items() if not row["exact"]]
    lines += [f"{peer}: not available: {reason}" for peer, reason in result["unavailable"].items()]
    return "\n".join(lines)
