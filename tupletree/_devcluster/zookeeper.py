"""A real ZooKeeper server as a child process, from PySpark's jars, for dev clusters, tests and small machines.

All its files are in its data directory: ``zoo.cfg`` (written at each start), ``version-2/`` (ZooKeeper's own log
and snapshots) and, unless another log directory is given, ``zookeeper.log``. A server started on the same directory and
port continues with the data of the earlier server, however that server ended.
"""

from __future__ import annotations

import os
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tupletree import _class_archive
from tupletree._coord.session import credentials
from tupletree._devcluster.java import find_java, zookeeper_class_path
from tupletree._net import ReservedPorts, bind
from tupletree._process_table import is_stopped
from tupletree._security.exposure import is_loopback
from tupletree._security.files import read_private, read_public, write_private
from tupletree._security.tls import Tls
from tupletree.errors import UnavailableError, UsageError

_START_TIMEOUT_S: Final = 30.0
_STOP_TIMEOUT_S: Final = 5.0
_POLL_S: Final = 0.02
_TICK_MS: Final = 500  # session timeouts are checked once per tick; the minimum is two ticks

_KEY_STORE: Final = "server.pem"
_JVM: Final = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")

_LOG4J: Final = """\
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{ISO8601} %p %c{1} %m%n
# A probe that comes before the database is loaded is no event.
logger.cnxn.name = org.apache.zookeeper.server.ServerCnxn
logger.cnxn.level = off
"""


class EmbeddedZooKeeper:
    """One standalone ZooKeeper server.

    ``port`` 0 takes a free port and keeps it across restarts. ``durable`` False omits the disk flush of each write:
    acknowledged writes survive a kill of the process but not a power cut. The server has its own process group, so that
    Ctrl-C in the terminal reaches only its owner. The owner must stop the server; there is no cleanup at exit.
    ``jvm_options`` replaces the options for the archive of ZooKeeper's classes, which is used where there is one.
    ``tls``: the port takes TLS connections only, from clients with a certificate of ``tls.ca`` unless
    ``tls.require_client_cert`` is False. Needs ``tls.cert``, which is read at each start.
    """

    def __init__(
        self,
        data_dir: str | os.PathLike[str],
        port: int = 0,
        log_dir: str | os.PathLike[str] | None = None,
        *,
        host: str = "127.0.0.1",
        durable: bool = True,
        jvm_options: Sequence[str] | None = None,
        tls: Tls | None = None,
    ) -> None:
        self.data_dir = os.path.realpath(data_dir)
        self.log_path = os.path.join(os.path.realpath(log_dir or data_dir), "zookeeper.log")
        self.host = host
        self.port = port
        self.process: subprocess.Popen[bytes] | None = None
        self._durable = durable
        self._jvm_options = jvm_options
        self._tls = tls
        self._reserved = ReservedPorts()

    @property
    def connect_string(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def pid(self) -> int:
        """The process id; 0 before the first start."""
        return self.process.pid if self.process is not None else 0

    def start(self) -> None:
        """Start the server and wait until it answers. No effect if it is running.

        Raises UsageError (no Java, no PySpark, port in use) or UnavailableError with the end of its log.
        """
        self.launch()
        self.wait_ready()

    def launch(self) -> None:
        """Start the process without waiting for it: the first half of ``start``."""
        if self.running:
            return
        java, class_path = find_java(), zookeeper_class_path()
        if self.port == 0:
            self.port = self._reserved.reserve(1, self.host)[0]
        else:
            bind(self.host, self.port).close()
        config = self._write_config()
        classes = self._jvm_options
        if classes is None:
            classes = _class_archive.options(_archive(java, class_path))
        command = [java, *_JVM, *classes, f"-Dlog4j2.configurationFile={self.data_dir}/log4j2.properties"]
        command += ["-cp", class_path, "org.apache.zookeeper.server.ZooKeeperServerMain", config]
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.data_dir,
                start_new_session=True,
            )

    def wait_ready(self, timeout_s: float = _START_TIMEOUT_S) -> None:
        """Wait until the server answers: the second half of ``start``. Raises UnavailableError on end or timeout."""
        deadline = time.monotonic() + timeout_s
        while not self.answers():
            if not self.running:
                raise UnavailableError(f"ZooKeeper {self.ending()}")
            if time.monotonic() > deadline:
                self.stop()
                raise UnavailableError(f"ZooKeeper did not answer on {self.connect_string} within {timeout_s:g} s")
            time.sleep(_POLL_S)

    def answers(self) -> bool:
        """True if the server serves clients now."""
        try:
            with self._connection(timeout_s=2) as connection:
                connection.sendall(b"srvr")
                reply = b""
                while chunk := connection.recv(4096):
                    reply += chunk
        except OSError:
            return False
        return b"Mode:" in reply

    def _connection(self, timeout_s: float) -> socket.socket | ssl.SSLSocket:
        connection = socket.create_connection((self.host, self.port), timeout_s)
        if self._tls is None:
            return connection
        context = self._tls.client_context()
        context.check_hostname = False  # bind.host may be an address that is in no certificate, such as 0.0.0.0
        with connection:
            return context.wrap_socket(connection)

    def stop(self) -> None:
        """End the process (SIGTERM, then SIGKILL) and wait for it. No effect if it is not running."""
        process = self.process
        if process is None:
            return
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
        process.wait()

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send a signal to the process; wait until it is gone after SIGKILL, and stopped after SIGSTOP."""
        if self.process is None:
            raise UsageError("this ZooKeeper does not run")
        self.process.send_signal(number)
        if number == signal.SIGKILL:
            self.process.wait()
        elif number == signal.SIGSTOP:
            while self.process.poll() is None and not is_stopped(self.process.pid):
                time.sleep(0.001)

    def restart(self) -> None:
        """Stop, then start on the same port and data."""
        self.stop()
        self.start()

    def __enter__(self) -> EmbeddedZooKeeper:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._reserved.release()

    def ending(self) -> str:
        """Return how the process ended, with the last line of its log."""
        status = self.process.poll() if self.process is not None else None
        if status is not None and status < 0:
            return f"was ended by {signal.Signals(-status).name}"
        return f"ended with status {status}: {self._log_tail()} (see {self.log_path})"

    def _write_config(self) -> str:
        path = os.path.join(self.data_dir, "zoo.cfg")
        settings = {
            "dataDir": self.data_dir,
            **self._listener(),
            "tickTime": _TICK_MS,
            "minSessionTimeout": 2 * _TICK_MS,
            "maxSessionTimeout": 120_000,
            "maxClientCnxns": 0,
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "ruok,srvr,mntr",
            "preAllocSize": 1024,
            "autopurge.snapRetainCount": 3,
            "autopurge.purgeInterval": 1,
            "forceSync": "yes" if self._durable else "no",
        }
        try:
            os.makedirs(self.data_dir, exist_ok=True)
            os.makedirs(os.path.dirname(self.log_path), exist_ok=True)
            self._write_certificates()
            with open(path, "w", encoding="utf-8") as file:
                file.writelines(f"{key}={value}\n" for key, value in settings.items())
            with open(os.path.join(self.data_dir, "log4j2.properties"), "w", encoding="utf-8") as file:
                file.write(_LOG4J)
        except OSError as error:
            raise UsageError(f"cannot write ZooKeeper's data directory {self.data_dir}: {error.strerror}") from error
        return path

    def _listener(self) -> dict[str, str | int]:
        """Return the settings of the port."""
        if self._tls is None:
            return {"clientPort": self.port, "clientPortAddress": self.host}
        return {
            "secureClientPort": self.port,
            "secureClientPortAddress": self.host,
            "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
            "ssl.keyStore.location": os.path.join(self.data_dir, _KEY_STORE),
            "ssl.keyStore.type": "PEM",
            "ssl.trustStore.location": self._tls.ca,
            "ssl.trustStore.type": "PEM",
            "ssl.clientAuth": "need" if self._tls.require_client_cert else "none",
        }

    def _write_certificates(self) -> None:
        """Write the key and its certificate into one file, as Java reads them."""
        tls = self._tls
        if tls is None:
            return
        if tls.key is None or tls.cert is None:
            raise UsageError(
                f"a ZooKeeper server with {tls.prefix}.ca also needs {tls.prefix}.cert and {tls.prefix}.key"
            )
        pair = read_private(tls.key, f"{tls.prefix}.key") + read_public(tls.cert, f"{tls.prefix}.cert")
        write_private(Path(self.data_dir, _KEY_STORE), pair)

    def _log_tail(self) -> str:
        try:
            with open(self.log_path, encoding="utf-8", errors="replace") as file:
                lines = [line.strip() for line in file if line.strip() and not line.startswith(("\t", "SLF4J"))]
        except OSError:
            return "(no log)"
        return lines[-1][-400:] if lines else "(empty)"


def refuse_open_server(conf: Mapping[str, Any]) -> None:
    """Raise UsageError if everybody on the network could change the data of a server on ``bind.host``."""
    if not is_loopback(str(conf["bind.host"])) and credentials(conf) is None and not conf["security.insecure"]:
        raise UsageError(
            f"refusing to listen on bind.host {conf['bind.host']}, beyond this machine, for a cluster without "
            "zookeeper.auth.user: anybody could change its data; set zookeeper.auth.user, or security.insecure: true"
        )


def class_archive() -> Path:
    """Return the path of the archive of ZooKeeper's classes for this environment and its Java. It need not exist.

    Raises UsageError if there is no Java or no PySpark.
    """
    return _archive(find_java(), zookeeper_class_path())


def _archive(java: str, class_path: str) -> Path:
    return _class_archive.path_of("zookeeper", java, class_path)
