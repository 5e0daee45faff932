"""``tupletree local``."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from tupletree.cli.local_progress import LocalProgress
from tupletree.cli.options import conf_options, json_option
from tupletree.cli.output import count, print_json, print_table
from tupletree.cli.statuses import printable
from tupletree.cli.submit import filter_options
from tupletree.errors import TupletreeError
from tupletree.outputs import PROGRESS_STREAM

if TYPE_CHECKING:
    from tupletree.cli.local_results import LastLine
    from tupletree.testing import LocalCluster
    from tupletree.topology import Topology

SHOWN_ENTRIES = 20
KEY_WIDTH = 60
VALUE_WIDTH = 120
LOOK_EVERY_S = 0.25


@click.command("local")
@click.argument("file", metavar="FILE[:CALLABLE]")
@filter_options
@click.option("--name", help="Name of the topology; default: the file's name without .py, or that in the YAML.")
@click.option(
    "--seconds",
    type=click.FloatRange(min=0),
    default=20,
    show_default=True,
    help="Maximum run time; 0: until interrupted.",
)
@click.option(
    "--blob",
    "blobs",
    multiple=True,
    metavar="KEY=FILE",
    help="The file of a blob that topology.blobstore.map names; may be repeated.",
)
@json_option
@conf_options
@click.pass_context
def command(
    context: click.Context,
    file: str,
    filter_file: str | None,
    env_filter: bool,
    name: str | None,
    seconds: float,
    blobs: tuple[str, ...],
    as_json: bool,
    conf_path: str | None,
    overrides: tuple[str, ...],
) -> None:
    """Run a topology in this process, without a cluster.

    FILE defines `topology`: a topology, its builder, or a function that returns either; or it is YAML. Everything runs
    in threads of this process: components can print, and a debugger can stop in them. While it runs, standard error
    shows when sources are connected, errors as they come, and, without --json, the emitted tuples. The run ends early
    when every source is at its end, if all spouts can tell (ReliableSpout, @spout). Then the command prints the number
    of tuples that each component emitted, the states of stateful bolts, and the newest error that each component
    reported. An exception in a component ends the run with exit status 1 and shows the lines of yours that raised it;
    TUPLETREE_TRACEBACK=1 shows the whole traceback. The exit status is also 1 if nothing was emitted, or not one
    message was processed, because of an error: the last line has it. A run that its default time has cut off says so.

    \b
    Examples:
      tupletree local words.py --seconds 5
      tupletree local app.py:make -c topology.debug=true --seconds 0
    """
    from tupletree.cli.submit import topology_conf
    from tupletree.cli.topology_file import load_topology
    from tupletree.topology import check_topology_name

    topology, brought, stem = load_topology(file, filter_file, env_filter)
    conf = topology_conf(brought, conf_path, overrides)
    is_whole, last = _run_and_report(
        check_topology_name(name or stem), topology, conf, seconds, as_json, _files_of(blobs)
    )
    if not is_whole and context.get_parameter_source("seconds") is ParameterSource.DEFAULT:
        click.echo(
            f"stopped after {seconds:g} s, before the end of all sources; --seconds 0 goes on until then", err=True
        )
    _end(last)


def _run_and_report(
    name: str, topology: Topology, conf: Mapping[str, Any], seconds: float, as_json: bool, blobs: Mapping[str, str]
) -> tuple[bool, LastLine]:
    """Run a topology and print what it did. Return true if it ended by itself, and the last line."""
    from tupletree.cli.local_results import last_line, users_states
    from tupletree.testing import LocalCluster

    emitted: Counter[tuple[str, str, int]] = Counter()

    def observe(component: str, stream: str, values: Any) -> None:
        emitted[component, stream, threading.get_ident()] += 1  # one counter per thread: += is not atomic

    started_s = time.monotonic()
    with LocalCluster(blobs=blobs) as cluster:
        cluster.submit(name, topology, conf, observer=observe)
        is_whole = _run(cluster, name, seconds, emitted, as_json)
        elapsed_s = time.monotonic() - started_s
        errors, states = cluster.errors(name), users_states(topology, cluster.states(name))
        last = last_line(topology, _by_component(emitted), cluster.counts(name), cluster.statuses(name), errors)
    _report(name, elapsed_s, emitted, errors, states, as_json)
    return is_whole, last


def _files_of(blobs: tuple[str, ...]) -> dict[str, str]:
    """Return the files of blobs, by key. Raises click.UsageError."""
    found = {}
    for given in blobs:
        key, separator, file = given.partition("=")
        if not key or not separator or not file:
            raise click.UsageError(f"--blob takes KEY=FILE, such as model=model.bin, not '{given}'.")
        found[key] = file
    return found


def _end(last: LastLine) -> None:
    """Print the last line, if there is one, and exit with status 1 if the run is a failure."""
    if last.text:
        click.echo(last.text, err=True)
    if last.is_failure:
        sys.exit(1)


def _run(
    cluster: LocalCluster, name: str, seconds: float, emitted: Counter[tuple[str, str, int]], as_json: bool
) -> bool:
    """Return true at the end of the sources, false after ``seconds`` (0: interrupted). Raises a component's error."""
    from tupletree._tracebacks import users_frames

    if not as_json:
        click.echo(f"running {name} " + (f"for at most {seconds:g} s" if seconds else "until interrupted"), err=True)
    began_s = look_s = time.monotonic()
    progress = LocalProgress()

    def look() -> None:
        now_s = time.monotonic() - began_s
        lines = progress.sources(now_s, cluster.statuses(name)) + progress.errors(now_s, cluster.errors(name))
        for line in lines + progress.summary(now_s, None if as_json else _by_component(emitted)):
            click.echo(line, err=True)

    def is_over() -> bool:
        nonlocal look_s
        now_s = time.monotonic()
        if now_s >= look_s:
            look()
            look_s = now_s + LOOK_EVERY_S
        cluster.hurry(name)  # a run ends when its last messages are in a checkpoint and in the batches of sinks
        return cluster.is_at_end(name) or (bool(seconds) and now_s >= began_s + seconds)

    try:
        cluster.wait_until(is_over, timeout=float("inf"))
        look()  # what a short run has done since the last time
        if cluster.is_at_end(name):
            cluster.finish(name, max(10, seconds or float("inf")))
            return True
    except KeyboardInterrupt:
        pass
    except TupletreeError as error:
        cause = error.__cause__
        if cause is not None and not isinstance(cause, TupletreeError) and (frames := users_frames(cause)):
            click.echo(frames, err=True)
        raise
    return False


def _by_component(emitted: Counter[tuple[str, str, int]]) -> Counter[str]:
    """Return how many tuples components have emitted, without those that only say how far event time has come."""
    totals: Counter[str] = Counter()
    for (component, stream, _), tuples in list(emitted.items()):  # of other threads, which add to it
        if stream != PROGRESS_STREAM:
            totals[component] += tuples
    return totals


def _report(
    name: str,
    elapsed_s: float,
    emitted: Counter[tuple[str, str, int]],
    errors: list[tuple[str, BaseException]],
    states: dict[str, dict[Any, Any]],
    as_json: bool,
) -> None:
    totals: Counter[tuple[str, str]] = Counter()
    for (component, stream, _), tuples in emitted.items():
        totals[component, stream] += tuples
    rows = [(component, stream, tuples) for (component, stream), tuples in sorted(totals.items())]
    times = Counter(component for component, _ in errors)
    newest = {component: f"{type(error).__name__}: {error}" for component, error in errors}
    if as_json:
        streams = [{"component": c, "stream": s, "emitted": tuples} for c, s, tuples in rows]
        reported = [{"component": c, "errors": times[c], "newest": newest[c]} for c in sorted(newest)]
        kept = [{"component": c, "entries": [list(entry) for entry in _sorted(state)]} for c, state in states.items()]
        print_json(
            {"name": name, "seconds": round(elapsed_s, 3), "streams": streams, "states": kept, "errors": reported}
        )
    else:
        print_table(
            ["component", "stream", "emitted>", "per second>"],
            [(c, s, count(tuples), count(tuples / elapsed_s)) for c, s, tuples in rows],
        )
        for component, state in states.items():
            shown = _sorted(state)[:SHOWN_ENTRIES]
            more = f", the first {SHOWN_ENTRIES}" if len(state) > SHOWN_ENTRIES else ""
            click.echo(f"\nstate of {component!r}, {count(len(state))} {'key' if len(state) == 1 else 'keys'}{more}:")
            print_table(
                ["key", "value>"],
                [(printable(str(key), KEY_WIDTH), printable(str(value), VALUE_WIDTH)) for key, value in shown],
            )
        for component in sorted(newest):
            what = "1 error" if times[component] == 1 else f"{times[component]:,} errors, the newest"
            click.echo(f"component {component!r} reported {what}: {newest[component]}", err=True)


def _sorted(state: dict[Any, Any]) -> list[tuple[Any, Any]]:
    """Return the entries of a state: the largest numbers first, then the rest by key."""
    numbers = [entry for entry in state.items() if isinstance(entry[1], int | float)]
    others = [entry for entry in state.items() if not isinstance(entry[1], int | float)]
    return sorted(numbers, key=lambda entry: (-entry[1], str(entry[0]))) + sorted(others, key=lambda one: str(one[0]))
