"""The configuration keys of a cluster and its daemons. A topology cannot change them."""

from __future__ import annotations  # pure

from typing import Final

from tupletree.config.key import MAX_PORT, Key, bool_key, int_key, port_key, secs_key, str_key

CLUSTER: Final = (
    Key(
        "zookeeper.servers",
        ["127.0.0.1"],
        "strings",
        "host or host:port",
        "The ZooKeeper ensemble that holds leadership, presence and assignments.",
    ),
    int_key("zookeeper.port", 2181, "port", "Client port of servers given without a port.", maximum=MAX_PORT),
    Key("zookeeper.root", "/tupletree", "node", "path", "Everything of this cluster lives below this node."),
    int_key("zookeeper.session.timeout", 20000, "ms", "Silence after which ZooKeeper drops a daemon's presence."),
    int_key("zookeeper.connection.timeout", 15000, "ms", "How long a starting daemon waits for ZooKeeper."),
    str_key("local.dir", "tupletree-local", "path", "Directory for a daemon's data that must survive a restart."),
    str_key("logs.dir", None, "path", "Log files of daemons and workers; null: <local.dir>/logs."),
    Key(
        "logs.level",
        "INFO",
        "str",
        "",
        "The least severe level that is logged.",
        choices=("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"),
    ),
    str_key("bind.host", "127.0.0.1", "host", "The address every listener binds to; 0.0.0.0 for all interfaces."),
    str_key(
        "advertise.host",
        None,
        "host",
        "The name under which other machines reach this machine; null: bind.host, or the host name for 0.0.0.0.",
    ),
    str_key(
        "zookeeper.auth.user", None, "", "User of daemons and workers at ZooKeeper; null: nodes are open to everybody."
    ),
    str_key("zookeeper.auth.password", None, "", "The password of zookeeper.auth.user."),
    str_key("zookeeper.auth.password.file", None, "path", "File that holds zookeeper.auth.password; chmod 600."),
)

SECURITY: Final = (
    str_key(
        "tls.ca", None, "path", "Certificates (PEM) of the authorities that sign cluster certificates; null: no TLS."
    ),
    str_key("tls.cert", None, "path", "This process's certificate (PEM), shown to its clients and its servers."),
    str_key("tls.key", None, "path", "The key of tls.cert (PEM); chmod 600."),
    bool_key("tls.require.client.cert", True, "Whether gRPC clients must show a certificate signed by tls.ca."),
    bool_key("tls.http.require.client.cert", False, "The same for HTTP ports, which browsers and probes connect to."),
    Key(
        "tls.expiry.warning.days",
        30,
        "number",
        "days",
        "Time before a certificate expires from which on the log warns.",
        minimum=0,
    ),
    bool_key("security.tokens", False, "Whether every call requires a token with the right to make the call."),
    str_key("security.secret.file", None, "path", "The secret that daemons sign and verify tokens with; chmod 600."),
    str_key("security.secret.previous.file", None, "path", "The previous secret, whose tokens are still accepted."),
    str_key(
        "security.audience", "tupletree", "", "The cluster's name in tokens: tokens for other clusters are refused."
    ),
    str_key("security.token", None, "", "The token that a client sends."),
    str_key("security.token.file", None, "path", "File that holds security.token; chmod 600."),
    bool_key("security.insecure", False, "Allow daemons to listen beyond this machine without TLS and tokens."),
)

NIMBUS: Final = (
    Key(
        "nimbus.seeds",
        ["127.0.0.1:6627"],
        "strings",
        "host or host:port",
        "Nimbuses that clients and supervisors ask for the address of the leader.",
    ),
    port_key("nimbus.port", 6627, "gRPC port of nimbus; also the port of seeds given without a port."),
    port_key("nimbus.http.port", 8080, "HTTP port of nimbus: web UI, REST, health and metrics."),
    secs_key("nimbus.monitor.freq.secs", 10, "Maximum time between two checks of the cluster's state."),
    secs_key("nimbus.task.timeout.secs", 30, "A worker silent for this long is dead and its executors move."),
    secs_key("nimbus.task.launch.secs", 120, "Grace for a worker that was just assigned and has not reported yet."),
    int_key(
        "nimbus.topology.blobstore.deletion.delay.ms",
        300000,
        "ms",
        "How long a bundle outlives its topology in the blob store.",
        minimum=0,
    ),
    int_key("nimbus.max.bundle.bytes", 512 * 1024 * 1024, "bytes", "The largest bundle nimbus accepts."),
    Key("nimbus.admins", None, "strings", "users", "Users whose tokens with the role submit have all rights of admin."),
    int_key("nimbus.audit.log.max.bytes", 10 * 1024 * 1024, "bytes", "Size at which the audit log is rotated."),
    int_key("nimbus.audit.log.backups", 10, "files", "Rotated audit logs that are kept.", minimum=0),
    Key(
        "nimbus.dead.letters.stores",
        {},
        "texts",
        "name: sqlite:PATH or redis://HOST:PORT/DB",
        "Stores of dead letters that the web UI and REST show; a path is one of nimbus's machine.",
    ),
)

SUPERVISOR: Final = (
    str_key("supervisor.id", None, "", "Identity of this supervisor; null: generated once and stored in local.dir."),
    port_key("supervisor.port", 6628, "gRPC port of the supervisor."),
    port_key("supervisor.http.port", 8001, "HTTP port of the supervisor: health and metrics."),
    Key(
        "supervisor.slots.ports",
        [6700, 6701, 6702, 6703],
        "ports",
        "ports, 0: any free one",
        "One slot, and so at most one worker, for each port.",
        minimum=0,
        maximum=MAX_PORT,
    ),
    secs_key(
        "supervisor.worker.start.timeout.secs",
        120,
        "A worker that has not reported this long after its start is killed.",
    ),
    secs_key("supervisor.worker.timeout.secs", 30, "A worker silent for this long is killed and started again."),
    secs_key(
        "supervisor.worker.shutdown.sleep.secs", 3, "Time between asking a worker to end and killing it.", minimum=0
    ),
    secs_key("supervisor.monitor.frequency.secs", 3, "Maximum time between two checks of the slots."),
    str_key("supervisor.worker.module", "tupletree.worker", "", "The Python module that is run as worker process."),
    bool_key(
        "supervisor.stop.workers.on.shutdown",
        False,
        "Stop the workers together with the supervisor; otherwise they run on, and the next supervisor adopts them.",
    ),
    secs_key(
        "supervisor.bundle.deletion.delay.secs",
        300,
        "How long a bundle that no slot needs any more stays on this machine.",
        minimum=0,
    ),
    secs_key(
        "supervisor.logs.retention.secs",
        604800,
        "How long the logs of a removed topology are kept after the last write to them; null: forever.",
        minimum=0,
    ),
)

WORKER: Final = (
    secs_key("worker.heartbeat.frequency.secs", 1, "Time between two heartbeats of a worker."),
    port_key("worker.http.port", 0, "HTTP port of workers: health and metrics."),
    int_key("worker.log.max.bytes", 10 * 1024 * 1024, "bytes", "Size at which a worker's log is rotated."),
    int_key("worker.log.backups", 5, "files", "Rotated logs kept for each worker.", minimum=0),
)

ACKER: Final = (
    port_key("acker.port", 6640, "gRPC port of the acker service."),
    port_key("acker.http.port", 6641, "HTTP port of the acker service: ledger, health and metrics."),
    int_key(
        "acker.max.pending",
        20_000_000,
        "tuple trees",
        "Pending trees above which the acker is not ready and holds back new trees, except a reserve per topology.",
    ),
    secs_key(
        "acker.drain.timeout.secs",
        None,
        "How long a stopping acker serves its old trees; null: the longest message timeout of its topologies.",
        minimum=0,
    ),
)

DRPC: Final = (
    Key(
        "drpc.servers",
        None,
        "strings",
        "host or host:port",
        "The DRPC servers that clients call, and from which the spouts of all topologies fetch requests; null: none.",
    ),
    port_key("drpc.port", 3772, "gRPC port of the DRPC server; also the port of servers given without a port."),
    port_key("drpc.http.port", 3774, "HTTP port of the DRPC server: calls, health and metrics."),
    secs_key("drpc.request.timeout.secs", 600, "A DRPC request that is not answered after this long fails."),
    int_key(
        "drpc.max.pending",
        10_000,
        "requests",
        "Requests that a DRPC server holds; one function alone gets at most half of them.",
        minimum=2,
    ),
)
