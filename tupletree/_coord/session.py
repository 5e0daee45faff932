"""The session with ZooKeeper: opening it, and translating its errors.

Requests are encoded in kazoo's connection thread, which ends at the first encoding exception; from then on, every call
fails as if ZooKeeper were unavailable. Therefore, a ``Session`` first encodes each request in the caller's thread and
refuses requests that cannot be encoded. If the connection thread ends all the same, ``on_death`` is called.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from threading import Thread
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import (
    BadVersionError,
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    OperationTimeoutError,
    SessionExpiredError,
    SessionMovedError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.connection import ConnectionDropped, ConnectionHandler
from kazoo.protocol.serialization import Connect
from kazoo.protocol.states import KeeperState
from kazoo.security import make_digest_acl

from tupletree._address import with_port
from tupletree._coord.paths import check_path
from tupletree._coord.tls import TlsHandler, TlsRefusedError, tls_of
from tupletree._coord.worker_acls import WORKER_AUTH, WorkerAcls, created_by_worker, shown_by_worker
from tupletree._log import event
from tupletree._security.files import read_secret
from tupletree.errors import ConfigError, ConflictError, ForbiddenError, InternalError, UnavailableError, UsageError

log = logging.getLogger(__name__)

# The time after which a request fails with UnavailableError. While the session is suspended, kazoo queues requests
# indefinitely; every write here is a compare-and-set or idempotent, so that a late write does no harm.
REQUEST_TIMEOUT_S = 10.0

FIRST_ANSWER_S = 2.0
"""The wait for the first answer of a server, in the first attempt to connect."""

_AWAY = (
    ConnectionLoss,
    ConnectionClosedError,
    SessionExpiredError,
    SessionMovedError,
    OperationTimeoutError,
    KazooTimeoutError,
)
_NOBODY = "connections are refused, as nothing listens there"
_NO_TLS = "it closes connections without an answer: it is starting, or it expects TLS (zookeeper.tls.ca)"
_NO_CERTIFICATE = (
    "it closes connections after the TLS handshake: it is starting, or it expects another zookeeper.tls.cert"
)
_CONFLICT = (BadVersionError, NodeExistsError, NoNodeError, NotEmptyError)


def connect_string(conf: Mapping[str, Any]) -> str:
    """Return ``host:port,host:port`` from ``zookeeper.servers`` (ports are optional) and ``zookeeper.port``."""
    port = int(conf["zookeeper.port"])
    servers = [str(server) for server in conf["zookeeper.servers"]]
    return ",".join(with_port(server, port) for server in servers)


def credentials(conf: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return ZooKeeper's user and password, or None. Raises ConfigError if only one of them is set."""
    user, password = conf.get("zookeeper.auth.user"), conf.get("zookeeper.auth.password")
    path = conf.get("zookeeper.auth.password.file")
    if path and not password:
        password = read_secret(path, "zookeeper.auth.password.file").decode("utf-8", "replace")
    if bool(user) != bool(password):
        raise ConfigError(
            "zookeeper.auth.user and zookeeper.auth.password (or .file) must be set together: one is missing"
        )
    if not user or not password:
        return None
    if ":" in user:
        raise ConfigError("zookeeper.auth.user must not hold a colon")
    return str(user), str(password)


class Connection(ConnectionHandler):  # type: ignore[misc]  # kazoo has no types
    """kazoo's connection, with a bound on the wait for a server's first answer, and the reasons of refusals.

    A server that is just starting can accept a connection and never answer. kazoo waits for the session timeout; here
    the wait begins at ``FIRST_ANSWER_S`` and doubles with each attempt, so that a slow server is waited for as well.
    """

    _answer_s = FIRST_ANSWER_S

    def _connect(self, host: str, hostip: str, port: int) -> Any:
        if isinstance(handler := self.client.handler, TlsHandler):
            handler.server_name = host
        try:
            return super()._connect(host, hostip, port)
        except ConnectionDropped as error:
            if isinstance(error.__context__, TlsRefusedError):
                self.client.note_refusal(str(error.__context__.strerror))
            elif isinstance(error.__context__, ConnectionRefusedError) and not self.client.refusal:
                self.client.note_refusal(_NOBODY)
            raise

    def _invoke(self, timeout: float, request: Any, xid: Any = None) -> Any:
        if not isinstance(request, Connect):
            return super()._invoke(timeout, request, xid)
        wait_s, self._answer_s = min(timeout, self._answer_s), self._answer_s * 2
        try:
            answer = super()._invoke(wait_s, request, xid)
        except ConnectionDropped:
            is_secured = isinstance(self.client.handler, TlsHandler)
            self.client.note_refusal(_NO_CERTIFICATE if is_secured else _NO_TLS)
            raise
        self._answer_s = FIRST_ANSWER_S
        self.client.note_refusal("")
        return answer


class Session(KazooClient):  # type: ignore[misc]  # kazoo has no types
    """kazoo's client, guarded against the death of its connection thread.

    Attributes:
        on_death: called in the connection thread when that thread ends without ``stop``. Must not wait for the thread.
        refusal: why the last server that was reached did not serve this client; empty if it did.
        worker_acls: of nodes for workers that have credentials of their own; None: nodes are open to everybody.
    """

    on_death: Callable[[], None] | None = None
    refusal = ""
    worker_acls: WorkerAcls | None = None

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._connection.__class__ = Connection  # kazoo offers no way to choose it

    def note_refusal(self, reason: str) -> None:
        """Set ``refusal``, and log each new reason once."""
        if reason and reason != self.refusal:
            event(log, "zookeeper.refused", level=logging.WARNING, cause=reason)
        self.refusal = reason

    def _call(self, request: Any, async_object: Any) -> Any:
        check_request(request)
        return super()._call(request, async_object)

    def _session_callback(self, state: Any) -> None:
        super()._session_callback(state)
        # Only the end of the thread leads to this state; a lost or expired session reconnects.
        if state == KeeperState.CLOSED and not self._stopped.is_set():
            servers = ",".join(f"{host}:{port}" for host, port in self.hosts)
            event(log, "zookeeper.thread_ended", level=logging.ERROR, servers=servers)
            if self.on_death is not None:
                self.on_death()


def check_request(request: Any) -> None:
    """Raise a UsageError for a ZooKeeper request that cannot be encoded or has an invalid path."""
    for one in getattr(request, "operations", (request,)):
        if (path := getattr(one, "path", None)) is not None:
            check_path(path)
    try:
        request.serialize()
    except Exception as error:
        kind = type(request).__name__
        raise UsageError(
            f"a request to ZooKeeper ({kind}) cannot be encoded: {type(error).__name__}: {error}"
        ) from error


def unstarted(conf: Mapping[str, Any]) -> Session:
    """Return an unstarted client for the ensemble in ``conf``. It reconnects forever, at least once a second.

    With credentials, the client authenticates, and the nodes it creates are restricted to these credentials. A worker
    of another user has derived ones (worker_acls.py). With ``zookeeper.tls.ca``, it connects over TLS only.
    """
    shown = credentials(conf)
    protection: dict[str, Any] = {}
    if auth := conf.get(WORKER_AUTH):
        protection["auth_data"] = shown_by_worker(auth)
        protection["default_acl"] = created_by_worker(auth)
    elif shown is not None:
        protection["auth_data"] = [("digest", ":".join(shown))]
        protection["default_acl"] = [make_digest_acl(*shown, all=True)]
    if (tls := tls_of(conf)) is not None:
        protection["handler"] = TlsHandler(tls)
    retry = {"max_tries": -1, "delay": 0.05, "backoff": 2, "max_delay": 1.0}
    session = Session(
        hosts=connect_string(conf),
        timeout=int(conf["zookeeper.session.timeout"]) / 1000,
        connection_retry=retry,
        command_retry=dict(retry),
        **protection,
    )
    session.worker_acls = None if shown is None else WorkerAcls(shown)
    return session


def connect(conf: Mapping[str, Any], on_death: Callable[[], None] | None = None) -> Session:
    """Return a started client for the ensemble in ``conf``. The caller ends it with ``disconnect``.

    ``on_death``: as in ``Session``.

    Raises UnavailableError, in one sentence, if no server answers within ``zookeeper.connection.timeout``.
    """
    hosts = connect_string(conf)
    timeout_s = int(conf["zookeeper.connection.timeout"]) / 1000
    client = unstarted(conf)
    client.on_death = on_death
    client.start_async().wait(timeout_s)
    if client.connected:
        return client
    Thread(target=disconnect, args=(client,), daemon=True).start()  # can take a while
    why = f": {client.refusal}" if client.refusal else ""
    raise UnavailableError(f"ZooKeeper at {hosts} did not answer within {timeout_s:g} s{why}")


def disconnect(client: KazooClient) -> None:
    """End the session, which deletes its ephemeral nodes at once. Idempotent."""
    with suppress(KazooException, KazooTimeoutError):
        client.stop()
    with suppress(KazooException, KazooTimeoutError):
        client.close()


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Translate kazoo's errors inside the context. ``what`` begins the message ("reading the assignments")."""
    try:
        yield
    except _AWAY as error:
        raise UnavailableError(f"{what}: ZooKeeper is unavailable ({type(error).__name__})") from error
    except _CONFLICT as error:
        raise ConflictError(f"{what}: the node was changed concurrently ({type(error).__name__})") from error
    except NoAuthError as error:
        raise ForbiddenError(f"{what}: the node belongs to other credentials (check zookeeper.auth.user)") from error
    except KazooException as error:
        raise InternalError(f"{what}: ZooKeeper says {error!r}") from error


def result(pending: Any, timeout_s: float = REQUEST_TIMEOUT_S) -> Any:
    """Return the value of a kazoo ``…_async`` call, or raise its exception, within ``timeout_s``."""
    return pending.get(timeout=timeout_s)
