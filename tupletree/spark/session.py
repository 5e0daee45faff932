"""The Spark session of a process, shared by every pipeline and SparkBatchBolt in the process.

The settings are the ``spark.*`` keys of the topology's configuration, on top of defaults. With ``spark.remote`` the
session is a Spark Connect session, and nothing of Spark runs in this process.

Environment: ``PYSPARK_PYTHON`` defaults to this interpreter, so that Spark's Python workers find the packages installed
here. With a local master, Spark listens on the loopback interface only.

**Requirements for executors.** On a local master, executors find the same packages as this process. Elsewhere
(``spark://``, YARN, Kubernetes, and the server of Spark Connect) their Python must have the same minor version, and
tupletree, pyarrow and the packages that the user's code imports must be installed there. Two ways to do this:

* Install the packages on every machine, or in the container image, and name the interpreter in
  ``spark.pyspark.python``.
* Set ``spark.archives: venv.tar.gz#venv`` and ``spark.pyspark.python: venv/bin/python``. The archive is an environment
  packed by venv-pack or conda-pack; Spark sends the archive to each executor.

The user's own modules (those of the topology file and those submitted as code) are sent by value with each job if they
are imported when the session starts. Modules imported later, inside a function, are not sent;
``spark.submit.pyFiles: more.zip,single.py`` sends them. Other machines must also be able to reach the
driver: set ``spark.driver.host`` to the driver's address if Spark finds the wrong address.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tupletree.bundle import is_local_module
from tupletree.errors import UnavailableError, UsageError
from tupletree.spark import class_archive
from tupletree.spark.failures import SparkLostError, explain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOPBACK = "127.0.0.1"

LOG_OPTION = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"
"""JVM option that makes Spark log errors only."""

COMPILE_LATER = (
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 -XX:Tier4CompileThreshold=150000"
    " -XX:Tier4BackEdgeThreshold=400000"
)
"""JVM options with which code must run ten times as often as usual before the optimizing compiler takes it.

Half of the processor time of a start goes into compiling. What a batch runs a million times is compiled all the same.
"""

CONNECT_PORT = 15002
"""The default port of a Spark Connect server."""

REACH_S = 5.0
"""Maximum time for a server to accept a connection."""

_TASKS_END_S = 5.0
"""Maximum time to wait for running tasks before Spark stops."""

_PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")
"""Environment variables of proxies. With a proxy, a Connect server can be reachable although a direct connection fails.
"""

_lock = threading.Lock()
_users = 0
_session: SparkSession | None = None
_remote = ""  # the Connect server of the session


def settings(conf: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings of a session: the ``spark.*`` keys of a configuration, plus defaults for missing keys.

    Jobs of several batches run side by side (FAIR). A small batch is not worth 200 shuffle partitions: on a local
    master there is one partition per core, and no web UI, which only this machine could see. Only errors are logged.

    Raises UsageError for an invalid master.
    """
    given = {key: _text(value) for key, value in conf.items() if key.startswith("spark.")}
    if "spark.remote" in given:
        if "spark.master" in given:
            raise UsageError(
                "spark.remote and spark.master exclude each other: set one of them; a Connect server has its own master"
            )
        return given
    master = given.get("spark.master", "local[*]")
    if master.partition("[")[0] not in ("local", "local-cluster", "yarn") and not master.startswith(
        ("spark://", "k8s://")
    ):
        raise UsageError(f"spark.master is {address_of(master)!r}; local[…], spark://…, yarn or k8s://… was expected")
    defaults = {
        "spark.app.name": "tupletree",
        "spark.master": master,
        "spark.scheduler.mode": "FAIR",
        "spark.driver.defaultJavaOptions": f"{LOG_OPTION} {COMPILE_LATER} {class_archive.options()}".rstrip(),
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
    }
    if master.startswith("local"):
        defaults |= {
            "spark.driver.host": LOOPBACK,
            "spark.driver.bindAddress": LOOPBACK,
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": str(_cores(master)),
        }
    return {**defaults, **given}


def acquire(conf: Mapping[str, Any]) -> SparkSession:
    """Return the session of this process, starting one if needed. Each call needs a matching ``release``.

    An existing session stays as it is, whatever ``conf`` says. A start takes seconds.

    Raises:
        UnavailableError: the Spark master or Connect server does not answer.
        UsageError: the settings contradict each other, or there is no Java.
        SparkLostError: Spark did not start. A start in another process can succeed.
    """
    global _session, _users, _remote  # noqa: PLW0603
    wanted = settings(conf)
    with _lock:
        if _session is None:
            _session = _start(wanted)
            _remote = wanted.get("spark.remote", "")
        _users += 1
        return _session


def release(*, at_once: bool = False) -> None:
    """Give back the session from ``acquire``. The last ``release`` stops the session.

    ``at_once``: without waiting for the ends of running tasks.
    """
    global _session, _users  # noqa: PLW0603
    with _lock:
        _users -= 1
        if _users == 0 and _session is not None:
            session, _session = _session, None
            with contextlib.suppress(Exception):  # the JVM or the server may already be gone
                reach(_remote)
                if not _remote and not at_once:
                    _await_tasks(session)
                session.stop()


def _await_tasks(session: SparkSession) -> None:
    """Wait until no task runs, for at most ``_TASKS_END_S``. Cancelled tasks end within two seconds.

    A task that ends while the scheduler stops is logged as an error, with an exception.
    """
    tracker = session.sparkContext._jsc.sc().statusTracker()
    deadline_s = time.monotonic() + _TASKS_END_S
    while time.monotonic() < deadline_s and any(one.numRunningTasks() for one in tracker.getExecutorInfos()):
        time.sleep(0.05)


def reach(url: str) -> None:
    """Raise UnavailableError if no master or Connect server answers. Spark itself would notice only after minutes."""
    scheme, _, rest = address_of(url).partition("://")
    if scheme not in ("spark", "sc") or (scheme == "sc" and any(map(os.environ.get, _PROXIES))):
        return
    for address in rest.split(","):
        place = urlsplit(f"//{address}")
        try:
            socket.create_connection((place.hostname, place.port or CONNECT_PORT), REACH_S).close()
            return
        except (OSError, ValueError) as error:
            fault = error
    server = "Spark master" if scheme == "spark" else "Spark Connect server"
    raise UnavailableError(f"no {server} answers at {address_of(url)}: {fault}")


def master_of(conf: Mapping[str, Any]) -> str:
    """Return the address of the master or Connect server that a configuration names, for people."""
    return address_of(str(conf.get("spark.remote") or conf.get("spark.master") or "local[*]"))


def address_of(url: str) -> str:
    """Return the URL of a master or Connect server without parameters, of which one can be a token."""
    return url.partition(";")[0].rstrip("/")


def _without_values(text: str, url: str) -> str:
    """Return a text without the values of the parameters of a URL."""
    for parameter in url.split(";")[1:]:
        if value := parameter.partition("=")[2]:
            text = text.replace(value, "*****")
    return text


def _start(wanted: Mapping[str, str]) -> SparkSession:
    remote, master = wanted.get("spark.remote"), wanted.get("spark.master", "")
    if remote is None:
        _find_java()
    reach(remote or master)
    if not master.startswith("local["):
        _send_local_modules()
    from pyspark.logger import PySparkLogger

    # These loggers print two hundred lines of Java for a misspelt column; failures.py reports the cause instead.
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True
    try:
        with _environment(wanted):
            return _builder(wanted).getOrCreate()
    except Exception as error:
        where = f"spark.remote {address_of(remote)}" if remote else f"spark.master {master}"
        why = _without_values(explain(error)[0], remote or "")
        raise SparkLostError(f"no Spark session could be started with {where}: {why}") from None


def _find_java() -> None:
    """Look for Java in the same places as Spark's own scripts. UsageError if there is none."""
    home = os.environ.get("JAVA_HOME")
    if home and not os.access(Path(home, "bin", "java"), os.X_OK):
        raise UsageError(f"Spark needs Java 17 or newer, and there is no bin/java in JAVA_HOME, which is {home}")
    if not home and shutil.which("java") is None:
        raise UsageError("Spark needs Java 17 or newer, and there is no java on the PATH, and no JAVA_HOME")


def _send_local_modules() -> None:
    """Have the user's modules pickled by value: executors on other machines cannot import them."""
    from pyspark import cloudpickle

    for name, module in sorted(sys.modules.items()):
        if isinstance(module, ModuleType) and module.__name__ == name and is_local_module(module):
            cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def _builder(wanted: Mapping[str, str]) -> SparkSession.Builder:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    for key, value in wanted.items():
        if key == "spark.remote":
            builder = builder.remote(value)
        else:
            builder = builder.config(key, value)
    return builder


@contextlib.contextmanager
def _environment(wanted: Mapping[str, str]) -> Iterator[None]:
    """Environment variables for Spark's JVM. On a local master, Python workers find the modules of this process."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    added = {}
    if wanted.get("spark.master", "").startswith("local"):
        added = {"SPARK_LOCAL_IP": LOOPBACK, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    before = {name: os.environ.get(name) for name in added}
    os.environ.update(added)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _cores(master: str) -> int:
    """Return the number of cores that ``local``, ``local[4]`` or ``local[*]`` stands for."""
    number = master.removeprefix("local").strip("[]").partition(",")[0]
    if not number:
        return 1
    return int(number) if number.isdecimal() else os.cpu_count() or 1
