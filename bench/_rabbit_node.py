"""A real node of RabbitMQ without plugins, with an epmd of its own."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pika

from tupletree._net import ReservedPorts
from tupletree.errors import UsageError
from tupletree.testing import wait_until

SERVER: Final = "/usr/lib/rabbitmq/bin/rabbitmq-server"
"""The script behind /usr/sbin/rabbitmq-server, which changes the user and loses the environment."""
NODE: Final = "tupletree@localhost"


def environment(directory: Path, port: int, epmd_port: int, dist_port: int) -> dict[str, str]:
    """Return the whole environment of a node that keeps its files in a directory."""
    return {
        "HOME": str(directory),  # of the cookie
        "PATH": "/usr/lib/erlang/bin:/usr/local/bin:/usr/bin:/bin",
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "ERL_EPMD_PORT": str(epmd_port),
        "RABBITMQ_NODENAME": NODE,
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(dist_port),
        "RABBITMQ_CONF_ENV_FILE": f"{directory}/none",
        "RABBITMQ_CONFIG_FILE": f"{directory}/none",
        "RABBITMQ_ENABLED_PLUGINS_FILE": f"{directory}/plugins",
        "RABBITMQ_PLUGINS_EXPAND_DIR": f"{directory}/expanded",
        "RABBITMQ_MNESIA_BASE": f"{directory}/mnesia",
        "RABBITMQ_LOG_BASE": f"{directory}/logs",
        "RABBITMQ_LOGS": "-",
        "RUNNING_UNDER_SYSTEMD": "1",  # the script becomes the node: no shell in between that would outlive it
    }


def start_epmd(given: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start the epmd of an environment. Otherwise the node would start one, which would outlive the node."""
    command = ["setpriv", "--pdeathsig", "KILL", "epmd", "-address", "127.0.0.1", "-port", given["ERL_EPMD_PORT"]]
    return subprocess.Popen(command, env=given, stdin=subprocess.DEVNULL, cwd="/")


def url(port: int) -> str:
    """Return the URL of the node at a port."""
    return f"amqp://guest:guest@127.0.0.1:{port}/%2F"


def answers(port: int) -> bool:
    """Return true if the node takes connections."""
    with contextlib.suppress(OSError, pika.exceptions.AMQPError):
        pika.BlockingConnection(pika.URLParameters(url(port))).close()
        return True
    return False


@contextlib.contextmanager
def rabbit_node() -> Iterator[tuple[str, int]]:
    """Yield the URL and the process id of a fresh node.

    Raises:
        UsageError: RabbitMQ is not installed.
    """
    if not shutil.which(SERVER):
        raise UsageError("rabbitmq-server is not installed: sh deploy/setup/servers.sh")
    ports = ReservedPorts()
    port, epmd_port, dist_port = ports.reserve(3)
    with tempfile.TemporaryDirectory(prefix="bench-rabbit-", ignore_cleanup_errors=True) as directory:
        given = environment(Path(directory), port, epmd_port, dist_port)
        processes = [start_epmd(given)]
        try:
            command = ["setpriv", "--pdeathsig", "KILL", SERVER]
            with Path(directory, "log").open("wb") as log:
                processes.append(
                    subprocess.Popen(command, env=given, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/")
                )
            wait_until(lambda: answers(port), 60, what="RabbitMQ answers")
            yield url(port), processes[-1].pid
        finally:
            for process in reversed(processes):
                process.kill()
                process.wait()
            ports.release()
