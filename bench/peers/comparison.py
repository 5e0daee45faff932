"""Measures all rows, round by round, and combines the results."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.peers import environments, report, trial
from bench.peers.environments import UnavailableError
from bench.peers.programs.marks import Settings
from bench.peers.rows import OURS, Row
from bench.word_count import sentences

DISTINCT_SENTENCES: Final = 20_000
WORKLOAD: Final = ("--ackers", "1", "--json")


@dataclass(frozen=True)
class Comparison:
    """The size of the comparison: number of rounds and sentences, the folder of the peers' environments, the base."""

    rounds: int
    sentences: int
    venvs: Path
    timeout_s: float
    base: str


def compare(rows: Sequence[Row], plan: Comparison, tell: Callable[[str], None]) -> dict[str, Any]:
    """Run every available row once per round; each round starts with another row. ``tell`` reports each step."""
    places, unavailable = _places(rows, plan.venvs)
    able = [row for row in rows if row.peer == OURS or row.peer in places]
    measured: dict[str, list[dict[str, Any]]] = defaultdict(list)
    wrong: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="bench-peers-") as scratch:
        file = Path(scratch, "sentences.txt")
        file.write_text("\n".join(sentences(min(DISTINCT_SENTENCES, plan.sentences))) + "\n")
        for number, row in _turns(able, plan.rounds):
            if row.name in wrong:
                continue
            tell(f"round {number + 1} of {plan.rounds}: {row.name}")
            count = max(1, plan.sentences // row.share)
            try:
                if row.peer == OURS:
                    measured[row.name].append(_measure_ours(row, count, plan.timeout_s))
                else:
                    measured[row.name].append(_measure_peer(row, count, places[row.peer], file, plan.timeout_s))
            except trial.FailedError as error:
                wrong[row.name] = str(error)
    done = {row.name: _outcome(measured[row.name], wrong.get(row.name)) for row in able}
    return {"base": plan.base, "rows": done, "ratios": report.ratios(done, plan.base), "unavailable": unavailable}


def _turns(rows: Sequence[Row], rounds: int) -> Iterator[tuple[int, Row]]:
    for number in range(rounds):
        first = number % len(rows)
        for row in (*rows[first:], *rows[:first]):
            yield number, row


def _outcome(measured: Sequence[dict[str, Any]], reason: str | None) -> dict[str, Any]:
    return report.summary(measured) if reason is None else {"exact": False, "reason": reason}


def _places(rows: Sequence[Row], venvs: Path) -> tuple[dict[str, Path], dict[str, str]]:
    places: dict[str, Path] = {}
    unavailable: dict[str, str] = {}
    for peer in dict.fromkeys(row.peer for row in rows if row.peer != OURS):
        try:
            places[peer] = environments.find(venvs, peer)
        except UnavailableError as error:
            unavailable[peer] = str(error)
    return places, unavailable


def _measure_peer(row: Row, count: int, place: Path, file: Path, timeout_s: float) -> dict[str, Any]:
    lines = [line.split() for line in file.read_text().splitlines()]
    program = trial.Program(
        command=[str(place / "bin" / "python"), "-m", f"bench.peers.programs.{row.program}"],
        environment={"PATH": f"{place / 'bin'}{os.pathsep}{os.environ['PATH']}"},
        settings=Settings(str(file), count, row.parallelism, "", row.options),
        words=_in_all(list(map(len, lines)), count),
        counted=_in_all(list(map(row.counted, lines)), count),
        timeout_s=timeout_s,
    )
    return trial.measure(program)


def _in_all(lengths: Sequence[int], count: int) -> int:
    """Return the sum of ``count`` lengths, which are these over and over."""
    rounds, rest = divmod(count, len(lengths))
    return rounds * sum(lengths) + sum(lengths[:rest])


def _measure_ours(row: Row, count: int, timeout_s: float) -> dict[str, Any]:
    """Measure Tupletree by a bench such as ``bench.word_count``, which compares every word's count with the truth."""
    variant = ["--workers", str(row.parallelism), "--sentences", str(count), *row.arguments]
    command = [sys.executable, "-m", f"bench.{row.program}", *variant, *WORKLOAD]
    try:
        ended = subprocess.run(command, cwd=trial.ROOT, capture_output=True, text=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        raise trial.FailedError(f"it took longer than {timeout_s:g} s") from None
    if ended.returncode:
        raise trial.FailedError(" | ".join(ended.stderr.strip().splitlines()[-6:])[-800:])
    told = json.loads(ended.stdout)
    return {"words": round(told["words_per_s"] * told["wall_s"]), **{name: told[name] for name in report.FIGURES}}
