"""Arguments, the cluster, the summary, the exit status: 0 only if at-least-once held and both crashes took place."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from examples.demo.screen import Screen
from examples.demo.story import Demo, Story
from tupletree.errors import TupletreeError
from tupletree.testing import DevCluster


def main() -> int:
    """Run the demo and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m examples.demo", description=sys.modules["examples.demo"].__doc__)
    parser.add_argument("--lines", type=int, default=200_000, help="how many lines of text to count (%(default)s)")
    parser.add_argument("--seconds", type=float, default=115, help="when to give up (%(default)s)")
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object; progress to stderr")
    parser.add_argument("--plain", action="store_true", help="plain lines even on a terminal")
    arguments = parser.parse_args()
    if arguments.lines < 1:
        parser.error("--lines must be at least 1")
    try:
        story = play(arguments.lines, arguments.seconds, plain=arguments.plain, quiet=arguments.json)
    except TupletreeError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    print(json.dumps(story.as_json()) if arguments.json else summary(story))
    return 0 if story.held else 1


def play(lines: int, seconds: float, *, plain: bool, quiet: bool) -> Story:
    """Bring a cluster up, play the story on it, take it down again."""
    with Screen(plain=plain, errors=quiet) as screen:
        screen.note("starting ZooKeeper, 1 nimbus, 1 supervisor and 2 ackers on free ports of this machine")
        with DevCluster(supervisors=1, slots=4, ackers=2, nimbuses=1) as cluster:
            screen.note(f"the cluster is up, in {cluster.directory}")
            return Demo(cluster, screen, lines, Path(cluster.directory, "counted")).run(seconds)


def summary(story: Story) -> str:
    """The comparison with the truth, in words."""
    judgement = story.judgement
    surplus = judgement.counted - judgement.words
    parts = [
        "",
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
    parts.append(f"at least once: {'HELD' if story.held else 'NOT HELD'}")
    return "\n".join(parts)


if __name__ == "__main__":
    sys.exit(main())
