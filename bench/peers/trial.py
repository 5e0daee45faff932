"""One run of a peer's program: from its start until its sinks have counted every word, with the costs.

Wall and CPU time start at the mark of the first record and stop when the sinks' marks add up to all words (see
programs/marks.py). This excludes the start of interpreters and JVMs, imports, planning, and reading the sentences if
the program itself reads them. CPU time covers all processes of the session led by the program, JVMs included. Its
precision is a clock tick plus the 5 ms in which a mark is noticed. Memory is the sum of the peak resident sizes, read
every quarter of a second and at the end.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.peers import session
from bench.peers.programs import marks

NOTICE_S = 0.005
MEMORY_S = 0.25
GRACE_S = 5
ROOT = Path(__file__).resolve().parents[2]


class FailedError(Exception):
    """A run has no result, or a wrong one. The message is the reason."""


@dataclass(frozen=True)
class Program:
    """A program to run: the command, its additional environment, its settings, and the number of words.

    ``counted``: the number of words that the sinks will count.
    """

    command: Sequence[str]
    environment: Mapping[str, str]
    settings: marks.Settings
    words: int
    counted: int
    timeout_s: float


def measure(program: Program) -> dict[str, Any]:
    """Run a program and return its metrics. All its processes are gone on return.

    Raises:
        FailedError: the program ended early, took too long, or counted more words than there are.
    """
    with tempfile.TemporaryDirectory(prefix="bench-peer-") as directory:
        marked = Path(directory, "marks")
        marked.mkdir()
        settings = replace(program.settings, marks=str(marked))
        own = {"PYTHONPATH": str(ROOT), "TMPDIR": directory, marks.VARIABLE: settings.to_json()}
        log = Path(directory, "log")
        with log.open("wb") as output:
            leader = subprocess.Popen(
                program.command,
                env={**os.environ, **program.environment, **own},
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        try:
            return _watch(leader, marked, program)
        except FailedError as error:
            raise FailedError(f"{error}: {_tail(log)}") from None
        finally:
            session.end(leader)


def _watch(leader: subprocess.Popen[bytes], marked: Path, program: Program) -> dict[str, Any]:
    deadline_s = time.monotonic() + program.timeout_s
    peaks_kb: dict[int, int] = {}
    before_s: float | None = None
    memory_s = 0.0
    while True:
        is_over = session.is_over(leader)
        told = marks.read(marked)
        if told.first_s is not None:
            before_s = session.cpu_s(leader.pid) if before_s is None else before_s
            is_done = told.words >= program.counted
            used_s = session.cpu_s(leader.pid) - before_s if is_done else 0.0
            if is_done or time.monotonic() > memory_s + MEMORY_S:
                peaks_kb |= session.peak_rss_kb(leader.pid)
                memory_s = time.monotonic()
            if is_done:
                break
        if is_over:
            raise FailedError(f"it ended after {told.words} of {program.counted} words")
        if time.monotonic() > deadline_s:
            raise FailedError(f"it counted {told.words} of {program.counted} words in {program.timeout_s:g} s")
        time.sleep(NOTICE_S)
    with contextlib.suppress(subprocess.TimeoutExpired):
        leader.wait(GRACE_S)
    return _figures(marks.read(marked), program, used_s, sum(peaks_kb.values()) / 1024)


def _figures(told: marks.Told, program: Program, used_s: float, memory_mb: float) -> dict[str, Any]:
    if told.words != program.counted or told.first_s is None:
        raise FailedError(f"it counted {told.words} words, not {program.counted}")
    words = program.words
    elapsed_s = told.last_s - told.first_s
    return {
        "words": words,
        "elapsed_s": round(elapsed_s, 3),
        "words_per_s": round(words / elapsed_s),
        "cpu_us_per_word": round(1e6 * used_s / words, 3),
        "peak_rss_mb": round(memory_mb),
    }


def _tail(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return " | ".join(lines[-6:])[-800:] or "it printed nothing"
