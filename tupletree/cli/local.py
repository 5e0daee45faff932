"""``tupletree local``."""

from __future__ import annotations

import threading

import click

from tupletree.cli.options import conf_options, json_option
from tupletree.cli.output import print_json


@click.command("local")
@click.argument("file", metavar="FILE[:CALLABLE]")
@click.option("--name", help="Name of the topology; default: the file's name without .py.")
@click.option(
    "--seconds",
    type=click.FloatRange(min=0),
    default=20,
    show_default=True,
    help="How long to run; 0: until interrupted.",
)
@json_option
@conf_options
def command(
    file: str, name: str | None, seconds: float, as_json: bool, conf_path: str | None, overrides: tuple[str, ...]
) -> None:
    """Run a topology in this process, without a cluster.

    Everything runs in threads of this process: components can print, and a debugger can stop in them. An error in a
    component ends the run with exit status 1.

    \b
    Examples:
      tupletree local examples/word_count.py --seconds 5
      tupletree local app.py:make -c topology.debug=true --seconds 0
    """
    from tupletree.cli.submit import topology_settings
    from tupletree.cli.topology_file import load_topology
    from tupletree.testing import LocalCluster
    from tupletree.topology import check_topology_name

    explicit = topology_settings(conf_path, overrides)
    topology, brought, stem = load_topology(file)
    name = check_topology_name(name or stem)
    with LocalCluster() as cluster:
        cluster.submit(name, topology, {**brought, **explicit})
        if not as_json:
            click.echo(f"running {name} " + (f"for {seconds:g} s" if seconds else "until interrupted"), err=True)
        threading.Event().wait(seconds or None)
        cluster.kill(name)
    if as_json:
        print_json({"name": name, "seconds": seconds})
