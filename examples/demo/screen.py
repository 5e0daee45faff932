"""Shows how the demo goes: a live table on a terminal, one plain line every few seconds anywhere else."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

PLAIN_EVERY_S = 2.0


@dataclass(frozen=True)
class Frame:
    """The figures of one moment."""

    lines: int
    acked: int = 0
    emitted: int = 0
    failed: int = 0
    words_per_s: float = 0.0
    pending: Mapping[str, int | None] = field(default_factory=dict)  # trees by acker; None: it does not answer


class Screen:
    """Where frames and notes go. ``plain`` for lines instead of a live table; to standard error if ``errors``."""

    def __init__(self, *, plain: bool, errors: bool) -> None:
        self._console = Console(stderr=errors, highlight=False)
        self._plain = plain or not self._console.is_terminal
        self._began_s = time.monotonic()
        self._shown_s = float("-inf")
        self._live = Live(console=self._console, auto_refresh=False, transient=True)

    def __enter__(self) -> Self:
        if not self._plain:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def elapsed_s(self) -> float:
        """Seconds since the screen was made."""
        return time.monotonic() - self._began_s

    def note(self, sentence: str) -> None:
        """Say once what happened; it stays."""
        self._print(f"{self.elapsed_s():5.1f} s  {sentence}")

    def show(self, frame: Frame) -> None:
        """Show the present figures in the place of earlier ones."""
        if not self._plain:
            self._live.update(_table(frame, self.elapsed_s()), refresh=True)
        elif self.elapsed_s() - self._shown_s >= PLAIN_EVERY_S:
            self._shown_s = self.elapsed_s()
            self._print(f"{self._shown_s:5.1f} s  {_sentence(frame)}")

    def _print(self, line: str) -> None:
        self._console.print(line, markup=False, soft_wrap=True)
        self._console.file.flush()


def _pending(pending: int | None) -> str:
    return "gone" if pending is None else f"{pending:,}"


def _sentence(frame: Frame) -> str:
    pending = "  ".join(f"{acker} {_pending(count)}" for acker, count in frame.pending.items())
    return (
        f"acked {frame.acked:,} of {frame.lines:,} lines  emitted {frame.emitted:,}  failed {frame.failed:,}  "
        f"{frame.words_per_s:,.0f} words/s  pending: {pending}"
    )


def _table(frame: Frame, elapsed_s: float) -> Group:
    table = Table(box=None, padding=(0, 3, 0, 0), header_style="dim")
    columns = {
        "lines acked": f"{frame.acked:,}",
        "of": f"{frame.lines:,}",
        "emitted": f"{frame.emitted:,}",
        "failed": f"{frame.failed:,}",
        "words/s": f"{frame.words_per_s:,.0f}",
        **{f"pending on {acker}": _pending(count) for acker, count in frame.pending.items()},
    }
    for name in columns:
        table.add_column(name, justify="right")
    table.add_row(*columns.values())
    bar = ProgressBar(total=frame.lines, completed=frame.acked, width=72)
    return Group(Text(f"{elapsed_s:5.1f} s"), table, bar)
