"""``tupletree zookeeper``: one real ZooKeeper server in the foreground."""

from __future__ import annotations

import contextlib
import os
import threading

import click

from tupletree.cli.options import conf_options, json_option
from tupletree.cli.output import print_json


@click.group("zookeeper", invoke_without_command=True)
@click.option("--port", type=click.IntRange(1, 65535), help="Client port. Default: the key zookeeper.port.")
@click.option("--dir", "directory", metavar="DIR", help="Data directory. Default: zookeeper below the key local.dir.")
@conf_options
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    port: int | None,
    directory: str | None,
    conf_path: str | None,
    overrides: tuple[str, ...],
    as_json: bool,
) -> None:
    """Run one ZooKeeper server until Ctrl-C or SIGTERM.

    The server is Apache ZooKeeper, from PySpark's jars; it needs Java 17 or newer. Its data survives a restart. One
    server is enough for development; in production set the key zookeeper.servers to an ensemble. With zookeeper.tls.ca,
    .cert and .key it accepts TLS connections only, from clients with a certificate of the same authority.

    \b
    Examples:
      tupletree zookeeper
      tupletree zookeeper --port 3181 --dir /var/lib/tupletree/zookeeper
    """
    if ctx.invoked_subcommand is None:
        _serve(port, directory, conf_path, overrides, as_json)


def _serve(
    port: int | None, directory: str | None, conf_path: str | None, overrides: tuple[str, ...], as_json: bool
) -> None:
    from tupletree._coord.tls import tls_of
    from tupletree._devcluster.foreground import lock_directory, stopping_on_signals
    from tupletree._devcluster.guard import Guard
    from tupletree._devcluster.zookeeper import EmbeddedZooKeeper, refuse_open_server
    from tupletree.config import load
    from tupletree.errors import UnavailableError

    conf = load(conf_path, overrides)
    refuse_open_server(conf)
    data = os.path.realpath(directory or os.path.expanduser(os.path.join(conf["local.dir"], "zookeeper")))
    server = EmbeddedZooKeeper(data, port or int(conf["zookeeper.port"]), host=str(conf["bind.host"]), tls=tls_of(conf))
    stop = threading.Event()
    with contextlib.ExitStack() as stack:
        stack.enter_context(lock_directory(data))
        stack.callback(Guard(data, remove=False).close)
        stack.enter_context(stopping_on_signals(stop.set))
        stack.callback(server.stop)
        server.start()
        if as_json:
            print_json({"event": "ready", "zookeeper": server.connect_string, "directory": data, "pid": server.pid})
        else:
            click.echo(f"ZooKeeper answers on {server.connect_string}; data and log are in {data}. Ctrl-C stops it.")
        while not stop.wait(0.25):
            if not server.running:
                raise UnavailableError(f"ZooKeeper {server.ending()}")


@command.command("secure")
@conf_options
@json_option
def secure(conf_path: str | None, overrides: tuple[str, ...], as_json: bool) -> None:
    """Restrict this cluster's nodes to zookeeper.auth.user. Nodes created before that key was set are open to all.

    First set zookeeper.auth.user and zookeeper.auth.password for every daemon, and restart all daemons and workers.
    """
    from tupletree._coord.acls import close_nodes
    from tupletree._coord.session import connect, connect_string, credentials, disconnect
    from tupletree.config import load
    from tupletree.errors import UsageError

    conf = load(conf_path, overrides)
    shown = credentials(conf)
    if shown is None:
        raise UsageError("set zookeeper.auth.user and zookeeper.auth.password, here and for every daemon")
    client = connect(conf)
    try:
        roots = [conf["zookeeper.root"], conf["transactional.zookeeper.root"]]
        closed = {str(root): close_nodes(client, str(root), shown) for root in roots}
    finally:
        disconnect(client)
    if as_json:
        print_json({"zookeeper": connect_string(conf), "closed": closed})
        return
    for root, count in closed.items():
        click.echo(f"{root}: {count} nodes restricted" if count else f"{root}: no node was open")
