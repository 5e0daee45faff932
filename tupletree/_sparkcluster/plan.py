"""A cluster on Spark as one value: what to ask of Spark, and the configuration of the daemons in its tasks. Pure."""

from __future__ import annotations  # pure

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from tupletree._security.exposure import is_loopback
from tupletree.errors import UsageError

_MEMORY: Final = re.compile(r"(\d+)([mg])", re.IGNORECASE)
_JVM_MB: Final = 512
"""Heap of an executor's JVM, which only starts Python. Spark refuses less than 471 MB."""

_OWN: Final = frozenset({"advertise.host", "supervisor.id"})
"""Keys that name one machine, and so do not hold for those of the tasks."""


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """One cluster on Spark. ``conf`` holds the keys that differ from the defaults, ``spark.*`` among them.

    ``memory`` and ``cores`` are those of a machine, an executor of Spark that runs one task. The first ``ackers``
    machines run an acker. ``is_embedded``: ZooKeeper and nimbus run beside the application, and end with it.
    """

    master: str
    machines: int
    slots: int
    ackers: int
    cores: int
    memory: str
    is_embedded: bool
    conf: Mapping[str, Any]

    def __post_init__(self) -> None:
        if self.ackers > self.machines:
            raise UsageError(f"--ackers is {self.ackers}, expected at most the number of executors, {self.machines}")
        _megabytes(self.memory)
        bound = str(self.conf.get("bind.host", "127.0.0.1"))
        if not is_loopback(urlsplit(self.master).hostname or "") and is_loopback(bound):
            raise UsageError(
                f"bind.host is {bound}, and the daemons on the executors of {self.master} must reach "
                "each other: set bind.host to 0.0.0.0, with TLS and tokens or with security.insecure"
            )


def check_master(master: str, conf: Mapping[str, Any], environ: Mapping[str, str]) -> None:
    """Raise UsageError for a master that cannot run a cluster, or that lacks what Spark needs to know."""
    if not master.startswith(("spark://", "k8s://")) and master != "yarn":
        also = "; 'tupletree dev' runs a cluster on this machine" if master.startswith("local") else ""
        raise UsageError(f"--spark-master is {master!r}; spark://HOST:PORT, yarn or k8s://… was expected{also}")
    if master == "yarn" and not (environ.get("HADOOP_CONF_DIR") or environ.get("YARN_CONF_DIR")):
        raise UsageError(
            "--spark-master yarn needs HADOOP_CONF_DIR or YARN_CONF_DIR, the directory of YARN's own files"
        )
    if master.startswith("k8s://") and not conf.get("spark.kubernetes.container.image"):
        raise UsageError(
            "--spark-master k8s://… needs the image of the executors: -c spark.kubernetes.container.image=IMAGE, "
            "with Java, PySpark and tupletree"
        )


def spark_conf(spec: ClusterSpec) -> dict[str, str]:
    """Return the settings of the application. ``spark.*`` keys of the configuration prevail.

    A task takes all cores of its executor, so that a machine has exactly one supervisor. A failed task is not repeated
    by Spark but by the application, which knows the reason then.
    """
    megabytes = _megabytes(spec.memory)
    cores = str(spec.cores)
    wanted = {
        "spark.app.name": "tupletree-cluster",
        "spark.master": spec.master,
        "spark.executor.instances": str(spec.machines),
        "spark.executor.cores": cores,
        "spark.task.cpus": cores,
        "spark.cores.max": str(spec.machines * spec.cores),
        "spark.dynamicAllocation.enabled": "false",
        "spark.speculation": "false",
        "spark.task.maxFailures": "1",
        "spark.locality.wait": "0",
    }
    if spec.master.startswith("spark://"):  # such a master counts the heap alone, which Python does not use
        wanted["spark.executor.memory"] = f"{max(megabytes, _JVM_MB)}m"
    else:  # the container has both
        wanted["spark.executor.memory"] = f"{_JVM_MB}m"
        wanted["spark.executor.memoryOverhead"] = f"{max(megabytes - _JVM_MB, 384)}m"
    return {**wanted, **{key: str(value) for key, value in spec.conf.items() if key.startswith("spark.")}}


def machine_conf(spec: ClusterSpec, zookeeper: list[str], seeds: list[str]) -> dict[str, Any]:
    """Return the configuration of the daemons in the tasks, which find ZooKeeper and nimbus at these addresses."""
    shared = {
        key: value for key, value in spec.conf.items() if not key.startswith("spark.") and key not in _OWN
    }  # fmt: skip
    return {
        "zookeeper.session.timeout": 20_000,
        **shared,
        "zookeeper.servers": zookeeper,
        "nimbus.seeds": seeds,
    }


def _megabytes(memory: str) -> int:
    found = _MEMORY.fullmatch(memory)
    if found is None:
        raise UsageError(f"--memory is {memory!r}, expected a number with a unit, such as 2g or 1500m")
    return int(found[1]) * (1024 if found[2] in "gG" else 1)
