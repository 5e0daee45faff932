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
    str_key(
        "zookeeper.tls.ca",
        None,
        "path",
        "Certificates (PEM) of the authorities that sign those of ZooKeeper's servers; null: no TLS to ZooKeeper.",
    ),
    str_key("zookeeper.tls.cert", None, "path", "Certificate (PEM) of daemons and workers, shown to ZooKeeper."),
    str_key("zookeeper.tls.key", None, "path", "The key of zookeeper.tls.cert (PEM); chmod 600."),
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
    str_key(
        "security.oidc.issuer",
        None,
        "https://host/path",
        "OpenID Connect issuer whose tokens daemons accept beside the cluster's own; null: none.",
    ),
    str_key("security.oidc.audience", None, "", "The service that the issuer's tokens must be for."),
    str_key("security.oidc.user.claim", "sub", "", "The claim that names the user."),
    str_key(
        "security.oidc.roles.claim", "groups", "", "The claim with the user's groups; a.b is claim b inside of claim a."
    ),
    Key(
        "security.oidc.roles",
        {},
        "texts",
        "group: roles, with spaces between",
        "The roles of the issuer's users, by their groups: read, submit, admin, metrics, call.",
    ),
    str_key(
        "security.oidc.ca", None, "path", "Certificates (PEM) of the issuer's authorities; null: those of the system."
    ),
    str_key("security.token", None, "", "The token that a client sends."),
    str_key("security.token.file", None, "path", "File that holds security.token; chmod 600."),
    str_key(
        "security.as.user", None, "", "The user in whose name a client calls, if nimbus.impersonation.acl permits it."
    ),
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
    int_key(
        "nimbus.topology.history.max",
        100,
        "topologies",
        "Removed topologies that are remembered, with their last errors, for 'history' and for reading their logs.",
        minimum=0,
        maximum=1000,
    ),
    int_key("nimbus.max.bundle.bytes", 512 * 1024 * 1024, "bytes", "The largest bundle nimbus accepts."),
    int_key("nimbus.max.blob.bytes", 4 * 1024 * 1024 * 1024, "bytes", "The largest file for workers nimbus accepts."),
    Key(
        "nimbus.scheduler",
        "even",
        "str",
        "",
        "How executors are placed: evenly over slots, or by the resources that they need and supervisors announce.",
        choices=("even", "resource"),
    ),
    Key(
        "nimbus.resource.quotas",
        {},
        "map",
        "owner: {cpu: percent, memory_mb: MB, name: amount, topology.priority: number}",
        "What the topologies of an owner may use together, under nimbus.scheduler resource; *: any other owner.",
    ),
    Key(
        "isolation.scheduler.machines",
        {},
        "map",
        "topology: number of machines",
        "Machines that a topology has to itself, by its name, under nimbus.scheduler even.",
    ),
    Key(
        "multitenant.scheduler.user.pools",
        {},
        "map",
        "user: number of machines",
        "Machines that the topologies of a user share and nobody else uses, under nimbus.scheduler even.",
    ),
    int_key(
        "blacklist.scheduler.tolerance.count",
        0,
        "failures",
        "Failures of a machine within the time below after which it gets no new workers; 0: none is avoided.",
        minimum=0,
    ),
    secs_key(
        "blacklist.scheduler.tolerance.time.secs", 300.0, "The time within which failures of a machine are counted."
    ),
    secs_key(
        "blacklist.scheduler.resume.time.secs", 1800.0, "The time for which a machine that failed gets no new workers."
    ),
    Key(
        "nimbus.topology.action.notifiers",
        None,
        "classes",
        "",
        "Classes of ActionNotifier, which the leading nimbus tells of submissions, kills and other actions.",
    ),
    Key("nimbus.admins", None, "strings", "users", "Users whose tokens with the role submit have all rights of admin."),
    Key(
        "nimbus.impersonation.acl",
        {},
        "map",
        "program: {users: [name], hosts: [address or network]}",
        "Users whose tokens may call in the names of others: which names, and from where; *: all.",
    ),
    int_key("nimbus.audit.log.max.bytes", 10 * 1024 * 1024, "bytes", "Size at which the audit log is rotated."),
    int_key("nimbus.audit.log.backups", 10, "files", "Rotated audit logs that are kept.", minimum=0),
    Key(
        "nimbus.dead.letters.stores",
        {},
        "texts",
        "name: sqlite:PATH or redis://HOST:PORT/DB",
        "Stores of dead letters that the web UI and REST show; a path is one of nimbus's machine.",
    ),
    str_key(
        "nimbus.savepoints.address",
        None,
        "directory or address",
        "Where the web UI and REST have savepoints written, such as s3://bucket/folder; null: nowhere.",
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
    Key(
        "supervisor.cpu.capacity",
        None,
        "number",
        "percent of a processor",
        "Processor time for executors, as the resource scheduler counts; null: 100 for each processor.",
        minimum=0,
    ),
    Key(
        "supervisor.memory.capacity.mb",
        None,
        "number",
        "MB",
        "Memory for executors; null: that of the machine or container, less 1024 MB or half of it if that is less.",
        minimum=1,
    ),
    Key(
        "supervisor.resources",
        {},
        "amounts",
        "name: amount",
        'Named resources of this machine for executors, such as {"gpu": 2}.',
    ),
    str_key("supervisor.rack", None, "", "The rack of this machine; all machines without one count as one rack."),
    Key(
        "supervisor.memory.limit.tolerance.margin.mb",
        128,
        "number",
        "MB",
        "How far the memory of a worker may exceed its limit before the worker is ended.",
        minimum=0,
    ),
    Key(
        "supervisor.cgroup.use",
        "auto",
        "str",
        "",
        "Control groups (cgroups v2) for workers: where the supervisor may, or it does not start without, or never.",
        choices=("auto", "required", "never"),
    ),
    str_key(
        "supervisor.cgroup.root",
        None,
        "group such as /tupletree",
        "The group below which workers get theirs; it exists and has no process; null: that of the supervisor.",
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
        "supervisor.run.worker.as.user",
        False,
        "Run each worker as the account that has the name of its topology's owner; needs a supervisor that is root.",
    ),
    int_key(
        "supervisor.worker.min.user.id",
        1000,
        "user id",
        "The least user id that workers run under, with supervisor.run.worker.as.user.",
        minimum=1,
    ),
    Key(
        "supervisor.worker.banned.users",
        ["nobody", "tupletree"],
        "strings",
        "names",
        "Accounts that workers never run under, with supervisor.run.worker.as.user.",
    ),
    str_key(
        "supervisor.worker.tls.cert",
        None,
        "path",
        "Certificate (PEM) of all workers that run as their users, instead of tls.cert.",
    ),
    str_key("supervisor.worker.tls.key", None, "path", "The key of supervisor.worker.tls.cert (PEM); chmod 600."),
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
    port_key("worker.http.port", 0, "HTTP port of workers: health, metrics and questions of clients to states."),
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
    Key(
        "acker.trees.namespaces",
        {},
        "map",
        "name: {max_open_trees: 100000, max_updates_per_s: 100000, timeout_s: 600, users: null}",
        "Namespaces of trees for programs outside topologies, with the quotas of each at each acker.",
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
    int_key(
        "drpc.max.pending.bytes",
        512 * 1024 * 1024,
        "bytes",
        "Memory for arguments and results of the requests that a DRPC server holds; one function alone gets half.",
        minimum=64 * 1024 * 1024,
    ),
    Key(
        "drpc.functions",
        {},
        "map",
        "name: {users: [alice], owners: [alice]}",
        "With tokens, who may call a DRPC function, and whose topologies may serve it; null in place of a list: all.",
    ),
    bool_key(
        "drpc.functions.strict",
        False,
        "Whether DRPC functions that are not in drpc.functions are for administrators and their topologies alone.",
    ),
)
