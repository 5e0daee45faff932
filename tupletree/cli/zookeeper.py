"""``tupletree zookeeper``: one real ZooKeeper server in the foreground."""

from __future__ import annotations

import contextlib
import os
import threading

import click

from tupletree.cli.options import conf_options, json_option
from tupletree.cli.output import print_json


@click.command("zookeeper")
@click.option("--port", type=click.IntRange(1, 65535), help="Client port. Default: the key zookeeper.port.")
@click.option("--dir", "directory", metavar="DIR", help="Data directory. Default: zookeeper below the key local.dir.")
@conf_options
@json_option
def command(
    port: int | None, directory: str | None, conf_path: str | None, overrides: tuple[str, ...], as_json: bool
) -> None:
    """Run one ZooKeeper server until Ctrl-C or SIGTERM.

    It is the real server, from PySpark's jars; it needs Java 17 or newer. Its data survives a restart. One server is
    enough for development and small machines; elsewhere point the key zookeeper.servers at an ensemble.

    \b
    Examples:
      tupletree zookeeper
      tupletree zookeeper --port 3181 --dir /var/lib/tupletree/zookeeper
    """
    from tupletree._daemon.zookeeper import EmbeddedZooKeeper
    from tupletree._devcluster.foreground import lock_directory, stopping_on_signals
    from tupletree._devcluster.guard import Guard
    from tupletree.config import load
    from tupletree.errors import UnavailableError

    conf = load(conf_path, overrides)
    data = os.path.realpath(directory or os.path.join(conf["local.dir"], "zookeeper"))
    server = EmbeddedZooKeeper(data, port or int(conf["zookeeper.port"]), host=str(conf["bind.host"]))
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
            click.echo(f"ZooKeeper answers on {server.connect_string}; data and log are in {data}. Ctrl-C ends it.")
        while not stop.wait(0.25):
            if not server.running:
                raise UnavailableError(f"ZooKeeper {server.ending()}")
