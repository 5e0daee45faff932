"""``tupletree cluster up | status | down``: a cluster whose machines are executors of Spark."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import click

from tupletree.cli.options import conf_options, json_option
from tupletree.cli.output import print_json, print_table

if TYPE_CHECKING:
    from tupletree._sparkcluster.record import ClusterDirectory, Record
    from tupletree.client import ClusterDescription

_POLL_S: Final = 0.1
_DOWN_TIMEOUT_S: Final = 60.0

_directory_option = click.option(
    "--dir",
    "path",
    metavar="DIR",
    help="Directory of the cluster's files. Default: spark-cluster in the directory of the key local.dir.",
)


@click.group("cluster")
def command() -> None:
    """Run supervisors and ackers as tasks of a Spark application, on a Spark cluster that exists.

    \b
    Examples:
      tupletree cluster up --spark-master spark://master:7077 --executors 4 --cores 4 --slots 4
      tupletree cluster status
      tupletree submit words.py -c topology.workers=4
      tupletree cluster down
    """


@command.command("up")
@click.option("--spark-master", "master", required=True, metavar="URL", help="spark://HOST:PORT, yarn or k8s://URL.")
@click.option("--executors", default=2, show_default=True, type=click.IntRange(1), help="Machines to ask Spark for.")
@click.option("--slots", default=4, show_default=True, type=click.IntRange(1), help="Slots of each machine.")
@click.option("--ackers", type=click.IntRange(0), help="Machines that also run an acker. Default: 2, or all of fewer.")
@click.option("--cores", default=1, show_default=True, type=click.IntRange(1), help="Cores of each machine.")
@click.option("--memory", default="2g", show_default=True, metavar="SIZE", help="Memory of each machine.")
@click.option(
    "--zookeeper",
    metavar="HOST[:PORT],…",
    help="A ZooKeeper that exists, with its nimbus. Default: the key zookeeper.servers; without it, both start here.",
)
@click.option("--timeout", default=180.0, show_default=True, metavar="SECONDS", help="Maximum wait for the machines.")
@click.option("--foreground", is_flag=True, help="Run here until SIGTERM or Ctrl-C, for example in a container.")
@_directory_option
@conf_options
@json_option
def up(
    master: str,
    executors: int,
    slots: int,
    ackers: int | None,
    cores: int,
    memory: str,
    zookeeper: str | None,
    timeout: float,
    foreground: bool,
    path: str | None,
    conf_path: str | None,
    overrides: tuple[str, ...],
    as_json: bool,
) -> int:
    """Start a cluster on Spark, in the background of this machine, and wait for its machines.

    Each machine is an executor of its own with one supervisor. Executors need Python with tupletree. Keys spark.* given
    with -c or in tupletree.yaml reach Spark. A machine that Spark ends is asked for again.

    If a cluster of the same directory and master is up, the command shows that cluster. Exit status 0 if all machines
    are there, 1 if some are.

    \b
    Examples:
      tupletree cluster up --spark-master spark://master:7077 --executors 4 --cores 4
      tupletree cluster up --spark-master yarn --zookeeper zk1:2181,zk2:2181 -c spark.archives=venv.tar.gz#venv
    """
    from tupletree._sparkcluster.plan import ClusterSpec, check_master
    from tupletree._sparkcluster.record import MODULE
    from tupletree.config import load_explicit

    directory, explicit = _directory(path, conf_path, overrides), load_explicit(conf_path, overrides)
    if _is_up(directory, master):
        return _wait(directory, as_json)
    check_master(master, explicit, os.environ)
    if zookeeper is not None:
        explicit["zookeeper.servers"] = [part.strip() for part in zookeeper.split(",")]
    is_embedded = "zookeeper.servers" not in explicit
    own = min(2, executors) if ackers is None else ackers
    directory.save_spec(ClusterSpec(master, executors, slots, own, cores, memory, is_embedded, explicit))
    arguments = [sys.executable, "-m", MODULE, directory.path, str(timeout)]
    if foreground:
        os.execv(sys.executable, arguments)
    directory.forget()
    with open(directory.log_path, "ab") as log:
        process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    return _wait(directory, as_json, process)


@command.command("status")
@_directory_option
@conf_options
@json_option
def status(path: str | None, conf_path: str | None, overrides: tuple[str, ...], as_json: bool) -> int:
    """Show the executors of a cluster on Spark, the daemons on them, and what ended last.

    Exit status 0 if all machines and ackers are there, 1 if some are missing, 2 if no cluster runs.
    """
    directory = _directory(path, conf_path, overrides)
    record = _running(directory)
    if record is None:
        return _show_none(directory, directory.load(), as_json)
    return _show(directory, record, as_json)


@command.command("down")
@_directory_option
@conf_options
@json_option
def down(path: str | None, conf_path: str | None, overrides: tuple[str, ...], as_json: bool) -> None:
    """End a cluster on Spark: its application, its machines, and the ZooKeeper and nimbus that it started.

    Their data stay in the directory: the next 'cluster up' goes on with the same topologies.
    """
    directory = _directory(path, conf_path, overrides)
    pid = directory.process()
    if pid is not None:
        os.kill(pid, signal.SIGTERM)
        _await_end(directory)
    if as_json:
        print_json({"running": False, "ended_pid": pid, "directory": directory.path})
    elif pid is None:
        click.echo(f"no cluster on Spark runs from {directory.path}")
    else:
        click.echo("the cluster on Spark has ended")


def _directory(path: str | None, conf_path: str | None, overrides: tuple[str, ...]) -> ClusterDirectory:
    from tupletree._sparkcluster.record import ClusterDirectory
    from tupletree.config import load

    if path is None:
        path = os.path.join(os.path.expanduser(str(load(conf_path, overrides)["local.dir"])), "spark-cluster")
    return ClusterDirectory(path)


def _is_up(directory: ClusterDirectory, master: str) -> bool:
    """True if a cluster on this master runs from the directory. A failed one is waited for. Raises UsageError."""
    from tupletree.errors import UsageError

    running = _running(directory)
    if running is None:
        return False
    if running.phase == "failed":
        _await_end(directory)
        return False
    if running.master != master:
        raise UsageError(
            f"a cluster on {running.master} runs from {directory.path}: end it with 'tupletree cluster down', or "
            "name another directory with --dir"
        )
    return True


def _running(directory: ClusterDirectory) -> Record | None:
    """Return the record of the application that runs from the directory, which writes one soon after its start."""
    from tupletree.errors import UnavailableError

    deadline = time.monotonic() + _DOWN_TIMEOUT_S
    while (pid := directory.process()) is not None:
        record = directory.load()
        if record is not None and record.pid == pid:
            return record
        if time.monotonic() > deadline:
            raise UnavailableError(f"process {pid} runs from {directory.path} and says nothing: end it, and try again")
        time.sleep(_POLL_S)
    return None


def _await_end(directory: ClusterDirectory) -> None:
    """Wait until no application of the directory runs."""
    from tupletree.errors import UnavailableError

    deadline = time.monotonic() + _DOWN_TIMEOUT_S
    while (pid := directory.process()) is not None:
        if time.monotonic() > deadline:
            raise UnavailableError(f"process {pid} has not ended in {_DOWN_TIMEOUT_S:g} s: see {directory.log_path}")
        time.sleep(_POLL_S)


def _wait(directory: ClusterDirectory, as_json: bool, process: subprocess.Popen[bytes] | None = None) -> int:
    """Wait until the application is up or has failed. Its own deadline ends the wait."""
    from tupletree.errors import UnavailableError, UsageError

    while True:
        has_ended = directory.process() is None if process is None else process.poll() is not None
        record = directory.load()
        if has_ended:
            if record is not None and record.phase == "failed":
                raise (UsageError if record.is_usage else UnavailableError)(record.error)
            raise UnavailableError(f"the application of the cluster has ended: see {directory.log_path}")
        if record is not None and record.phase == "up":
            return _show(directory, record, as_json)
        time.sleep(_POLL_S)


def _show_none(directory: ClusterDirectory, record: Record | None, as_json: bool) -> int:
    error = record.error if record is not None else ""
    if as_json:
        print_json({"running": False, "directory": directory.path, "error": error})
    else:
        click.echo(f"no cluster on Spark runs from {directory.path}" + (f"; the last one: {error}" if error else ""))
    return 2


def _show(directory: ClusterDirectory, record: Record, as_json: bool) -> int:
    """Print the cluster. Return 0 if all its machines and ackers are there, else 1."""
    machines, unreachable = _machines(directory, record)
    ackers = sum(len(machine["ackers"]) for machine in machines)
    ready = record.phase == "up" and len(machines) >= record.machines and ackers >= record.ackers
    if as_json:
        facts = {**asdict(record), "running": True, "directory": directory.path, "ready": ready}
        print_json({**facts, "executors": machines, "unreachable": unreachable})
        return 0 if ready else 1
    slots = sum(machine["slots"] for machine in machines)
    click.echo(
        f"{'ready' if ready else record.phase if record.phase != 'up' else 'incomplete'}: {len(machines)} of "
        f"{record.machines} executors, {slots} slots, {ackers} of {record.ackers} ackers"
    )
    click.echo(f"  Spark       {record.master}  application {record.application}  {record.web_ui}".rstrip())
    click.echo(
        f"  ZooKeeper   {','.join(record.zookeeper)}" + ("  (of this application)" if record.is_embedded else "")
    )
    click.echo(f"  nimbus      {','.join(record.nimbus_seeds)}" + (f"  {unreachable}" if unreachable else ""))
    if machines:
        rows = [
            (
                one["supervisor"],
                one["host"],
                one["pid"],
                one["slots"],
                one["slots_used"],
                ", ".join(one["ackers"]) or "-",
            )
            for one in machines
        ]
        print_table(("supervisor", "host", "pid>", "slots>", "used>", "acker"), rows)
    for sentence in record.failures[-5:]:
        click.echo(f"  {sentence}")
    return 0 if ready else 1


def _machines(directory: ClusterDirectory, record: Record) -> tuple[list[dict[str, Any]], str]:
    """Return the machines of the application that nimbus knows, and the reason if nimbus does not answer."""
    from tupletree._sparkcluster.machine import prefix_of
    from tupletree.client import NimbusClient
    from tupletree.config import defaults
    from tupletree.errors import TupletreeError

    if not record.application:
        return [], ""
    conf = {**defaults(), **directory.load_spec().conf}
    try:
        with NimbusClient(list(record.nimbus_seeds), conf, leader_timeout_s=5.0) as client:
            return _on_spark(client.cluster(), prefix_of(record.application)), ""
    except TupletreeError as error:
        return [], str(error)


def _on_spark(cluster: ClusterDescription, prefix: str) -> list[dict[str, Any]]:
    """Return the supervisors with a prefix, each with the ackers of its host that no other one has."""
    ackers = [one for one in cluster.ackers if one.reachable]
    machines = []
    for one in sorted(cluster.supervisors, key=lambda one: one.presence.id):
        if not one.presence.id.startswith(prefix):
            continue
        here = next((acker for acker in ackers if acker.presence.host == one.presence.host), None)
        if here is not None:
            ackers.remove(here)
        machines.append({
            "supervisor": one.presence.id, "host": one.presence.host, "address": one.presence.address,
            "pid": one.presence.pid, "started_unix_s": one.presence.started_unix_s,
            "slots": len(one.presence.slots), "slots_used": one.slots_used,
            "ackers": [here.presence.id] if here is not None else [],
        })  # fmt: skip
    return machines
