"""The session with ZooKeeper: how it is opened, and how its errors become ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import (
    BadVersionError,
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    OperationTimeoutError,
    SessionExpiredError,
    SessionMovedError,
)
from kazoo.handlers.threading import KazooTimeoutError

from tupletree.errors import ConflictError, InternalError, UnavailableError

# How long one request may take before the caller hears UnavailableError. While the session is suspended kazoo keeps
# requests queued without end; every write here is a compare-and-set or idempotent, so a late one does no harm.
REQUEST_TIMEOUT_S = 10.0

_AWAY = (
    ConnectionLoss,
    ConnectionClosedError,
    SessionExpiredError,
    SessionMovedError,
    OperationTimeoutError,
    KazooTimeoutError,
)
_CONFLICT = (BadVersionError, NodeExistsError, NoNodeError, NotEmptyError)


def connect_string(conf: Mapping[str, Any]) -> str:
    """``host:port,host:port`` from ``zookeeper.servers`` (each with or without a port) and ``zookeeper.port``."""
    port = int(conf["zookeeper.port"])
    servers = [str(server) for server in conf["zookeeper.servers"]]
    return ",".join(server if _has_port(server) else f"{server}:{port}" for server in servers)


def _has_port(server: str) -> bool:
    if server.startswith("["):
        return not server.endswith("]")
    return ":" in server


def unstarted(conf: Mapping[str, Any]) -> KazooClient:
    """A client for the ensemble that ``conf`` names. Once started it reconnects for ever, at least once a second."""
    retry = {"max_tries": -1, "delay": 0.05, "backoff": 2, "max_delay": 1.0}
    return KazooClient(
        hosts=connect_string(conf),
        timeout=int(conf["zookeeper.session.timeout"]) / 1000,
        connection_retry=retry,
        command_retry=dict(retry),
    )


def connect(conf: Mapping[str, Any]) -> KazooClient:
    """A started client for the ensemble that ``conf`` names. The caller ends it with ``disconnect``.

    Raises UnavailableError, in one sentence, if no server answers within ``zookeeper.connection.timeout``.
    """
    hosts = connect_string(conf)
    timeout_s = int(conf["zookeeper.connection.timeout"]) / 1000
    client = unstarted(conf)
    try:
        client.start(timeout=timeout_s)
    except KazooTimeoutError as error:
        disconnect(client)
        raise UnavailableError(f"ZooKeeper at {hosts} did not answer within {timeout_s:g} s") from error
    except KazooException as error:
        disconnect(client)
        raise UnavailableError(f"ZooKeeper at {hosts} refused the session: {error!r}") from error
    return client


def disconnect(client: KazooClient) -> None:
    """End the session, which removes its ephemeral nodes at once. Safe to call twice."""
    with suppress(KazooException, KazooTimeoutError):
        client.stop()
    with suppress(KazooException, KazooTimeoutError):
        client.close()


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Inside, kazoo's errors become ours; ``what`` begins the sentence ("reading the assignments")."""
    try:
        yield
    except _AWAY as error:
        raise UnavailableError(f"{what}: ZooKeeper is away ({type(error).__name__})") from error
    except _CONFLICT as error:
        raise ConflictError(f"{what}: somebody changed it first ({type(error).__name__})") from error
    except KazooException as error:
        raise InternalError(f"{what}: ZooKeeper says {error!r}") from error


def result(pending: Any, timeout_s: float = REQUEST_TIMEOUT_S) -> Any:
    """The value of one of kazoo's ``…_async`` calls, or its exception, within ``timeout_s``."""
    return pending.get(timeout=timeout_s)
