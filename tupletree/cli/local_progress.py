"""The lines of ``tupletree local`` while a topology runs: connections of sources, errors as they come, and tuples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tupletree._wire.statuses import source_of
from tupletree.cli.output import count
from tupletree.cli.statuses import printable
from tupletree.errors import likeness, named

SUMMARY_EVERY_S: Final = 10.0
"""The time between two lines on tuples, and on errors that were not shown one by one."""
MAX_NEW_ERRORS: Final = 5
"""The maximum number of errors of a component that are shown one by one in that time."""
MAX_TEXTS: Final = 1000
MAX_COMPONENTS: Final = 10
WIDTH: Final = 500


class LocalProgress:
    """Remembers what was shown. Time is an argument, in seconds since the start.

    Of equal errors of a component the first is shown at once, and the number of the others from time to time. Messages
    that are given up for the same reason are equal.
    """

    def __init__(self) -> None:
        self._read = 0  # errors
        self._texts: set[tuple[str, str]] = set()
        self._shown: Counter[str] = Counter()  # errors of components since the last summary
        self._more: Counter[str] = Counter()  # and those that were not shown
        self._newest: dict[str, str] = {}
        self._connected: dict[tuple[str, int], bool] = {}
        self._emitted: Counter[str] = Counter()
        self._summary_s = 0.0

    def sources(self, now_s: float, statuses: Mapping[tuple[str, int], Mapping[str, Any]]) -> list[str]:
        """Return a line for each source that is connected now, or not any more. ``statuses``: of tasks."""
        lines = []
        for (component, task), status in statuses.items():
            source, is_connected = source_of(status), status.get("connected") is True
            if source and is_connected != self._connected.get((component, task), False):
                self._connected[component, task] = is_connected
                state = "connected" if is_connected else "not connected any more"
                lines.append(_line(now_s, f"{component}[{task}]: {printable(source)}: {state}"))
        return lines

    def errors(self, now_s: float, errors: Sequence[tuple[str, BaseException]]) -> list[str]:
        """Return a line for each new error. ``errors``: all that components have reported."""
        lines = []
        for component, error in errors[self._read :]:
            text = printable(named(error), WIDTH)
            what = printable(likeness(error), WIDTH)
            if (component, what) in self._texts or self._shown[component] >= MAX_NEW_ERRORS:
                self._more[component] += 1
                self._newest[component] = text
                continue
            if len(self._texts) < MAX_TEXTS:
                self._texts.add((component, what))
            self._shown[component] += 1
            lines.append(_line(now_s, f"component {component!r} reported {text}"))
        self._read = len(errors)
        return lines

    def summary(self, now_s: float, emitted: Counter[str] | None) -> list[str]:
        """Return lines on what was not shown, if it is time. ``emitted``: tuples of components; None: not asked for."""
        if now_s < self._summary_s + SUMMARY_EVERY_S:
            return []
        lines = []
        for component, times in self._more.items():
            what = "1 more error" if times == 1 else f"{times:,} more errors, the newest"
            lines.append(_line(now_s, f"component {component!r} reported {what}: {self._newest[component]}"))
        if emitted is not None:
            lines.append(_line(now_s, f"emitted: {self._rates(emitted, now_s - self._summary_s) or 'nothing'}"))
            self._emitted = Counter(emitted)
        self._shown.clear()
        self._more.clear()
        self._summary_s = now_s
        return lines

    def _rates(self, emitted: Counter[str], elapsed_s: float) -> str:
        most = sorted(emitted, key=lambda component: -emitted[component])[:MAX_COMPONENTS]
        return ", ".join(
            f"{component} {count(emitted[component])} "
            f"({count((emitted[component] - self._emitted[component]) / elapsed_s)}/s)"
            for component in sorted(most)
        )


def _line(now_s: float, text: str) -> str:
    return f"{now_s:6.1f} s  {text}"
