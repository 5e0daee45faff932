"""What the histories of a run consisted of, in one line at its end."""

from __future__ import annotations

from collections import Counter
from typing import Any


def pytest_terminal_summary(terminalreporter: Any) -> None:
    figures: Counter[str] = Counter()
    for report in terminalreporter.stats.get("passed", []):
        for name, value in report.user_properties:
            if name == "figures":
                figures.update(value)
    if figures:
        terminalreporter.write_line(", ".join(f"{count:,} {what}" for what, count in figures.items()))
