"""``tupletree profile``."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

import click

from tupletree.cli.options import client_options, json_option, name_argument
from tupletree.cli.output import escaped, print_json
from tupletree.cli.workers import Source, one_source
from tupletree.errors import UnavailableError, UsageError

if TYPE_CHECKING:
    from tupletree.client import NimbusClient


@click.command("profile")
@name_argument
@click.argument("worker", metavar="[[HOST:]PORT]", required=False)
@click.option(
    "-d",
    "--seconds",
    type=click.FloatRange(1, 600),
    default=10.0,
    show_default=True,
    help="Duration of the profile.",
)
@click.option(
    "--format",
    "kind",
    type=click.Choice(["flamegraph", "speedscope", "raw"]),
    default="flamegraph",
    show_default=True,
    help="SVG for a browser, JSON for speedscope.app, or one line per stack.",
)
@click.option("--rate", type=click.IntRange(1, 1000), default=100, show_default=True, help="Samples per second.")
@click.option("-o", "--output", metavar="FILE", help="Output file; default: a new file in this directory.")
@click.option("--stacks", is_flag=True, help="Print the current stack of each thread instead.")
@click.option("--memory", is_flag=True, help="Count the objects in the worker's memory by type instead.")
@json_option
@client_options
def command(
    client: NimbusClient,
    name: str,
    worker: str | None,
    seconds: float,
    kind: str,
    rate: int,
    output: str | None,
    stacks: bool,
    memory: bool,
    as_json: bool,
) -> None:
    """Profile a worker of a topology and write the result to a file: by default a flame graph.

    The worker keeps running. Its supervisor samples it from outside with py-spy, so a hanging worker can be profiled
    too. If the kernel does not allow this, the command prints the reason. The supervisor keeps the newest profiles
    beside the worker's log (tupletree logs NAME --list).

    --memory writes what fills the worker's memory: the types of the objects with their numbers and sizes, and the
    largest objects. The worker counts for at most 30 seconds, in which its other threads are slower.

    Default for the slot: the topology's only worker. Exit status 1 if the worker cannot be profiled, 2 if it is not
    found.

    \b
    Examples:
      tupletree profile word_count 6700
      tupletree profile word_count 6700 --seconds 60 --format speedscope -o words.json
      tupletree profile word_count 6700 --stacks
      tupletree profile word_count 6700 --memory
    """
    if stacks and memory:
        raise UsageError("--stacks and --memory are two commands: give one of them")
    source = one_source(client, name, worker)
    if stacks:
        text = client.dump_stacks(source.supervisor, source.topology_id, source.port)
        if as_json:
            print_json({"name": name, "worker": source.worker, "stacks": text})
        else:
            click.echo(escaped(text), nl=False)
        return
    if output is not None and os.path.isdir(output):
        raise UsageError(f"{output} is a directory; --output takes the name of a file")
    path, size = _fetch(client, source, seconds, "memory" if memory else kind, rate, output)
    if as_json:
        print_json({"name": name, "worker": source.worker, "file": path, "bytes": size})
    else:
        what = "the memory" if memory else f"{seconds:g} s"
        click.echo(f"{path}: {size:,} bytes, {what} of worker {source.worker}")


def _fetch(
    client: NimbusClient, source: Source, seconds: float, kind: str, rate: int, output: str | None
) -> tuple[str, int]:
    """Write the profile that the supervisor sends; return the file and its size. A partial file is removed."""
    replies = client.profile_worker(source.supervisor, source.topology_id, source.port, seconds, kind, rate)
    with contextlib.closing(replies):
        first = next(replies, None)
        if first is None:
            raise UnavailableError(f"the supervisor of worker {source.worker} has sent no profile")
        path = output or os.path.basename(first.file)
        partial = f"{path}.partial"
        try:
            with open(partial, "wb") as file:
                file.write(first.data)
                for reply in replies:
                    file.write(reply.data)
                size = file.tell()
            os.replace(partial, path)
        except OSError as error:
            raise UsageError(f"cannot write {path}: {error.strerror}") from error
        finally:
            with contextlib.suppress(OSError):
                os.unlink(partial)
    return path, size
