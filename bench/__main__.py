"""Run benches, record their results, and write the page of results.

    python -m bench list                                     all benches and cases
    python -m bench run word_count                           every case of a bench, once
    python -m bench run word_count:two-workers latency --rounds 5 --record
    python -m bench report                                   docs/performance.md from the newest records

With --rounds every case runs once in each round, and each round begins with another case, so that other load on the
machine affects all cases alike. Medians over the rounds are shown and recorded; --record writes one file for each bench
to bench/results/, with every round. A run with a wrong result is reported, its bench is not recorded, and the exit
status is 1. Each run is a process of its own; an interrupt ends the run and everything it started. On a machine shared
with others, --calm 0.3 waits until other programs use at most 0.3 processors, and repeats a run during which they used
more. The runs to keep are chosen by the use of others alone, never by speed.

A bench can also be run by itself, with any configuration: python -m bench.word_count --help.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from bench import report
from bench._cli import end_at_sigterm
from bench._processes import busy_s
from bench._record import record
from bench._suite import SUITE, Bench, chosen, config_of
from tupletree.errors import UsageError
from tupletree.testing import wait_until

END_S = 60.0
LOOK_S = 1.0

Results = dict[str, dict[str, list[dict[str, Any]]]]


class Calm(NamedTuple):
    """Limit on the processors that others use during a run, and the seconds to spend on meeting the limit."""

    cores: float = math.inf
    patience_s: float = 0.0


ANYHOW = Calm()


class RunError(Exception):
    """A run ended without a result."""


def main(argv: Sequence[str]) -> int:
    """Run the command line."""
    arguments = _parser().parse_args(argv)
    if arguments.command == "list":
        print("\n".join(_listed()))
        return 0
    if arguments.command == "report":
        return report.main(["--check"] if arguments.check else [])
    end_at_sigterm()
    try:
        benches = chosen(arguments.names)
    except UsageError as error:
        print(error, file=sys.stderr)
        return 2
    results, failed = run_all(benches, arguments.rounds, Calm(arguments.calm, arguments.patience))
    shown: dict[str, Any] = {}
    for bench, cases in benches:
        runs = results[bench.name]
        shown[bench.name] = {case: median(runs[case]) for case in cases if runs.get(case)}
        if arguments.record and bench.name not in failed:
            config = {
                "rounds": arguments.rounds,
                "cases": {case: config_of(bench.cases[case].split()) for case in cases},
            }
            record(bench.name, config, shown[bench.name], rounds=runs)
    print(json.dumps(shown) if arguments.json else "\n".join(_as_text(shown)))
    return 1 if failed else 0


def run_all(benches: Sequence[tuple[Bench, list[str]]], rounds: int, calm: Calm = ANYHOW) -> tuple[Results, set[str]]:
    """Run every case once per round, calmly. Also return the names of the benches with a failed run."""
    turns = [(bench, case) for bench, cases in benches for case in cases]
    results: Results = {bench.name: {} for bench, _ in benches}
    failed = set()
    for number in range(rounds):
        first = number % len(turns)
        for bench, case in turns[first:] + turns[:first]:
            try:
                result = calmest(partial(run_once, bench, bench.cases[case].split()), calm, wait_calm)
            except RunError as error:
                failed.add(bench.name)
                print(f"round {number + 1}: {bench.name}:{case} failed: {error}", file=sys.stderr)
                continue
            results[bench.name].setdefault(case, []).append(result)
            headline = f"{bench.headline} {result.get(bench.headline)}"
            print(f"round {number + 1} of {rounds}: {bench.name}:{case}: {headline}", file=sys.stderr, flush=True)
    return results, failed


def calmest(
    run: Callable[[], dict[str, Any]],
    calm: Calm,
    wait: Callable[[float, float], None],
    clock: Callable[[], float] = time.monotonic,
) -> dict[str, Any]:
    """Return the first calm run, or the calmest of the runs begun within the patience.

    ``wait(cores, timeout_s)`` is called before each run.
    """
    until_s = clock() + calm.patience_s
    tries: list[dict[str, Any]] = []
    while not tries or (_disturbance(tries[-1]) > calm.cores and clock() < until_s):
        wait(calm.cores, until_s - clock())
        tries.append(run())
    return min(tries, key=_disturbance)


def wait_calm(cores: float, timeout_s: float) -> None:
    """Wait until at most ``cores`` processors are in use, or the time is up."""
    with contextlib.suppress(TimeoutError):
        wait_until(lambda: cores == math.inf or busy_cores(LOOK_S) <= cores, timeout_s, what="the machine is calm")


def busy_cores(seconds: float) -> float:
    """Return the average number of processors in use over the next ``seconds`` seconds."""
    before_s, began_s = busy_s(), time.perf_counter()
    time.sleep(seconds)
    return (busy_s() - before_s) / (time.perf_counter() - began_s)


def _disturbance(result: Mapping[str, Any]) -> float:
    return float(result.get("others_cores", 0.0))


def run_once(bench: Bench, arguments: Sequence[str]) -> dict[str, Any]:
    """Return the printed result of one run.

    Raises:
        RunError: the run failed, or its result was wrong.
    """
    command = [sys.executable, "-m", f"bench.{bench.name}", *arguments, "--json"]
    if shutil.which("setpriv"):  # the run ends with this process, even if this process is killed
        command = ["setpriv", "--pdeathsig", "TERM", *command]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        output, errors = process.communicate()
    except BaseException:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=END_S)
        process.kill()
        process.wait()
        raise
    if process.returncode:
        raise RunError(f"exit status {process.returncode}: {errors.strip()[-2000:]}")
    result: dict[str, Any] = json.loads(output.splitlines()[-1])
    return result


def median(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the median of each metric over runs. Booleans are true if true in all runs; other values are the last."""
    return {name: _median_of([run[name] for run in runs if name in run]) for name in runs[-1]}


def _median_of(values: Sequence[Any]) -> Any:
    last = values[-1]
    if isinstance(last, bool):
        return all(values)
    if isinstance(last, dict):
        return median(values)
    if isinstance(last, int):
        return round(statistics.median(values))
    if isinstance(last, float):
        return round(statistics.median(values), 3)
    return last


def _as_text(shown: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> list[str]:
    lines = []
    for name, cases in shown.items():
        lines.append(f"{name}")
        for case, figures in cases.items():
            lines.append(f"  {case}")
            lines += [f"    {key:<28} {value}" for key, value in figures.items()]
    return lines


def _listed() -> list[str]:
    lines = []
    for bench in SUITE:
        lines.append(f"{bench.name:<18} {bench.about}")
        lines += [f"    {case:<20} {arguments}" for case, arguments in bench.cases.items()]
    return lines


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("list", help="every bench with its cases and their arguments")
    run = commands.add_parser("run", help="measure, in rounds", description="Measure benches in rounds.")
    run.add_argument("names", nargs="+", metavar="BENCH[:CASE]", help="see: python -m bench list")
    run.add_argument("--rounds", type=int, default=1, help="how often each case runs (%(default)s); 5 for the record")
    run.add_argument(
        "--calm",
        type=float,
        default=math.inf,
        metavar="CORES",
        help="wait until others use at most CORES processors, and repeat a run during which they used more",
    )
    run.add_argument("--patience", type=float, default=180, help="seconds to spend on --calm per run (%(default)s)")
    run.add_argument("--json", action="store_true", help="one line of JSON: bench, case, figure, median")
    run.add_argument("--record", action="store_true", help="keep the result in bench/results/")
    page = commands.add_parser("report", help="write docs/performance.md", description=report.__doc__)
    page.add_argument("--check", action="store_true", help="only say whether the page is up to date")
    return parser


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
