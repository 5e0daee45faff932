"""``tupletree dev``: a whole cluster on this machine, in the foreground."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from dataclasses import asdict
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

import click

from tupletree._compiled import NOT_COMPILED, cost_of
from tupletree.cli.options import conf_options, json_option
from tupletree.cli.output import print_json

if TYPE_CHECKING:
    from tupletree._devcluster.foreground import Event, Foreground
    from tupletree._devcluster.plan import ClusterPlan
    from tupletree._devcluster.running import RunOn

_START_TIMEOUT_S: Final = 60.0
_DEFAULT_SEED: Final = "127.0.0.1:6627"


@click.command("dev")
@click.option("--supervisors", default=1, show_default=True, type=click.IntRange(0), help="Supervisors.")
@click.option("--slots", default=4, show_default=True, type=click.IntRange(1), help="Slots of each supervisor.")
@click.option("--ackers", default=1, show_default=True, type=click.IntRange(0), help="Acker services.")
@click.option("--nimbuses", default=1, show_default=True, type=click.IntRange(1), help="Nimbuses; one of them leads.")
@click.option("--drpc", is_flag=True, help="A DRPC server, too, which all topologies use.")
@click.option(
    "--dir",
    "directory",
    metavar="DIR",
    help="Directory for all data; the next start continues from it. Default: a temporary directory.",
)
@click.option(
    "--machines",
    is_flag=True,
    help="Give each process a machine of its own: a network namespace, or without root a loopback address.",
)
@conf_options
@json_option
def command(
    supervisors: int,
    slots: int,
    ackers: int,
    nimbuses: int,
    drpc: bool,
    directory: str | None,
    machines: bool,
    conf_path: str | None,
    overrides: tuple[str, ...],
    as_json: bool,
) -> None:
    """Run a whole cluster on this machine: ZooKeeper, nimbus, supervisor, acker, each in its own process.

    The cluster listens on the default ports, so that every other command finds it. A daemon that dies is restarted.
    Ctrl-C stops the cluster.

    \b
    Examples:
      tupletree dev
      tupletree dev --supervisors 2 --ackers 2 --nimbuses 2 --dir ./cluster
      tupletree dev --drpc
      tupletree dev --machines --supervisors 8
      tupletree dev -c nimbus.port=7627 -c zookeeper.port=3181
    """
    from tupletree._devcluster.foreground import lock_directory
    from tupletree._devcluster.machines import of_their_own
    from tupletree._devcluster.plan import Size, plan_on_machines, plan_with_fixed_ports
    from tupletree._devcluster.running import run_here
    from tupletree.config import load, load_explicit

    explicit, complete = load_explicit(conf_path, overrides), load(conf_path, overrides)
    with contextlib.ExitStack() as stack:
        home = os.path.abspath(directory or stack.enter_context(_temporary()))
        stack.enter_context(lock_directory(home))
        home = os.path.realpath(home)
        size = Size(supervisors, slots, ackers, nimbuses, drpc_servers=int(drpc))
        run: RunOn = run_here
        if machines:
            addresses, run, said = stack.enter_context(of_their_own(size))
            plan = plan_on_machines(home, size, addresses, complete, explicit)
            click.echo(said, err=True)
        else:
            plan = plan_with_fixed_ports(home, size, complete, explicit)
        _run(plan, run, keep=directory is not None, as_json=as_json)


def _temporary() -> Any:
    return tempfile.TemporaryDirectory(prefix="tupletree-dev-", ignore_cleanup_errors=True)


def _run(plan: ClusterPlan, run: RunOn, *, keep: bool, as_json: bool) -> None:
    from tupletree._devcluster.foreground import Foreground, stopping_on_signals

    foreground = Foreground(plan, remove=not keep, durable=keep, report=lambda event: _report(event, as_json), run=run)
    began = time.monotonic()
    with stopping_on_signals(foreground.stop):
        if not as_json:
            click.echo(f"Starting a cluster in {plan.directory} …")
        foreground.start(_START_TIMEOUT_S)
        try:
            _show(foreground, time.monotonic() - began, keep, as_json)
            foreground.watch()
            if not as_json:
                click.echo("\nStopping …")
        finally:
            foreground.close()
    if as_json:
        print_json({"event": "stopped"})


def _show(foreground: Foreground, took_s: float, keep: bool, as_json: bool) -> None:
    plan = foreground.cluster.plan
    if as_json:
        processes = [asdict(process) for process in foreground.cluster.processes()]
        ready = {
            "event": "ready",
            "took_s": round(took_s, 2),
            "directory": plan.directory,
            "nimbus_seeds": plan.conf["nimbus.seeds"],
            "drpc_servers": plan.conf.get("drpc.servers") or [],
            "zookeeper": f"{plan.host}:{plan.zookeeper_port}",
            "processes": processes,
        }
        print_json(ready)
        return
    click.echo(f"Tupletree {version('tupletree')} is ready after {took_s:.1f} s.\n")
    click.echo(_row("ZooKeeper", f"{plan.host}:{plan.zookeeper_port}", ""))
    for daemon in plan.daemons:
        http = f"{'https' if plan.conf.get('tls.ca') else 'http'}://{daemon.host}:{daemon.http_port}"
        also = {
            "nimbus": http,
            "acker": f"{http}/ledger",
            "supervisor": f"{len(daemon.slots)} slots",
            "drpc": f"{http}/drpc/FUNCTION",
        }[daemon.role]
        if daemon.slots:
            also += f" from port {daemon.slots[0]}"
        click.echo(_row(daemon.name, f"{daemon.host}:{daemon.grpc_port}", also))
    click.echo(_row("files", plan.directory, "" if keep else "  (removed at the end)"))
    seeds = ",".join(plan.conf["nimbus.seeds"])
    nimbus = "" if seeds == _DEFAULT_SEED else f" --nimbus {seeds}"
    click.echo("\nNow, in another terminal:")
    click.echo(f"  tupletree submit{nimbus} FILE.py")
    click.echo(f"  tupletree list{nimbus}")
    if NOT_COMPILED:
        click.echo(f"\nNote: {cost_of(NOT_COMPILED)}.")
    click.echo("\nCtrl-C stops the cluster.")


def _row(name: str, address: str, also: str) -> str:
    return f"  {name:<14}{address:<18}{also}".rstrip()


def _report(event: Event, as_json: bool) -> None:
    from tupletree._devcluster.foreground import DaemonDied

    if as_json:
        print_json({"event": "died" if isinstance(event, DaemonDied) else "restarted", **asdict(event)})
    else:
        click.echo(f"{time.strftime('%H:%M:%S')} {event}")
