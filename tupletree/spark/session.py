"""The Spark session of a process: one, shared by every pipeline and SparkBatchBolt in it.

Settings are the ``spark.*`` keys of the topology's configuration over defaults. With ``spark.remote`` the session is a
Spark Connect one, and nothing of Spark runs in this process.

The environment: ``PYSPARK_PYTHON`` is this very interpreter unless it is set, so that Spark's Python workers find what
is installed here; and where the master is local, Spark listens on the loopback interface alone.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tupletree.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOPBACK = "127.0.0.1"

_lock = threading.Lock()
_users = 0
_session: SparkSession | None = None


def settings(conf: Mapping[str, Any]) -> dict[str, str]:
    """What a session is made with: the ``spark.*`` keys of a configuration, and defaults for what it does not say.

    Jobs of several batches run side by side (FAIR). A small batch is not worth 200 shuffle partitions: on a local
    master there is one for each core. Only what is an error is logged.
    """
    given = {key: _text(value) for key, value in conf.items() if key.startswith("spark.")}
    if "spark.remote" in given:
        if "spark.master" in given:
            raise UsageError(
                "spark.remote and spark.master exclude each other: a Connect server has a master of its own"
            )
        return given
    master = given.get("spark.master", "local[*]")
    defaults = {
        "spark.app.name": "tupletree",
        "spark.master": master,
        "spark.scheduler.mode": "FAIR",
        "spark.log.level": "ERROR",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
    }
    if master.startswith("local"):
        defaults |= {
            "spark.driver.host": LOOPBACK,
            "spark.driver.bindAddress": LOOPBACK,
            "spark.sql.shuffle.partitions": str(_cores(master)),
        }
    return {**defaults, **given}


def acquire(conf: Mapping[str, Any]) -> SparkSession:
    """The session of this process, started if there is none; each call wants a ``release``.

    Where there is one already, keys that a running session can change take effect, others do not. Takes seconds.
    """
    global _session, _users  # noqa: PLW0603
    wanted = settings(conf)
    with _lock:
        if _session is None:
            _session = _start(wanted)
        _users += 1
        return _session


def release() -> None:
    """The caller of ``acquire`` is done; the last one stops the session."""
    global _session, _users  # noqa: PLW0603
    with _lock:
        _users -= 1
        if _users == 0 and _session is not None:
            session, _session = _session, None
            with contextlib.suppress(Exception):  # the JVM may have gone first
                session.stop()


def _start(wanted: Mapping[str, str]) -> SparkSession:
    with _environment(wanted):
        return _builder(wanted).getOrCreate()


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
    """What Spark's JVM inherits. On a local master its Python workers find the modules that this process finds."""
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
    """How many cores ``local``, ``local[4]`` or ``local[*]`` stands for."""
    number = master.removeprefix("local").strip("[]").partition(",")[0]
    if not number:
        return 1
    return int(number) if number.isdecimal() else os.cpu_count() or 1
