"""Every configuration key Tupletree knows: its default, kind, unit, range and one line of documentation.

The names are Storm's without the ``storm.`` prefix. The part before the first dot is the key's family. Keys of the
families ``topology``, ``transactional``, ``pipeline`` and ``spark`` travel with a topology; all others belong to the
cluster and cannot be changed by a topology. The ``spark`` family accepts any key that Spark understands.

``tupletree.config`` loads and checks values against this table; ``deploy/conf/tupletree.yaml`` is this table as YAML.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from tupletree._limits import MAX_TASKS

Kind = Literal["int", "number", "bool", "str", "node", "strings", "ports", "map", "any"]

KIND_WORDS: Final[dict[str, str]] = {
    "int": "a whole number",
    "number": "a number",
    "bool": "true or false",
    "str": "a string",
    "node": "an absolute path of ZooKeeper such as /tupletree",
    "strings": "a list of strings",
    "ports": "a list of port numbers",
    "map": "a mapping",
    "any": "a JSON value",
}

_PORT_MAX: Final = 65535
_MIN_S: Final = 0.01


@dataclass(frozen=True, slots=True)
class Key:
    """One configuration key. ``None`` is a legal value exactly when it is the default."""

    name: str
    default: Any
    kind: Kind
    unit: str
    doc: str
    minimum: float | None = None
    maximum: float | None = None
    choices: Sequence[str] = ()
    component_level: bool = False  # can be set in a component's own configuration

    @property
    def family(self) -> str:
        return self.name.partition(".")[0]

    @property
    def optional(self) -> bool:
        return self.default is None

    @property
    def variable(self) -> str:
        """The environment variable that sets this key."""
        return "TUPLETREE_" + self.name.upper().replace(".", "_")


def _port(name: str, default: int, doc: str) -> Key:
    return Key(name, default, "int", "port, 0: any free one", doc, minimum=0, maximum=_PORT_MAX)


def _secs(name: str, default: float | None, doc: str, *, minimum: float = _MIN_S, component: bool = False) -> Key:
    return Key(name, default, "number", "s", doc, minimum=minimum, component_level=component)


def _int(
    name: str,
    default: int | None,
    unit: str,
    doc: str,
    *,
    minimum: int = 1,
    maximum: int | None = None,
    component: bool = False,
) -> Key:
    return Key(name, default, "int", unit, doc, minimum=minimum, maximum=maximum, component_level=component)


def _str(name: str, default: str | None, unit: str, doc: str, *, component: bool = False) -> Key:
    return Key(name, default, "str", unit, doc, component_level=component)


def _bool(name: str, default: bool, doc: str, *, component: bool = False) -> Key:
    return Key(name, default, "bool", "", doc, component_level=component)


_CLUSTER: Final = (
    Key(
        "zookeeper.servers",
        ["127.0.0.1"],
        "strings",
        "host or host:port",
        "The ZooKeeper ensemble that holds leadership, presence and assignments.",
    ),
    _int("zookeeper.port", 2181, "port", "Client port of the servers that name none.", maximum=_PORT_MAX),
    Key("zookeeper.root", "/tupletree", "node", "path", "Everything of this cluster lives below this node."),
    _int("zookeeper.session.timeout", 20000, "ms", "Silence after which ZooKeeper drops a daemon's presence."),
    _int("zookeeper.connection.timeout", 15000, "ms", "How long a starting daemon waits for ZooKeeper."),
    _str("local.dir", "tupletree-local", "path", "Where a daemon keeps what it must find again after a restart."),
    _str("logs.dir", None, "path", "Log files of daemons and workers; null: <local.dir>/logs."),
    Key(
        "logs.level",
        "INFO",
        "str",
        "",
        "The least severe level that is logged.",
        choices=("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"),
    ),
    _str("bind.host", "127.0.0.1", "host", "The address every listener binds to; 0.0.0.0 for all interfaces."),
    _str(
        "advertise.host",
        None,
        "host",
        "The name other machines reach this one by; null: bind.host, or the machine's name if that is 0.0.0.0.",
    ),
    _str("zookeeper.auth.user", None, "", "Name that daemons and workers show ZooKeeper; null: none, and open nodes."),
    _str("zookeeper.auth.password", None, "", "The password of zookeeper.auth.user."),
    _str("zookeeper.auth.password.file", None, "path", "A file with that password, in its place; chmod 600."),
)

_SECURITY: Final = (
    _str("tls.ca", None, "path", "Certificates (PEM) of the authorities that sign the cluster's; null: no TLS."),
    _str("tls.cert", None, "path", "This process's certificate (PEM), shown to all who connect and are connected to."),
    _str("tls.key", None, "path", "The key of tls.cert (PEM); chmod 600."),
    _bool("tls.require.client.cert", True, "Whether who connects to a gRPC port must show a certificate of tls.ca."),
    _bool("tls.http.require.client.cert", False, "The same for HTTP ports, which browsers and probes connect to."),
    Key(
        "tls.expiry.warning.days",
        30,
        "number",
        "days",
        "How long before its end the log begins to warn of a certificate.",
        minimum=0,
    ),
    _bool("security.tokens", False, "Whether every call takes a token, and the right that the call needs."),
    _str("security.secret.file", None, "path", "The secret that daemons sign and verify tokens with; chmod 600."),
    _str("security.secret.previous.file", None, "path", "The secret before it, whose tokens are still taken."),
    _str("security.audience", "tupletree", "", "The cluster's name in tokens: a token for another is refused."),
    _str("security.token", None, "", "The token that a client shows."),
    _str("security.token.file", None, "path", "A file with that token, in its place; chmod 600."),
    _bool("security.insecure", False, "Listen beyond this machine without TLS and tokens all the same."),
)

_NIMBUS: Final = (
    Key(
        "nimbus.seeds",
        ["127.0.0.1:6627"],
        "strings",
        "host or host:port",
        "Where clients and supervisors ask which nimbus leads.",
    ),
    _port("nimbus.port", 6627, "gRPC port of nimbus; also the port of seeds that name none."),
    _port("nimbus.http.port", 8080, "HTTP port of nimbus: web UI, REST, health and metrics."),
    _secs("nimbus.monitor.freq.secs", 10, "Longest pause between two looks at the cluster's state."),
    _secs("nimbus.task.timeout.secs", 30, "A worker silent for this long is dead and its executors move."),
    _secs("nimbus.task.launch.secs", 120, "Grace for a worker that was just assigned and has not reported yet."),
    _int(
        "nimbus.topology.blobstore.deletion.delay.ms",
        300000,
        "ms",
        "How long a bundle outlives its topology in the blob store.",
        minimum=0,
    ),
    _int("nimbus.max.bundle.bytes", 512 * 1024 * 1024, "bytes", "The largest bundle nimbus accepts."),
    Key("nimbus.admins", None, "strings", "users", "Who may do everything with their tokens, besides the role admin."),
    _int("nimbus.audit.log.max.bytes", 10 * 1024 * 1024, "bytes", "Size at which the audit log is rotated."),
    _int("nimbus.audit.log.backups", 10, "files", "Rotated audit logs that are kept.", minimum=0),
)

_SUPERVISOR: Final = (
    _str("supervisor.id", None, "", "Identity of this supervisor; null: made once and kept in local.dir."),
    _port("supervisor.port", 6628, "gRPC port of the supervisor."),
    _port("supervisor.http.port", 8001, "HTTP port of the supervisor: health and metrics."),
    Key(
        "supervisor.slots.ports",
        [6700, 6701, 6702, 6703],
        "ports",
        "ports, 0: any free one",
        "One slot, and so at most one worker, for each port.",
        minimum=0,
        maximum=_PORT_MAX,
    ),
    _secs(
        "supervisor.worker.start.timeout.secs",
        120,
        "A worker that has not reported this long after its start is killed.",
    ),
    _secs("supervisor.worker.timeout.secs", 30, "A worker silent for this long is killed and started again."),
    _secs("supervisor.worker.shutdown.sleep.secs", 3, "Time between asking a worker to end and killing it.", minimum=0),
    _secs("supervisor.monitor.frequency.secs", 3, "Longest pause between two looks at the slots."),
    _str("supervisor.worker.module", "tupletree.worker", "", "The Python module that is run as worker process."),
    _bool(
        "supervisor.stop.workers.on.shutdown",
        False,
        "Stop the workers too when the supervisor is stopped; otherwise they run on and the next one adopts them.",
    ),
    _secs(
        "supervisor.bundle.deletion.delay.secs",
        300,
        "How long a bundle that no slot needs any more stays on this machine.",
        minimum=0,
    ),
    _secs(
        "supervisor.logs.retention.secs",
        604800,
        "How long the logs of a topology that is gone stay after the last of them was written; null: for ever.",
        minimum=0,
    ),
)

_WORKER: Final = (
    _secs("worker.heartbeat.frequency.secs", 1, "Pause between two life signs of a worker."),
    _port("worker.http.port", 0, "HTTP port of workers: health and metrics."),
    _int("worker.log.max.bytes", 10 * 1024 * 1024, "bytes", "Size at which a worker's log is rotated."),
    _int("worker.log.backups", 5, "files", "Rotated logs kept for each worker.", minimum=0),
)

_ACKER: Final = (
    _port("acker.port", 6640, "gRPC port of the acker service."),
    _port("acker.http.port", 6641, "HTTP port of the acker service: ledger, health and metrics."),
    _int(
        "acker.max.pending",
        20_000_000,
        "tuple trees",
        "Above this the acker is not ready and holds back new trees, but for a small reserve of each topology.",
    ),
    _secs(
        "acker.drain.timeout.secs",
        None,
        "How long a stopping acker serves its old trees; null: the longest message timeout of its topologies.",
        minimum=0,
    ),
)

_TOPOLOGY: Final = (
    _int("topology.workers", 1, "processes", "Worker processes wanted."),
    _int(
        "topology.acker.executors",
        None,
        "shards",
        "Ledger shards that track tuple trees; null: one for each worker, 0: no tracking.",
        minimum=0,
    ),
    _secs("topology.message.timeout.secs", 30, "A tuple tree that is not complete after this long fails."),
    _bool("topology.enable.message.timeouts", True, "Whether tuple trees time out at all."),
    _int(
        "topology.max.spout.pending",
        None,
        "tuple trees",
        "Pending trees at which a spout task is not asked for more; null: no bound.",
        component=True,
    ),
    _int(
        "topology.max.task.parallelism",
        None,
        "tasks",
        "Caps tasks and executors of every component; null: no cap.",
        component=True,
    ),
    _int(
        "topology.tasks",
        None,
        "tasks",
        "Tasks of a component, fixed for the topology's life; null: as many as executors.",
        maximum=MAX_TASKS,
        component=True,
    ),
    _secs(
        "topology.tick.tuple.freq.secs",
        None,
        "Pause between two tick tuples; null: none.",
        component=True,
    ),
    _bool("topology.debug", False, "Log every tuple emitted.", component=True),
    _bool(
        "topology.blocking",
        False,
        "The component blocks (sleeps, waits for others): its executors get threads of their own.",
        component=True,
    ),
    _int("topology.transfer.batch.size", 1000, "tuples", "A batch leaves when it holds this many.", maximum=1 << 20),
    _int(
        "topology.flush.interval.ms",
        5,
        "ms",
        "A batch leaves after this time even if it is not full; at once when idle.",
    ),
    _int(
        "topology.executor.receive.buffer.size",
        32768,
        "tuples",
        "Tuples waiting for a task at which it is congested and its senders hold back.",
    ),
    _int(
        "topology.executor.receive.buffer.bytes",
        32 * 1024 * 1024,
        "bytes",
        "The same by size: bytes of waiting tuples (estimated within a worker), and of those held for a checkpoint.",
        minimum=64 * 1024,
    ),
    _int(
        "topology.tuple.max.bytes",
        64 * 1024 * 1024,
        "bytes",
        "The largest tuple that may go to another worker, encoded; a larger one fails with an error.",
        minimum=1024 * 1024,
        maximum=1024 * 1024 * 1024,
    ),
    _int(
        "topology.lost.worker.grace.ms",
        1000,
        "ms",
        "How long after a worker is lost the spouts fail what may have been lost with it.",
        minimum=0,
    ),
    Key(
        "topology.stats.sample.rate",
        0.05,
        "number",
        "share of tuples",
        "Tuples whose latency is measured.",
        minimum=0.0001,
        maximum=1,
    ),
    _int(
        "topology.sleep.spout.wait.strategy.time.ms",
        1,
        "ms",
        "Pause of a spout that had nothing to emit.",
        minimum=0,
        component=True,
    ),
    _secs("topology.error.throttle.interval.secs", 10, "Window of topology.max.error.report.per.interval."),
    _int(
        "topology.max.error.report.per.interval",
        5,
        "errors",
        "Errors a task reports in one window; more are only logged.",
    ),
    _secs(
        "topology.worker.timeout.secs", None, "Overrides supervisor.worker.timeout.secs when longer; null: does not."
    ),
    Key("topology.environment", {}, "map", "name: value", "Environment variables of the worker processes."),
    Key("topology.users", None, "strings", "users", "Who may change this topology, besides its owner."),
    Key(
        "topology.readonly.users",
        None,
        "strings",
        "users",
        "Who may see this topology, but not change it.",
    ),
    _str("topology.version", None, "", "A version of your own; shown, not interpreted."),
    _bool("topology.testing.always.try.serialize", False, "Encode tuples even when they stay in their worker."),
    _str(
        "topology.state.provider",
        None,
        "name or class",
        "Where stateful bolts keep state; null: memory.",
        component=True,
    ),
    Key(
        "topology.state.provider.config",
        None,
        "any",
        "",
        "What the state provider takes, as a mapping or a JSON string.",
        component_level=True,
    ),
    _str(
        "topology.state.id",
        None,
        "name",
        "What states and checkpoints are kept under, for the next topology to go on from; null: the topology's name.",
    ),
    _int(
        "topology.state.checkpoint.interval.ms",
        1000,
        "ms",
        "Pause between two checkpoints; less than 100 is taken for 100.",
    ),
    _bool(
        "topology.state.checkpoint.aligned",
        False,
        "Hold back what arrives after a checkpoint on one input until it arrived on all.",
    ),
    Key(
        "transactional.zookeeper.root",
        "/transactional",
        "node",
        "path",
        "Progress of transactional topologies lives below this node.",
    ),
    Key(
        "transactional.zookeeper.servers",
        None,
        "strings",
        "host or host:port",
        "Another ensemble for that progress; null: zookeeper.servers.",
    ),
    _int(
        "transactional.zookeeper.port",
        None,
        "port",
        "Client port of that ensemble; null: zookeeper.port.",
        maximum=_PORT_MAX,
    ),
)

_PIPELINE: Final = (
    _int(
        "pipeline.max.attempts",
        8,
        "0: without end",
        "How often a batch that fails in Spark, in user code or in a sink is tried before the pipeline stops at it.",
        minimum=0,
    ),
    _secs(
        "pipeline.batch.timeout.secs",
        600.0,
        "A batch whose Spark job takes longer fails; from the job's start, Spark's own start included.",
    ),
    _secs("pipeline.retry.pause.secs", 0.5, "Before a failed batch is tried again; doubles with each failure."),
    _secs("pipeline.retry.longest.pause.secs", 60.0, "What that pause grows to."),
)

KEYS: Final[dict[str, Key]] = {
    key.name: key
    for group in (_CLUSTER, _SECURITY, _NIMBUS, _SUPERVISOR, _WORKER, _ACKER, _TOPOLOGY, _PIPELINE)
    for key in group
}

FREE_FAMILIES: Final = frozenset({"spark"})
TOPOLOGY_FAMILIES: Final = frozenset({"topology", "transactional", "pipeline", "spark"})
FAMILIES: Final = frozenset({key.family for key in KEYS.values()} | FREE_FAMILIES | {"ui", "storm"})
