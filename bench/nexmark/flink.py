"""The queries in Flink SQL by PyFlink, over the same events in a file."""

from __future__ import annotations

import csv
import json
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from bench.nexmark.events import Auction, Event, Person
from bench.peers import environments, session
from bench.peers.environments import UnavailableError

ROOT: Final = Path(__file__).resolve().parents[2]
TIMEOUT_S: Final = 120
WARM_UP: Final = 1_000
NO_QUERY_6: Final = "Flink SQL has no OVER window on a stream of updates"


def figures(
    queries: Sequence[str], events: Sequence[Event], parallelism: int, venvs: Path
) -> dict[str, dict[str, Any]]:
    """Return events per second by query, or the reason why there are none, under names that begin with ``flink_``."""
    able = [query for query in queries if query != "q6"]
    seconds: dict[str, float] = {}
    reason = ""
    try:
        python = environments.find(venvs, "flink") / "bin" / "python"
        seconds, reason = _measure(python, able, events, parallelism)
    except UnavailableError as error:
        reason = str(error)
    found: dict[str, dict[str, Any]] = {
        query: {"flink_events_per_s": round(len(events) / of_query), "flink_wall_s": round(of_query, 3)}
        for query, of_query in seconds.items()
    }
    missing = {query: {"flink_unavailable": reason if query in able else NO_QUERY_6} for query in queries}
    return missing | found


def _measure(
    python: Path, queries: Sequence[str], events: Sequence[Event], parallelism: int
) -> tuple[dict[str, float], str]:
    """Run queries one after the other; return the seconds of each job, and the reason why others are missing."""
    with tempfile.TemporaryDirectory(prefix="bench-nexmark-flink-") as directory:
        log, output = Path(directory, "log"), Path(directory, "output")
        files = [Path(directory, "warm-up.csv"), Path(directory, "events.csv")]
        for file, part in zip(files, (events[:WARM_UP], events), strict=True):
            with file.open("w", newline="") as lines:
                csv.writer(lines).writerows(map(_row, part))
        program = ["-m", "bench.peers.programs.flink_nexmark", *map(str, files), str(parallelism), *queries]
        with log.open("wb") as errors, output.open("wb") as told:
            process = subprocess.Popen(
                [str(python), *program],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=told,
                stderr=errors,
                start_new_session=True,
            )
            try:
                process.wait(TIMEOUT_S * len(queries))
                reason = _reason(log.read_text(errors="replace"))
            except subprocess.TimeoutExpired:
                reason = f"it took longer than {TIMEOUT_S * len(queries)} s"
            finally:
                session.end(process)
        jobs = [json.loads(line) for line in output.read_text().splitlines() if line.startswith("{")]
        return {job["query"]: float(job["seconds"]) for job in jobs}, f"it failed: {reason}"


def _reason(log: str) -> str:
    """Return the last cause that a program of Java and Python has logged."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return next((line for line in reversed(lines) if "Exception" in line), lines[-1] if lines else "no message")[:300]


def _row(event: Event) -> list[Any]:
    """Return an event as a line of the file: see flink_nexmark.EVENTS."""
    if isinstance(event, Person):
        return ["Person", event.id, 0, 0, event.name, event.city, event.state, 0, 0, event.time]
    if isinstance(event, Auction):
        return ["Auction", event.id, event.seller, 0, event.item, "", "", event.category, event.expires, event.time]
    return ["Bid", event.auction, event.bidder, event.price, event.channel, "", "", 0, 0, event.time]
