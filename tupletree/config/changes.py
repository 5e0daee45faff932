"""Change of each key in a running topology: live, with a restart of the workers, or not at all.

*live*: running workers adopt the new value within a second or two. *restart*: the topology's workers are restarted,
after a pause in which the tuples in flight finish. *fixed*: the key is refused, for the reason given here. Keys of the
cluster belong to the daemons, and change with the restart of a daemon. Keys outside the known families, and those of
Spark, are read by components and by Spark when they start, and change with a restart.
"""

from __future__ import annotations  # pure

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

from tupletree._constraints import ISOLATE, PLACEMENT_KEYS
from tupletree.config.keys import KEYS, TOPOLOGY_FAMILIES
from tupletree.config.validation import validate
from tupletree.errors import ConfigError

Change = Literal["live", "restart", "fixed", "daemon"]

LIVE: Final = frozenset(
    {
        "topology.max.spout.pending",
        "topology.autoscale",
        "topology.autoscale.max.workers",
        "topology.autoscale.up.secs",
        "topology.autoscale.down.secs",
        "topology.autoscale.cooldown.secs",
        "topology.tick.tuple.freq.secs",
        "topology.lost.worker.grace.ms",
        "topology.sleep.spout.wait.strategy.time.ms",
        "topology.error.throttle.interval.secs",
        "topology.max.error.report.per.interval",
        "topology.version",
        "topology.state.checkpoint.interval.ms",
        "pipeline.max.attempts",
        "pipeline.batch.timeout.secs",
        "pipeline.retry.pause.secs",
        "pipeline.retry.longest.pause.secs",
    }
)

RESTART: Final = frozenset(
    {
        "topology.message.timeout.secs",
        "topology.acker.executors",
        "topology.debug",
        "topology.blocking",
        "topology.transfer.batch.size",
        "topology.flush.interval.ms",
        "topology.executor.receive.buffer.size",
        "topology.executor.receive.buffer.bytes",
        "topology.disable.loadaware.messaging",
        "topology.localityaware.higher.wait.secs",
        "topology.localityaware.lower.wait.secs",
        "topology.tuple.max.bytes",
        "topology.shellbolt.max.pending",
        "topology.subprocess.timeout.secs",
        "topology.stats.sample.rate",
        "topology.worker.memory.limit.mb",
        "topology.worker.timeout.secs",
        "topology.environment",
        "topology.blobstore.map",
        "topology.testing.always.try.serialize",
        "topology.worker.hooks",
        "topology.auto.task.hooks",
        "topology.event.logger.register",
    }
)

_BY_UPDATE: Final = "'tupletree update NAME FILE' changes what a topology needs, and where it may run"
BY_UPDATE: Final = frozenset(
    {
        "topology.component.cpu.pcore.percent",
        "topology.component.resources.onheap.memory.mb",
        "topology.component.resources.map",
        "topology.worker.max.heap.size.mb",
        "topology.priority",
        *PLACEMENT_KEYS,
        ISOLATE,
    }
)
"""The keys that only an update of the topology changes."""

FIXED: Final[Mapping[str, str]] = {
    **dict.fromkeys(sorted(BY_UPDATE), _BY_UPDATE),
    "topology.workers": "use 'tupletree rebalance NAME --workers N' to change the number of workers",
    "topology.enable.message.timeouts": "whether lost trees are replayed is settled at submission",
    "topology.max.task.parallelism": "the numbers of tasks are settled at submission",
    "topology.tasks": "the numbers of tasks are settled at submission",
    "topology.users": "the rights to a topology are settled at submission",
    "topology.readonly.users": "the rights to a topology are settled at submission",
    "topology.state.provider": "the states that are stored lie with the provider of the submission",
    "topology.state.provider.config": "the states that are stored lie where the submission says",
    "topology.state.id": "the states and checkpoints that are stored lie under the id of the submission",
    "topology.state.savepoint": "a topology begins with a savepoint when it is submitted",
    "topology.state.checkpoint.aligned": "the guarantee of a topology is settled at submission",
    "transactional.zookeeper.root": "the progress that is stored lies where the submission says",
    "transactional.zookeeper.servers": "the progress that is stored lies where the submission says",
    "transactional.zookeeper.port": "the progress that is stored lies where the submission says",
}
"""The reason of each key that cannot be changed."""


def change_of(name: str) -> Change:
    """Return how a key changes in a running topology."""
    if name in LIVE:
        return "live"
    family = name.partition(".")[0]
    if name in KEYS and family not in TOPOLOGY_FAMILIES:
        return "daemon"
    return "restart" if name in RESTART or name not in KEYS else "fixed"


def check_changeable(conf: Mapping[str, Any], remove: Iterable[str] = ()) -> None:
    """Check keys and values that a running topology is to take, and keys that are to return to their first values.

    Raises ConfigError for an unknown key, an invalid value, and a key that cannot be changed.
    """
    validate(conf)
    validate({name: None for name in remove if name not in KEYS})  # raises for an unknown key of a known family
    for name in (*conf, *remove):
        match change_of(name):
            case "daemon":
                raise ConfigError(f"configuration key '{name}' belongs to the cluster; a topology cannot set it")
            case "fixed":
                reason = FIXED.get(name, "its value is settled at submission")
                raise ConfigError(f"configuration key '{name}' cannot be changed in a running topology: {reason}")
            case _:
                pass
