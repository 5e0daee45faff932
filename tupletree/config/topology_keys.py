"""The configuration keys that travel with a topology: its own, and those of transactions, states and pipelines."""

from __future__ import annotations  # pure

from typing import Final

from tupletree._limits import MAX_TASKS
from tupletree.config.key import MAX_PORT, Key, bool_key, int_key, secs_key, str_key

TOPOLOGY: Final = (
    int_key("topology.workers", 1, "processes", "Worker processes wanted."),
    int_key(
        "topology.acker.executors",
        None,
        "shards",
        "Ledger shards that track tuple trees; null: one for each worker, 0: no tracking.",
        minimum=0,
    ),
    secs_key("topology.message.timeout.secs", 30, "A tuple tree that is not complete after this long fails."),
    bool_key("topology.enable.message.timeouts", True, "Whether tuple trees time out at all."),
    int_key(
        "topology.max.spout.pending",
        None,
        "tuple trees",
        "Pending trees at which a spout task is not asked for more tuples; null: no limit.",
        component=True,
    ),
    int_key(
        "topology.max.task.parallelism",
        None,
        "tasks",
        "Caps tasks and executors of every component; null: no cap.",
        component=True,
    ),
    int_key(
        "topology.tasks",
        None,
        "tasks",
        "Tasks of a component at submission; null: as many as executors.",
        maximum=MAX_TASKS,
        component=True,
    ),
    secs_key(
        "topology.tick.tuple.freq.secs",
        None,
        "Time between two tick tuples; null: no ticks.",
        component=True,
    ),
    bool_key("topology.debug", False, "Log every tuple emitted.", component=True),
    bool_key(
        "topology.blocking",
        False,
        "The component blocks (sleeps, waits for others): its executors get threads of their own.",
        component=True,
    ),
    int_key(
        "topology.transfer.batch.size",
        1000,
        "tuples",
        "A batch is sent when it holds this many tuples.",
        maximum=1 << 20,
    ),
    int_key(
        "topology.flush.interval.ms",
        5,
        "ms",
        "A batch is sent after this time even if it is not full; at once when idle.",
    ),
    int_key(
        "topology.executor.receive.buffer.size",
        32768,
        "tuples",
        "Number of waiting tuples at which a task is congested and its senders hold back.",
    ),
    int_key(
        "topology.executor.receive.buffer.bytes",
        32 * 1024 * 1024,
        "bytes",
        "The same limit in bytes: of waiting tuples (estimated within a worker) and of tuples held for a checkpoint.",
        minimum=64 * 1024,
    ),
    int_key(
        "topology.tuple.max.bytes",
        64 * 1024 * 1024,
        "bytes",
        "The largest tuple that may go to another worker, encoded; a larger one fails with an error.",
        minimum=1024 * 1024,
        maximum=1024 * 1024 * 1024,
    ),
    int_key(
        "topology.lost.worker.grace.ms",
        1000,
        "ms",
        "Time from the loss of a worker until spouts fail the trees that may have lost tuples with it.",
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
    int_key(
        "topology.sleep.spout.wait.strategy.time.ms",
        1,
        "ms",
        "Pause of a spout that had nothing to emit; after a second without a tuple at least 10 ms, unless 0.",
        minimum=0,
        component=True,
    ),
    secs_key("topology.error.throttle.interval.secs", 10, "Window of topology.max.error.report.per.interval."),
    int_key(
        "topology.max.error.report.per.interval",
        5,
        "errors",
        "Errors of a component that a worker stores in one window; of more, the newest is stored later.",
    ),
    secs_key("topology.worker.timeout.secs", None, "Replaces supervisor.worker.timeout.secs if longer; null: never."),
    Key("topology.environment", {}, "map", "name: value", "Environment variables of the worker processes."),
    Key("topology.users", None, "strings", "users", "Who may change this topology, besides its owner."),
    Key(
        "topology.readonly.users",
        None,
        "strings",
        "users",
        "Who may see this topology, but not change it.",
    ),
    str_key("topology.version", None, "", "A version of your own; shown, not interpreted."),
    bool_key("topology.testing.always.try.serialize", False, "Encode tuples even when they stay in their worker."),
    str_key(
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
        "Options of the state provider, as a mapping or a JSON string.",
        component_level=True,
    ),
    str_key(
        "topology.state.id",
        None,
        "name",
        "Id of stored states and checkpoints: a topology with the same id continues; null: the topology's name.",
    ),
    int_key(
        "topology.state.checkpoint.interval.ms",
        1000,
        "ms",
        "Pause between two checkpoints; values below 100 count as 100.",
    ),
    bool_key(
        "topology.state.checkpoint.aligned",
        False,
        "Hold back tuples behind a checkpoint's barrier on one input until the barrier has arrived on all inputs.",
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
        "ZooKeeper ensemble for the progress of transactional topologies; null: zookeeper.servers.",
    ),
    int_key(
        "transactional.zookeeper.port",
        None,
        "port",
        "Client port of transactional.zookeeper.servers; null: zookeeper.port.",
        maximum=MAX_PORT,
    ),
)

PIPELINE: Final = (
    int_key(
        "pipeline.max.attempts",
        8,
        "0: without end",
        "Attempts at a batch that fails in Spark, in user code or in a sink before the pipeline stops at the batch.",
        minimum=0,
    ),
    secs_key(
        "pipeline.batch.timeout.secs",
        600.0,
        "A batch whose Spark job takes longer fails; the time includes the start of Spark itself.",
    ),
    secs_key("pipeline.retry.pause.secs", 0.5, "Pause before a failed batch is retried; doubles with each failure."),
    secs_key("pipeline.retry.longest.pause.secs", 60.0, "Maximum of the growing pause."),
)
