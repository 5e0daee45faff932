"""The configuration of a topology, with types. Generated from the table of keys by .ci/topology-conf."""

from __future__ import annotations  # pure

from typing import Any, Final, TypedDict

TopologyConf = TypedDict(
    "TopologyConf",
    {
        "topology.workers": int,
        "topology.acker.executors": int | None,
        "topology.message.timeout.secs": float,
        "topology.enable.message.timeouts": bool,
        "topology.max.spout.pending": int | None,
        "topology.max.task.parallelism": int | None,
        "topology.autoscale": dict[str, Any],
        "topology.autoscale.max.workers": int | None,
        "topology.autoscale.up.secs": float,
        "topology.autoscale.down.secs": float,
        "topology.autoscale.cooldown.secs": float,
        "topology.tasks": int | None,
        "topology.component.cpu.pcore.percent": float,
        "topology.component.resources.onheap.memory.mb": float,
        "topology.component.resources.map": dict[str, float],
        "topology.worker.max.heap.size.mb": float,
        "topology.priority": int,
        "topology.ras.constraints": dict[str, Any],
        "topology.spread.components": list[str] | None,
        "topology.ras.one.executor.per.worker": bool,
        "topology.ras.one.component.per.worker": bool,
        "topology.scheduler.favored.nodes": list[str] | None,
        "topology.scheduler.unfavored.nodes": list[str] | None,
        "topology.isolate.machines": int | None,
        "topology.worker.memory.limit.mb": float | None,
        "topology.tick.tuple.freq.secs": float | None,
        "topology.debug": bool,
        "topology.blocking": bool,
        "topology.transfer.batch.size": int,
        "topology.flush.interval.ms": int,
        "topology.executor.receive.buffer.size": int,
        "topology.executor.receive.buffer.bytes": int,
        "topology.disable.loadaware.messaging": bool,
        "topology.localityaware.higher.wait.secs": float | None,
        "topology.localityaware.lower.wait.secs": float,
        "topology.tuple.max.bytes": int,
        "topology.shellbolt.max.pending": int,
        "topology.subprocess.timeout.secs": int,
        "topology.lost.worker.grace.ms": int,
        "topology.stats.sample.rate": float,
        "topology.sleep.spout.wait.strategy.time.ms": int,
        "topology.error.throttle.interval.secs": float,
        "topology.max.error.report.per.interval": int,
        "topology.worker.timeout.secs": float | None,
        "topology.environment": dict[str, Any],
        "topology.blobstore.map": dict[str, Any],
        "topology.users": list[str] | None,
        "topology.readonly.users": list[str] | None,
        "topology.version": str | None,
        "topology.worker.hooks": list[str] | None,
        "topology.event.logger.register": list[str] | None,
        "topology.auto.task.hooks": list[str] | None,
        "topology.testing.always.try.serialize": bool,
        "topology.state.provider": str | None,
        "topology.state.provider.config": Any,
        "topology.state.id": str | None,
        "topology.state.savepoint": str | None,
        "topology.state.checkpoint.interval.ms": int,
        "topology.state.checkpoint.aligned": bool,
        "transactional.zookeeper.root": str,
        "transactional.zookeeper.servers": list[str] | None,
        "transactional.zookeeper.port": int | None,
        "pipeline.max.attempts": int,
        "pipeline.batch.timeout.secs": float,
        "pipeline.retry.pause.secs": float,
        "pipeline.retry.longest.pause.secs": float,
    },
    total=False,
)
"""The keys of a topology's configuration, and the types of their values. All are optional."""


class TopologyKeys:
    """The keys of a topology's configuration as constants, as Storm has them."""

    TOPOLOGY_WORKERS: Final = "topology.workers"
    """Worker processes wanted."""
    TOPOLOGY_ACKER_EXECUTORS: Final = "topology.acker.executors"
    """Ledger shards that track tuple trees; null: one for each worker, 0: no tracking."""
    TOPOLOGY_MESSAGE_TIMEOUT_SECS: Final = "topology.message.timeout.secs"
    """A tuple tree that is not complete after this long fails."""
    TOPOLOGY_ENABLE_MESSAGE_TIMEOUTS: Final = "topology.enable.message.timeouts"
    """Whether tuple trees time out at all."""
    TOPOLOGY_MAX_SPOUT_PENDING: Final = "topology.max.spout.pending"
    """Pending trees at which a spout task is not asked for more tuples; null: no limit."""
    TOPOLOGY_MAX_TASK_PARALLELISM: Final = "topology.max.task.parallelism"
    """Caps tasks and executors of every component; null: no cap."""
    TOPOLOGY_AUTOSCALE: Final = "topology.autoscale"
    """Bolts whose executors nimbus changes by the measured load, each within its bounds."""
    TOPOLOGY_AUTOSCALE_MAX_WORKERS: Final = "topology.autoscale.max.workers"
    """Up to so many workers, and down to topology.workers, follow the executors; null: workers stay as they are."""
    TOPOLOGY_AUTOSCALE_UP_SECS: Final = "topology.autoscale.up.secs"
    """A bolt that was too busy over this time gets more executors."""
    TOPOLOGY_AUTOSCALE_DOWN_SECS: Final = "topology.autoscale.down.secs"
    """A bolt that had too little work over all of this time gets fewer executors."""
    TOPOLOGY_AUTOSCALE_COOLDOWN_SECS: Final = "topology.autoscale.cooldown.secs"
    """The least time between two changes of a topology by topology.autoscale."""
    TOPOLOGY_TASKS: Final = "topology.tasks"
    """Tasks of a component at submission; null: as many as executors."""
    TOPOLOGY_COMPONENT_CPU_PCORE_PERCENT: Final = "topology.component.cpu.pcore.percent"
    """Processor time that each executor needs, for nimbus.scheduler resource."""
    TOPOLOGY_COMPONENT_RESOURCES_ONHEAP_MEMORY_MB: Final = "topology.component.resources.onheap.memory.mb"
    """Memory that each executor needs, for nimbus.scheduler resource."""
    TOPOLOGY_COMPONENT_RESOURCES_MAP: Final = "topology.component.resources.map"
    """Named resources that each executor needs, for nimbus.scheduler resource, such as {"gpu": 1}."""
    TOPOLOGY_WORKER_MAX_HEAP_SIZE_MB: Final = "topology.worker.max.heap.size.mb"
    """The most memory that the executors of one worker may need, for nimbus.scheduler resource."""
    TOPOLOGY_PRIORITY: Final = "topology.priority"
    """The importance under nimbus.scheduler resource, 0 first: less important topologies give up their places."""
    TOPOLOGY_RAS_CONSTRAINTS: Final = "topology.ras.constraints"
    """Maxima of components on a machine, and what shares no worker with them, for nimbus.scheduler resource."""
    TOPOLOGY_SPREAD_COMPONENTS: Final = "topology.spread.components"
    """Components with one executor on a machine, over racks first, for nimbus.scheduler resource."""
    TOPOLOGY_RAS_ONE_EXECUTOR_PER_WORKER: Final = "topology.ras.one.executor.per.worker"
    """Give each executor its own worker, for nimbus.scheduler resource."""
    TOPOLOGY_RAS_ONE_COMPONENT_PER_WORKER: Final = "topology.ras.one.component.per.worker"
    """Let a worker have executors of one component only, for nimbus.scheduler resource."""
    TOPOLOGY_SCHEDULER_FAVORED_NODES: Final = "topology.scheduler.favored.nodes"
    """Machines that are used first, in this order, for nimbus.scheduler resource."""
    TOPOLOGY_SCHEDULER_UNFAVORED_NODES: Final = "topology.scheduler.unfavored.nodes"
    """Machines that are used last, for nimbus.scheduler resource."""
    TOPOLOGY_ISOLATE_MACHINES: Final = "topology.isolate.machines"
    """Machines of the owner's pool (multitenant.scheduler.user.pools) that the topology has to itself; null: none."""
    TOPOLOGY_WORKER_MEMORY_LIMIT_MB: Final = "topology.worker.memory.limit.mb"
    """Memory beyond which a worker is ended; null: what the resource scheduler gave its executors, else no limit."""
    TOPOLOGY_TICK_TUPLE_FREQ_SECS: Final = "topology.tick.tuple.freq.secs"
    """Time between two tick tuples; null: no ticks."""
    TOPOLOGY_DEBUG: Final = "topology.debug"
    """Log every tuple emitted."""
    TOPOLOGY_BLOCKING: Final = "topology.blocking"
    """The component blocks (sleeps, waits for others): its executors get threads of their own."""
    TOPOLOGY_TRANSFER_BATCH_SIZE: Final = "topology.transfer.batch.size"
    """A batch is sent when it holds this many tuples."""
    TOPOLOGY_FLUSH_INTERVAL_MS: Final = "topology.flush.interval.ms"
    """A batch is sent after this time even if it is not full; at once when idle."""
    TOPOLOGY_EXECUTOR_RECEIVE_BUFFER_SIZE: Final = "topology.executor.receive.buffer.size"
    """Number of waiting tuples at which a task is congested and its senders hold back."""
    TOPOLOGY_EXECUTOR_RECEIVE_BUFFER_BYTES: Final = "topology.executor.receive.buffer.bytes"
    """The same limit in bytes: of waiting tuples (estimated within a worker) and of tuples held for a checkpoint."""
    TOPOLOGY_DISABLE_LOADAWARE_MESSAGING: Final = "topology.disable.loadaware.messaging"
    """Shuffles give each task the same number of tuples, however loaded it is, and wait for congested tasks."""
    TOPOLOGY_LOCALITYAWARE_HIGHER_WAIT_SECS: Final = "topology.localityaware.higher.wait.secs"
    """Shuffles use the tasks in their own worker alone until tuples wait there longer; null: they prefer no task."""
    TOPOLOGY_LOCALITYAWARE_LOWER_WAIT_SECS: Final = "topology.localityaware.lower.wait.secs"
    """Shuffles that use all tasks use those in their own worker alone again when tuples wait there shorter."""
    TOPOLOGY_TUPLE_MAX_BYTES: Final = "topology.tuple.max.bytes"
    """The largest tuple that may go to another worker, encoded; a larger one fails with an error."""
    TOPOLOGY_SHELLBOLT_MAX_PENDING: Final = "topology.shellbolt.max.pending"
    """While so many tuples wait to be written to the process of a ShellBolt's task, it takes no others."""
    TOPOLOGY_SUBPROCESS_TIMEOUT_SECS: Final = "topology.subprocess.timeout.secs"
    """The longest silence of the process of a ShellSpout's or ShellBolt's task; after it the worker is restarted."""
    TOPOLOGY_LOST_WORKER_GRACE_MS: Final = "topology.lost.worker.grace.ms"
    """Time from the loss of a worker until spouts fail the trees that may have lost tuples with it."""
    TOPOLOGY_STATS_SAMPLE_RATE: Final = "topology.stats.sample.rate"
    """Tuples whose latency is measured."""
    TOPOLOGY_SLEEP_SPOUT_WAIT_STRATEGY_TIME_MS: Final = "topology.sleep.spout.wait.strategy.time.ms"
    """Pause of a spout that had nothing to emit; after a second without a tuple at least 10 ms, unless 0."""
    TOPOLOGY_ERROR_THROTTLE_INTERVAL_SECS: Final = "topology.error.throttle.interval.secs"
    """Window of topology.max.error.report.per.interval."""
    TOPOLOGY_MAX_ERROR_REPORT_PER_INTERVAL: Final = "topology.max.error.report.per.interval"
    """Errors of a component that a worker stores in one window; of more, the newest is stored later."""
    TOPOLOGY_WORKER_TIMEOUT_SECS: Final = "topology.worker.timeout.secs"
    """Replaces supervisor.worker.timeout.secs if longer; null: never."""
    TOPOLOGY_ENVIRONMENT: Final = "topology.environment"
    """Environment variables of the worker processes."""
    TOPOLOGY_BLOBSTORE_MAP: Final = "topology.blobstore.map"
    """Files that workers have beside them: localname, uncompress and workerRestart of each blob."""
    TOPOLOGY_USERS: Final = "topology.users"
    """Who may change this topology, besides its owner."""
    TOPOLOGY_READONLY_USERS: Final = "topology.readonly.users"
    """Who may see this topology, but not change it."""
    TOPOLOGY_VERSION: Final = "topology.version"
    """A version of your own; shown, not interpreted."""
    TOPOLOGY_WORKER_HOOKS: Final = "topology.worker.hooks"
    """Classes of WorkerHook; each worker starts and shuts down one."""
    TOPOLOGY_EVENT_LOGGER_REGISTER: Final = "topology.event.logger.register"
    """Classes of EventLogger; each worker gives the tuples that 'tupletree debug' samples to one of each."""
    TOPOLOGY_AUTO_TASK_HOOKS: Final = "topology.auto.task.hooks"
    """Classes of TaskHook; each task of the topology, or of one component, gets one."""
    TOPOLOGY_TESTING_ALWAYS_TRY_SERIALIZE: Final = "topology.testing.always.try.serialize"
    """Encode tuples even when they stay in their worker."""
    TOPOLOGY_STATE_PROVIDER: Final = "topology.state.provider"
    """Where stateful bolts keep state; null: memory."""
    TOPOLOGY_STATE_PROVIDER_CONFIG: Final = "topology.state.provider.config"
    """Options of the state provider, as a mapping or a JSON string."""
    TOPOLOGY_STATE_ID: Final = "topology.state.id"
    """Id of stored states and checkpoints: a topology with the same id continues; null: the topology's name."""
    TOPOLOGY_STATE_SAVEPOINT: Final = "topology.state.savepoint"
    """The savepoint that the states begin with; set by tupletree submit --from-savepoint, which brings it along."""
    TOPOLOGY_STATE_CHECKPOINT_INTERVAL_MS: Final = "topology.state.checkpoint.interval.ms"
    """Pause between two checkpoints; values below 100 count as 100."""
    TOPOLOGY_STATE_CHECKPOINT_ALIGNED: Final = "topology.state.checkpoint.aligned"
    """Hold back tuples behind a checkpoint's barrier on one input until the barrier has arrived on all inputs."""
    TRANSACTIONAL_ZOOKEEPER_ROOT: Final = "transactional.zookeeper.root"
    """Progress of transactional topologies lives below this node."""
    TRANSACTIONAL_ZOOKEEPER_SERVERS: Final = "transactional.zookeeper.servers"
    """ZooKeeper ensemble for the progress of transactional topologies; null: zookeeper.servers."""
    TRANSACTIONAL_ZOOKEEPER_PORT: Final = "transactional.zookeeper.port"
    """Client port of transactional.zookeeper.servers; null: zookeeper.port."""
    PIPELINE_MAX_ATTEMPTS: Final = "pipeline.max.attempts"
    """Attempts at a batch that fails in Spark, in user code or in a sink before the pipeline stops at the batch."""
    PIPELINE_BATCH_TIMEOUT_SECS: Final = "pipeline.batch.timeout.secs"
    """A batch whose Spark job takes longer fails; the time includes the start of Spark itself."""
    PIPELINE_RETRY_PAUSE_SECS: Final = "pipeline.retry.pause.secs"
    """Pause before a failed batch is retried; doubles with each failure."""
    PIPELINE_RETRY_LONGEST_PAUSE_SECS: Final = "pipeline.retry.longest.pause.secs"
    """Maximum of the growing pause."""
