"""Command line of the demo: arguments, cluster and summaries.

Exit status 0 only if both guarantees held and every crash took place.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from pathlib import Path

from examples import live_words
from examples.demo import victims
from examples.demo.pipeline import SparkDemo, SparkStory
from examples.demo.screen import Screen
from examples.demo.story import Demo, Story
from tupletree.cli.ui import web_address
from tupletree.errors import TupletreeError
from tupletree.testing import DevCluster


def main() -> int:
    """Run the demo and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m examples.demo", description=sys.modules["examples.demo"].__doc__)
    parser.add_argument("--lines", type=int, default=200_000, help="how many lines of text to count (%(default)s)")
    parser.add_argument("--seconds", type=float, default=170, help="give up after this time (%(default)s)")
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object; progress to stderr")
    parser.add_argument("--stay", action="store_true", help="afterwards keep a topology running until Ctrl-C")
    parser.add_argument("--plain", action="store_true", help="plain lines even on a terminal")
    arguments = parser.parse_args()
    if arguments.lines < 1:
        parser.error("--lines must be at least 1")
    try:
        victims.require_proc()
        first, second = play(arguments)
    except TupletreeError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0 if first.held and second.held else 1


def play(arguments: argparse.Namespace) -> tuple[Story, SparkStory]:
    """Start a cluster, play both acts, print the results, and stop the cluster."""
    with Screen(plain=arguments.plain, errors=arguments.json) as screen:
        screen.note("starting ZooKeeper, 1 nimbus, 1 supervisor and 2 ackers on free ports of this machine")
        with DevCluster(supervisors=1, slots=4, ackers=2, nimbuses=1) as cluster:
            screen.note(f"the cluster is up, in {cluster.directory}")
            address = web_address(cluster.client)
            screen.note(f"its web UI, as long as this runs: {address}")
            first = Demo(cluster, screen, arguments.lines, Path(cluster.directory, "counted")).run(arguments.seconds)
            cluster.restart("acker", 0)  # killed in the first act
            pipeline = SparkDemo(cluster, screen, arguments.lines, Path(cluster.directory, "piped"))
            second = pipeline.run(arguments.seconds)
            screen.close()
            tell(first, second, as_json=arguments.json)
            if arguments.stay:
                stay(cluster, address)
            return first, second


def tell(first: Story, second: SparkStory, *, as_json: bool) -> None:
    """Print the results of both acts."""
    if as_json:
        held = first.held and second.held
        print(json.dumps({"held": held, "at_least_once": first.as_json(), "exactly_once": second.as_json()}))
    else:
        print("\n".join(["", *summary(first), "", *spark_summary(second)]), flush=True)


def stay(cluster: DevCluster, address: str) -> None:
    """Keep a topology running until Ctrl-C."""
    cluster.client.submit("live", live_words.topology(), {"topology.workers": 2})
    print(f"\nThe topology 'live' runs now. Look at it in a browser: {address}   (Ctrl-C ends everything)", flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            time.sleep(1)


def summary(story: Story) -> list[str]:
    """Return the comparison of the first act with the truth, in words."""
    judgement = story.judgement
    surplus = judgement.counted - judgement.words
    parts = [
        "1. Every line a tuple, every word a tuple, through the workers. No word may be counted too seldom; what was",
        "   under way in a crash is replayed, so it may be counted again.",
        f"{judgement.acked:,} of {judgement.lines:,} lines acked in {story.seconds:.1f} s: "
        f"{judgement.words / story.seconds:,.0f} words/s, crashes included",
        f"{judgement.replayed:,} lines replayed; {surplus:,} of {judgement.counted:,} words counted are repeats",
        f"{judgement.exact:,} of {judgement.distinct:,} different words counted exactly"
        + (f", among them all {judgement.untouched:,} that stand in no replayed line" if judgement.held else ""),
    ]
    for crash in story.crashes:
        end = "not recovered" if crash.recovery_s is None else f"recovered in {crash.recovery_s:.1f} s"
        parts.append(f"kill -9 of {crash.role} {crash.name}: {end}")
    parts += [f"FAULT: {fault}" for fault in judgement.faults]
    if not story.held and judgement.held:
        parts.append("FAULT: the crashes did not take place, or were not recovered from in time")
    return [*parts, f"at least once: {'HELD' if story.held else 'NOT HELD'}"]


def spark_summary(story: SparkStory) -> list[str]:
    """Return the comparison of the second act with the truth, in words."""
    judgement, crash = story.judgement, story.crash
    parts = [
        "2. The same text in batches, through Spark. No word may be counted too seldom or too often: a batch that is",
        "   replayed takes effect once.",
        f"{judgement.words:,} words in {story.batches:,} batches committed in {story.seconds:.1f} s: "
        f"{judgement.words / story.seconds:,.0f} words/s, starting Spark and the crash included",
        f"{story.exact:,} of {judgement.distinct:,} different words counted exactly",
    ]
    if crash is not None:
        end = "not recovered" if crash.recovery_s is None else f"recovered in {crash.recovery_s:.1f} s"
        parts.append(f"kill -9 of worker {crash.name}, which drives Spark: {end}")
    parts += [f"FAULT: {fault}" for fault in judgement.faults]
    if not story.held and judgement.held:
        parts.append("FAULT: the crash did not take place, or was not recovered from in time")
    return [*parts, f"exactly once: {'HELD' if story.held else 'NOT HELD'}"]


if __name__ == "__main__":
    sys.exit(main())
