"""Options of Storm and streamparse, and what becomes of them here.

They come from an environment in ``config.json`` (``options``, ``log``, ``workers`` and what SSH needs) and from the
``config`` of a topology or component, which comes after. A key is taken as it is, under another name, or left out with
a remark. Keys of the project's own, such as ``redis.host``, are taken: components read them from their configuration.
"""

from __future__ import annotations  # pure

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tupletree.cli.from_streamparse.specs import Remark
from tupletree.config.keys import KEYS
from tupletree.config.validation import faults

RENAMED: Final = {"topology.batch.flush.interval.millis": "topology.flush.interval.ms"}
LEFT_OUT: Final = {
    "topology.auto.credentials": "tokens say who may do what: docs/security.md",
    "topology.backpressure": "a full inbox holds its senders back by itself",
    "topology.bolt.wait.strategy": "bolts wait until there is something to do",
    "topology.builtin.metrics.bucket.size.secs": "metrics are read by Prometheus: docs/guides/metrics.md",
    "topology.classpath": "there is no JVM; pass packages with --requirements",
    "topology.component.resources.offheap.memory.mb": "the memory of an executor is one amount, …onheap.memory.mb",
    "topology.eventlogger.executors": "'tupletree debug' shows sampled tuples",
    "topology.executor.overflow.limit": "a full inbox holds its senders back by itself",
    "topology.executor.send.buffer.size": "topology.transfer.batch.size is the size of a batch",
    "topology.fall.back.on.java.serialization": "nothing is serialised within a worker: docs/guides/values.md",
    "topology.kryo": "nothing is serialised within a worker; @value registers a class: docs/guides/values.md",
    "topology.localityaware.higher.bound": "topology.localityaware.higher.wait.secs is a time that tuples wait",
    "topology.localityaware.lower.bound": "topology.localityaware.lower.wait.secs is a time that tuples wait",
    "topology.metrics.consumer.register": "metrics are read by Prometheus: docs/guides/metrics.md",
    "topology.multilang.serializer": "nothing is serialised for a hosted component",
    "topology.optimize": "there is nothing to set",
    "topology.original_name": "streamparse sets it; the name here is that of 'tupletree submit --name'",
    "topology.producer.batch.size": "topology.transfer.batch.size is the size of a batch",
    "topology.python.path": "workers run this library's Python, or that of --requirements",
    "topology.receiver.buffer.size": "topology.executor.receive.buffer.size is that of a task",
    "topology.scheduler.strategy": "nimbus.scheduler is that of the cluster: docs/guides/scheduling.md",
    "topology.spout.recvq.skips": "a spout is asked at each turn",
    "topology.spout.wait.strategy": "topology.sleep.spout.wait.strategy.time.ms is the pause",
    "topology.transfer.buffer.size": "a full inbox holds its senders back by itself",
    "topology.trident": "see docs/guides/transactions.md",
    "topology.worker.childopts": "there is no JVM; topology.environment has variables of the workers",
    "topology.worker.gc.childopts": "there is no JVM",
    "topology.worker.logwriter.childopts": "there is no JVM",
    "topology.worker.receiver.thread.count": "there is nothing to set",
    "topology.worker.shared.thread.pool.size": "there is nothing to set",
}
"""Keys of Storm without a counterpart, also as beginnings of keys, and what to know or do instead."""
OF_STREAMPARSE: Final = {
    "install_virtualenv": "supervisors install what --requirements names",
    "overwrite_virtualenv": "supervisors install what --requirements names",
    "pystorm.log": "what a component logs is in its worker's log: 'tupletree logs', 'tupletree log-level'",
    "storm.workers.list": "supervisors announce themselves; topology.workers is a number",
    "sudo_user": "nothing is done over SSH",
    "use_virtualenv": "supervisors install what --requirements names",
    "virtualenv_flags": "supervisors install what --requirements names",
    "virtualenv_name": "supervisors install what --requirements names",
}
"""The same for options of streamparse."""
OF_ENVIRONMENT: Final = {
    "log": "what a component logs is in its worker's log: 'tupletree logs', 'tupletree log-level', the key logs.dir",
    "log_path": "the key logs.dir of supervisors says where logs lie",
    "log_file": "a worker's log has the name of its port",
    "nimbus": "name this library's nimbuses by the key nimbus.seeds, or --nimbus",
    "serializer": "nothing is serialised for a hosted component",
    "ssh_password": "nothing is done over SSH",
    "ssh_port": "nothing is done over SSH",
    "use_ssh_for_nimbus": "nothing is done over SSH",
    "user": "nothing is done over SSH",
    "virtualenv_path": "supervisors keep virtual environments in local.dir",
    "virtualenv_root": "supervisors keep virtual environments in local.dir",
}
"""Entries of an environment in config.json that have no value here."""
_TAKEN: Final = ("options", "workers")


def taken(options: Mapping[str, Any], owner: str, is_component: bool = False) -> tuple[dict[str, Any], list[Remark]]:
    """Return the configuration here for options there, and remarks on those left out. ``owner``: their place."""
    conf: dict[str, Any] = {}
    remarks: list[Remark] = []
    for name, value in options.items():
        key = RENAMED.get(name, name)
        subject = f"{owner}: {name}"
        if (advice := _advice(name)) is not None:
            remarks.append(Remark(subject, "the option has no counterpart and is left out", advice))
        elif key.startswith("topology.") and key not in KEYS:
            remarks.append(Remark(subject, "the option is unknown and is left out", "see 'tupletree config list'"))
        elif (fault := next(iter(faults({key: value})), None)) is not None:
            remarks.append(Remark(subject, f"the value is left out: {fault}", "set another value in the topology file"))
        elif is_component and key in KEYS and not KEYS[key].component_level:
            remarks.append(Remark(subject, "the key holds for whole topologies and is left out", f"set {key} there"))
        else:
            conf[key] = value
    return conf, remarks


def _advice(name: str) -> str | None:
    for known, advice in (*LEFT_OUT.items(), *OF_STREAMPARSE.items()):
        if name == known or name.startswith(f"{known}."):
            return advice
    return None


def of_environment(environment: Mapping[str, Any], owner: str) -> Iterator[Remark]:
    """Yield remarks on what an environment of config.json says beside its options. Empty entries say nothing."""
    by_advice: dict[str, list[str]] = {}
    for name, value in environment.items():
        if name not in _TAKEN and value:
            by_advice.setdefault({**OF_STREAMPARSE, **OF_ENVIRONMENT}.get(name, ""), []).append(name)
    for advice, names in by_advice.items():
        sentence = "there is no such setting here" if advice else "it is unknown and left out"
        yield Remark(f"{owner}: {', '.join(names)}", sentence, advice)


def resolved(environment: Mapping[str, Any], topology: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that streamparse would submit a topology with, less those that it makes up itself.

    ``topology.workers`` is the number of the environment's workers, unless an option says otherwise.
    """
    options: dict[str, Any] = {}
    if isinstance(hosts := environment.get("workers"), list) and hosts:
        options["topology.workers"] = len(hosts)
    return {**options, **environment.get("options", {}), **topology}
