"""``tupletree restart-worker``."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import click

from tupletree.cli.options import client_options, json_option, name_argument
from tupletree.cli.output import print_json
from tupletree.cli.workers import Source, one_source
from tupletree.errors import UnavailableError

if TYPE_CHECKING:
    from tupletree.client import NimbusClient, WorkerSummary

_LOOK_S = 0.25


@click.command("restart-worker")
@name_argument
@click.argument("worker", metavar="[[HOST:]PORT]", required=False)
@click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Maximum wait for the new process to be ready; 0: do not wait.",
)
@json_option
@client_options
def command(client: NimbusClient, name: str, worker: str | None, wait_s: float, as_json: bool) -> None:
    """Kill the process of one worker of a topology. The supervisor starts a new process at once, in the same slot.

    The worker's pending trees fail and are replayed. Default for the slot: the topology's only worker.

    Exit status 1 if the new process is not ready in time or the supervisor does not answer; 2 if the worker is not
    found.

    \b
    Examples:
      tupletree restart-worker word_count 6700
      tupletree restart-worker word_count host7:6701 --wait 0
    """
    source = one_source(client, name, worker)
    before = _worker_id(client, name, source)
    client.restart_worker(name, source.host, source.port)
    ready = _wait_until_ready(client, name, source, before, wait_s) if wait_s else None
    if as_json:
        print_json({"name": name, "worker": source.worker, "ready": ready})
    else:
        click.echo(f"worker {source.worker} of '{name}' was restarted" + (" and is ready" if ready else ""))


def _wait_until_ready(client: NimbusClient, name: str, source: Source, before: str, wait_s: float) -> bool:
    deadline_s = time.monotonic() + wait_s
    pause = threading.Event()
    while time.monotonic() < deadline_s:
        worker = _worker(client, name, source)
        if worker is not None and worker.ready and worker.worker_id not in ("", before):
            return True
        pause.wait(_LOOK_S)
    raise UnavailableError(
        f"worker {source.worker} of '{name}' is not ready after {wait_s:g} s: see 'tupletree logs {name}'"
    )


def _worker_id(client: NimbusClient, name: str, source: Source) -> str:
    worker = _worker(client, name, source)
    return worker.worker_id if worker is not None else ""


def _worker(client: NimbusClient, name: str, source: Source) -> WorkerSummary | None:
    found = [one for one in client.describe(name).workers if (one.host, one.port) == (source.host, source.port)]
    return found[0] if found else None
