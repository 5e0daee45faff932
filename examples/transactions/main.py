"""Arguments, the cluster, the summary, the exit status: 0 only if exactly-once held."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from pathlib import Path

from examples.demo.screen import Screen
from examples.transactions.run import Run, Story
from tupletree.errors import TupletreeError
from tupletree.testing import DevCluster


def main() -> int:
    """Run it and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.transactional_words",
        description="Transactional words on a cluster of this machine, with kill -9 of a random worker, acker, "
        "supervisor or nimbus every few seconds and of ZooKeeper once; then all counts are compared with the truth.",
    )
    parser.add_argument("--seconds", type=float, default=60, help="how long to kill (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="who is killed when (%(default)s)")
    parser.add_argument("--rate", type=float, default=2_000, help="lines written each second (%(default)s)")
    parser.add_argument("--directory", type=Path, help="keep lines and databases in this new directory")
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object; progress to stderr")
    arguments = parser.parse_args()
    if arguments.seconds <= 0 or arguments.rate <= 0:
        parser.error("--seconds and --rate must be more than 0")
    if arguments.directory is not None and arguments.directory.exists():
        parser.error(f"--directory: {arguments.directory} exists already")
    logging.getLogger().addHandler(logging.NullHandler())  # that ZooKeeper goes away is no news here
    try:
        story = play(arguments)
    except (TupletreeError, TimeoutError) as error:
        print(f"transactional words: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    print(json.dumps(story.as_json()) if arguments.json else summary(story))
    return 0 if story.held else 1


def play(arguments: argparse.Namespace) -> Story:
    """Bring a cluster up, run on it, take it down again."""
    with Screen(plain=True, errors=arguments.json) as screen:
        screen.note("starting ZooKeeper, 2 nimbuses, 2 supervisors and 2 ackers on free ports of this machine")
        with DevCluster(supervisors=2, slots=2, ackers=2, nimbuses=2) as cluster:
            screen.note(f"the cluster is up, in {cluster.directory}")
            directory = arguments.directory or Path(cluster.directory, "transactional-words")
            return Run(cluster, screen, directory.absolute(), arguments.seed, arguments.rate).run(arguments.seconds)


def summary(story: Story) -> str:
    """The comparison with the truth, in words."""
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
