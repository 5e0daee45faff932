"""Command line of the example: arguments, cluster and summary. Exit status 0 only if exactly-once held."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from examples.demo.screen import Screen
from examples.transactions.run import Run, Story
from tupletree.errors import TupletreeError
from tupletree.testing import DevCluster


class Playable(Protocol):
    """A run on a running cluster."""

    def run(self, seconds: float) -> Story:
        """Play the whole run, with kills for ``seconds`` seconds."""


MakeRun = Callable[[DevCluster, Screen, Path, int, float], Playable]
"""(cluster, screen, directory, seed, lines per second) -> run."""


def main() -> int:
    """Run the example and return the exit status."""
    description = (
        "Transactional words on a cluster of this machine, with kill -9 of a random worker, acker, supervisor or "
        "nimbus every few seconds and of ZooKeeper once; then all counts are compared with the truth."
    )
    return run_main("transactional_words", description, 2_000, Run)


def run_main(example: str, description: str, rate: float, make_run: MakeRun) -> int:
    """Parse arguments, play the run from ``make_run`` on a cluster, and print the result."""
    parser = argparse.ArgumentParser(prog=f"python -m examples.{example}", description=description)
    parser.add_argument("--seconds", type=float, default=60, help="how long to kill (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="who is killed when (%(default)s)")
    parser.add_argument("--rate", type=float, default=rate, help="lines written each second (%(default)s)")
    parser.add_argument("--directory", type=Path, help="keep lines and databases in this new directory")
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object; progress to stderr")
    arguments = parser.parse_args()
    if arguments.seconds <= 0 or arguments.rate <= 0:
        parser.error("--seconds and --rate must be more than 0")
    if arguments.directory is not None and arguments.directory.exists():
        parser.error(f"--directory: {arguments.directory} exists already")
    logging.getLogger().addHandler(logging.NullHandler())  # ZooKeeper's absence is expected here
    try:
        story = play(arguments, make_run)
    except (TupletreeError, TimeoutError) as error:
        print(f"{example.replace('_', ' ')}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    print(json.dumps(story.as_json()) if arguments.json else summary(story))
    return 0 if story.held else 1


def play(arguments: argparse.Namespace, make_run: MakeRun) -> Story:
    """Start a cluster, play the run, and stop the cluster."""
    with Screen(plain=True, errors=arguments.json) as screen:
        screen.note("starting ZooKeeper, 2 nimbuses, 2 supervisors and 2 ackers on free ports of this machine")
        with DevCluster(supervisors=2, slots=2, ackers=2, nimbuses=2) as cluster:
            screen.note(f"the cluster is up, in {cluster.directory}")
            directory = (arguments.directory or Path(cluster.directory, "kept")).absolute()
            return make_run(cluster, screen, directory, arguments.seed, arguments.rate).run(arguments.seconds)


def summary(story: Story) -> str:
    """Return the comparison with the truth, in words."""
    judgement = story.judgement
    kills = ", ".join(f"{role} {count}" for role, count in sorted(story.kills.items()))
    return "\n".join(
        [
            "",
            f"{judgement.lines:,} lines, {judgement.words:,} words, {judgement.distinct:,} different ones",
            f"{story.batches:,} transactions committed, about {story.replays:,} batches replayed",
            f"kill -9: {kills}; nothing was committed for {story.longest_stall_s:.1f} s at the longest",
            *(f"FAULT: {fault}" for fault in judgement.faults),
            *([] if story.finished else ["FAULT: not everything was committed in time"]),
            f"exactly once: {'HELD' if story.held else 'NOT HELD'}",
        ]
    )
