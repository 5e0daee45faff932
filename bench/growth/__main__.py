"""Curves of the cost of a tuple while a topology grows: processor time, rate, latency and memory.

    python -m bench.growth --curve tasks --points 2,8,32 --rounds 3 --json
    python -m bench.growth --curve all --rounds 5 --record
    python -m bench.growth list

Each curve grows one dimension of a topology: tasks, workers, components in a chain, copies by an all grouping, bytes a
tuple, distinct keys, pending trees; and the memory of idle pairs of tasks. The points of a curve take turns on one
cluster, once per round, and each round begins with another point; figures are medians. A topology runs for --warm
seconds; then for --seconds it is measured; then it stops, and what it counted must be the truth, else the point has no
figures, its reason is told, and the exit status is 1.

``cpu_us_per_…`` is the processor time of all workers and ackers, ``idle_cores`` what they use before the spout emits.
On a machine that does other work compare processor times: rates and latencies depend on the share of the processors
that others leave. ``times`` is the cost by that of the first point.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from bench.__main__ import median
from bench._cli import WrongResultError, end_at_sigterm
from bench._record import record
from bench.growth.curves import BY_NAME, CURVES, Curve, NoRoomError
from bench.growth.steady import Times
from tupletree.testing import DevCluster

Rounds = dict[str, list[dict[str, Any]]]


def main(argv: Sequence[str]) -> int:
    """Run the command line."""
    arguments = _parser().parse_args(argv)
    end_at_sigterm()
    if arguments.command == "list":
        print("\n".join(f"{curve.name:<12} {_listed(curve.points):<44} {curve.axis}" for curve in CURVES))
        return 0
    curves = CURVES if arguments.curve == "all" else (BY_NAME[arguments.curve],)
    times = Times(warm_s=arguments.warm, seconds=arguments.seconds, timeout_s=arguments.timeout)
    results, is_whole = {}, True
    for curve in curves:
        points = arguments.points or curve.points
        rounds, failed = measured(curve, points, arguments.rounds, times)
        result = summary(curve, points, rounds)
        results[curve.name] = result
        is_whole = is_whole and not failed
        if arguments.record and result and not failed:
            config = {
                "points": list(points),
                "rounds": arguments.rounds,
                "warm": times.warm_s,
                "seconds": times.seconds,
            }
            record(f"growth_{curve.name}", config, result, rounds=rounds)
        if not arguments.json:
            print("\n".join(as_text(curve, result)), flush=True)
    if arguments.json:
        print(json.dumps(results))
    return 0 if is_whole else 1


def measured(curve: Curve, points: Sequence[int], rounds: int, times: Times) -> tuple[Rounds, bool]:
    """Measure every point once per round on one cluster. Also return True if a run failed."""
    found: Rounds = {}
    failed = False
    slots = max(curve.workers(point) for point in points)
    with DevCluster(slots=slots, ackers=1) as cluster:
        for number in range(rounds):
            first = number % len(points)
            for point in [*points[first:], *points[:first]]:
                try:
                    figures = curve.measure(cluster, point, times)
                except NoRoomError as error:
                    print(f"round {number + 1}: {error}: left out", file=sys.stderr, flush=True)
                    continue
                except (WrongResultError, TimeoutError) as error:
                    failed = True
                    print(f"round {number + 1}: {curve.name} {point:,} failed: {error}", file=sys.stderr, flush=True)
                    continue
                found.setdefault(str(point), []).append(figures)
                said = f"{curve.name} {point:,}: {curve.cost} {figures[curve.cost]}"
                print(f"round {number + 1} of {rounds}: {said}", file=sys.stderr, flush=True)
    return found, failed


def summary(curve: Curve, points: Sequence[int], rounds: Rounds) -> dict[str, dict[str, Any]]:
    """Return the medians of each point, in order, with its cost by that of the first."""
    result = {str(point): median(rounds[str(point)]) for point in points if str(point) in rounds}
    first = next(iter(result.values()), {}).get(curve.cost)
    for figures in result.values():
        figures["times"] = round(figures[curve.cost] / first, 2) if first else 0.0
    return result


def as_text(curve: Curve, result: dict[str, dict[str, Any]]) -> list[str]:
    """Return a table of the points and the sentences on them, for people."""
    names = [curve.cost, *(name for name in next(iter(result.values()), {}) if name != curve.cost)]
    rows = [["", *names], *([f"{int(point):,}", *(str(result[point][name]) for name in names)] for point in result)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(names) + 1)]
    table = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return [curve.name, *table, *curve.words(result), ""]


def _listed(points: Sequence[int]) -> str:
    return ",".join(map(str, points))


def _points(text: str) -> list[int]:
    points = [int(point.replace("_", "")) for point in text.split(",")]
    if min(points) < 1:
        raise ValueError(text)
    return points


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.growth", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", nargs="?", choices=("run", "list"), default="run", help="list: curves and points")
    parser.add_argument("--curve", choices=(*BY_NAME, "all"), default="tasks", help="(%(default)s)")
    parser.add_argument("--points", type=_points, help="comma-separated; otherwise those of 'list'")
    parser.add_argument("--rounds", type=int, default=1, help="(%(default)s); 5 for the record")
    parser.add_argument("--warm", type=float, default=2.0, help="seconds before the measurement (%(default)s)")
    parser.add_argument("--seconds", type=float, default=5.0, help="seconds of the measurement (%(default)s)")
    parser.add_argument("--timeout", type=float, default=300, help="seconds after which a step fails (%(default)s)")
    parser.add_argument("--json", action="store_true", help="one line of JSON: curve, point, figure, median")
    parser.add_argument("--record", action="store_true", help="keep the result of each curve in bench/results/")
    return parser


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
