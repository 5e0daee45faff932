"""``tupletree local``."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from tupletree.cli.options import conf_options, json_option
from tupletree.cli.output import count, print_json, print_table

if TYPE_CHECKING:
    from tupletree.testing import LocalCluster


@click.command("local")
@click.argument("file", metavar="FILE[:CALLABLE]")
@click.option("--name", help="Name of the topology; default: the file's name without .py.")
@click.option(
    "--seconds",
    type=click.FloatRange(min=0),
    default=20,
    show_default=True,
    help="Run time; 0: until interrupted.",
)
@json_option
@conf_options
def command(
    file: str, name: str | None, seconds: float, as_json: bool, conf_path: str | None, overrides: tuple[str, ...]
) -> None:
    """Run a topology in this process, without a cluster.

    Everything runs in threads of this process: components can print, and a debugger can stop in them. At the end the
    command prints the number of tuples that each component emitted, and the newest error that each reported. An
    exception in a component ends the run with exit status 1; TUPLETREE_TRACEBACK=1 shows the traceback.

    \b
    Examples:
      tupletree local examples/word_count.py --seconds 5
      tupletree local app.py:make -c topology.debug=true --seconds 0
    """
    from tupletree.cli.submit import topology_conf
    from tupletree.cli.topology_file import load_topology
    from tupletree.testing import LocalCluster
    from tupletree.topology import check_topology_name

    topology, brought, stem = load_topology(file)
    conf = topology_conf(brought, conf_path, overrides)
    name = check_topology_name(name or stem)
    emitted: Counter[tuple[str, str, int]] = Counter()

    def observe(component: str, stream: str, values: Any) -> None:
        emitted[component, stream, threading.get_ident()] += 1  # a thread each, so that none overwrites another's

    started_s = time.monotonic()
    with LocalCluster() as cluster:
        cluster.submit(name, topology, conf, observer=observe)
        if not as_json:
            click.echo(f"running {name} " + (f"for {seconds:g} s" if seconds else "until interrupted"), err=True)
        _run(cluster, seconds)
        errors = cluster.errors(name)
    _report(name, time.monotonic() - started_s, emitted, errors, as_json)


def _run(cluster: LocalCluster, seconds: float) -> None:
    """Return after ``seconds`` (0: when interrupted); raise what a component raised."""
    end_s = time.monotonic() + seconds if seconds else float("inf")
    try:
        cluster.wait_until(lambda: time.monotonic() >= end_s, timeout=float("inf"))
    except KeyboardInterrupt:
        return


def _report(
    name: str,
    elapsed_s: float,
    emitted: Counter[tuple[str, str, int]],
    errors: list[tuple[str, BaseException]],
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
        print_json({"name": name, "seconds": round(elapsed_s, 3), "streams": streams, "errors": reported})
    else:
        print_table(
            ["component", "stream", "emitted>", "a second>"],
            [(c, s, count(tuples), count(tuples / elapsed_s)) for c, s, tuples in rows],
        )
        for component in sorted(newest):
            what = "1 error" if times[component] == 1 else f"{times[component]:,} errors, the newest"
            click.echo(f"component {component!r} reported {what}: {newest[component]}", err=True)
