"""Shows the progress of the demo: a live table on a terminal, one plain line every few seconds otherwise."""

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
    """The metrics of one moment of a word count through the workers."""

    lines: int
    acked: int = 0
    emitted: int = 0
    failed: int = 0
    words_per_s: float = 0.0
    # Pending trees by acker; None: the acker does not answer.
    pending: Mapping[str, int | None] = field(default_factory=dict[str, int | None])

    @property
    def progress(self) -> tuple[int, int]:
        """Return the amount done and the total."""
        return self.acked, self.lines

    def sentence(self) -> str:
        """Return the metrics as one line."""
        pending = "  ".join(f"{acker} {_pending(count)}" for acker, count in self.pending.items())
        return (
            f"acked {self.acked:,} of {self.lines:,} lines  emitted {self.emitted:,}  failed {self.failed:,}  "
            f"{self.words_per_s:,.0f} words/s  pending: {pending}"
        )

    def columns(self) -> dict[str, str]:
        """Return the metrics as table columns."""
        return {
            "lines acked": f"{self.acked:,}",
            "of": f"{self.lines:,}",
            "emitted": f"{self.emitted:,}",
            "failed": f"{self.failed:,}",
            "words/s": f"{self.words_per_s:,.0f}",
            **{f"pending on {acker}": _pending(count) for acker, count in self.pending.items()},
        }


@dataclass(frozen=True)
class BatchFrame:
    """The metrics of one moment of a word count through Spark."""

    words: int
    counted: int = 0
    committed: int = 0  # batches
    active: int = 0
    state: str = "not there yet"  # state of the pipeline

    @property
    def progress(self) -> tuple[int, int]:
        """Return the amount done and the total."""
        return self.counted, self.words

    def sentence(self) -> str:
        """Return the metrics as one line."""
        return (
            f"counted {self.counted:,} of {self.words:,} words  {self.committed:,} batches committed  "
            f"{self.active} under way  Spark: {self.state}"
        )

    def columns(self) -> dict[str, str]:
        """Return the metrics as table columns."""
        return {
            "words counted": f"{self.counted:,}",
            "of": f"{self.words:,}",
            "batches committed": f"{self.committed:,}",
            "under way": f"{self.active}",
            "Spark": self.state,
        }


class Screen:
    """The output of frames and notes. ``plain``: lines instead of a live table. ``errors``: write to standard error."""

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
        self.close()

    def close(self) -> None:
        """Release the terminal. Idempotent."""
        self._live.stop()

    def elapsed_s(self) -> float:
        """Seconds since the screen was made."""
        return time.monotonic() - self._began_s

    def note(self, sentence: str) -> None:
        """Print an event permanently."""
        self._print(f"{self.elapsed_s():5.1f} s  {sentence}")

    def show(self, frame: Frame | BatchFrame) -> None:
        """Show the current metrics in place of earlier ones."""
        if not self._plain:
            self._live.update(_table(frame, self.elapsed_s()), refresh=True)
        elif self.elapsed_s() - self._shown_s >= PLAIN_EVERY_S:
            self._shown_s = self.elapsed_s()
            self._print(f"{self._shown_s:5.1f} s  {frame.sentence()}")

    def _print(self, line: str) -> None:
        self._console.print(line, markup=False, soft_wrap=True)
        self._console.file.flush()


def _pending(pending: int | None) -> str:
    return "gone" if pending is None else f"{pending:,}"


def _table(frame: Frame | BatchFrame, elapsed_s: float) -> Group:
    table = Table(box=None, padding=(0, 3, 0, 0), header_style="dim")
    columns = frame.columns()
    for name in columns:
        table.add_column(name, justify="right")
    table.add_row(*columns.values())
    done, whole = frame.progress
    bar = ProgressBar(total=whole, completed=done, width=72)
    return Group(Text(f"{elapsed_s:5.1f} s"), table, bar)
