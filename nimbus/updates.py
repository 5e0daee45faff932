"""Updates of a running topology: other code for the same topology, and the way back.

    ACTIVE --update--> REBALANCING --(due)--> ACTIVE, on trial --(all workers ready)--> ACTIVE
                                                    |
                                                    +--(a worker cannot start)--> REBALANCING --> ACTIVE, as before

``TopologyVersion`` holds what an update replaces. The record holds the version that runs, in its own fields, and the
one before it (``previous``), whose bundle every nimbus keeps. A rollback exchanges the two. States, positions, the
progress of transactions and the topology id stay (docs/adr/0052).

**What operators have changed stays**, unless the new version changes it too: keys of the configuration, workers,
executors and tasks are compared with what the version that runs was submitted with.
"""

from __future__ import annotations  # pure

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tupletree import config
from tupletree._checkpoints.settings import ALIGNED, SAVEPOINT, check_interval, is_in_checkpoints
from tupletree._checkpoints.steps import CHECKPOINT_SPOUT
from tupletree._wire.names import is_system
from tupletree.config.changes import BY_UPDATE, FIXED
from tupletree.errors import UsageError
from tupletree.outputs import REPORT_STREAM
from tupletree.parallelism import executor_counts, task_counts
from tupletree.state.options import CONFIG, DURABLE, PROVIDER
from tupletree.v1 import topology_pb2 as pb

from .acker_shards import check_follows, follow
from .conf_changes import check_record_size
from .masking import masked

_CHANGING: Final = BY_UPDATE | {"topology.workers", "topology.tasks", "topology.max.task.parallelism"}
_FIELDS: Final = (
    "bundle_sha256", "bundle_bytes", "conf_json", "submitted_conf", "live_keys", "workers", "executors", "tasks",
    "needs",
)  # fmt: skip


@dataclass(frozen=True)
class Update:
    base: pb.TopologyRecord  # from which the version was made
    version: pb.TopologyVersion
    wait_s: float | None  # None: the topology's message timeout


@dataclass(frozen=True)
class Rollback:
    wait_s: float | None


@dataclass(frozen=True)
class Differences:
    """The differences between what runs and an update, for the user to see. All ascending."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    conf_keys: tuple[str, ...]


def version_of(record: pb.TopologyRecord) -> pb.TopologyVersion:
    """Return the version that a topology runs."""
    version = pb.TopologyVersion(number=record.version)
    _copy(record, version)
    return version


def needed_versions(record: pb.TopologyRecord) -> list[pb.TopologyVersion]:
    """Return what a topology runs, and what it will go on with."""
    return [version_of(record), *([record.pending.update] if record.pending.HasField("update") else ())]


def versions_of(record: pb.TopologyRecord) -> list[pb.TopologyVersion]:
    """Return what a topology runs, what it will go on with, and what it can go back to: each has a bundle."""
    versions = needed_versions(record)
    versions += [getattr(record, name) for name in ("previous", "earlier") if record.HasField(name)]
    return versions


def next_version(
    record: pb.TopologyRecord, running: pb.TopologySpec, fresh: pb.TopologyRecord, spec: pb.TopologySpec
) -> pb.TopologyVersion:
    """Return the version that a topology is updated to, with what operators have changed in the one that runs.

    ``running`` and ``spec``: the outlines of what runs and of the update. ``fresh``: the record that the update would
    have as a submission.
    """
    version = pb.TopologyVersion(number=record.last_version + 1)
    _copy(fresh, version)
    conf, submitted = json.loads(record.conf_json or "{}"), _submitted(record)
    asked = json.loads(fresh.conf_json or "{}")
    for name in record.submitted_conf:
        if asked.get(name) == submitted.get(name) and (name in asked) == (name in submitted):
            version.submitted_conf[name] = record.submitted_conf[name]
            if name in conf:
                asked[name] = conf[name]
            else:
                asked.pop(name, None)
    if SAVEPOINT in conf:
        asked[SAVEPOINT] = conf[SAVEPOINT]  # restored once, when the topology began
    version.conf_json = config.encode_conf(asked)
    version.live_keys.extend(name for name in record.live_keys if name in version.submitted_conf)
    if fresh.workers == int(submitted.get("topology.workers", 1)):
        version.workers = record.workers
    tasks, executors = task_counts(running, submitted), executor_counts(running, submitted)
    for component in spec.components:
        name = component.id
        if name in record.tasks and fresh.tasks[name] == tasks.get(name):
            version.tasks[name] = record.tasks[name]
            if fresh.executors[name] == executors.get(name):
                version.executors[name] = record.executors[name]
        version.executors[name] = min(version.executors[name], version.tasks[name])
    return version


def differences(record: pb.TopologyRecord, version: pb.TopologyVersion) -> Differences:
    """Return what changes between what runs and a version."""
    now, then = json.loads(record.conf_json or "{}"), json.loads(version.conf_json or "{}")
    keys = sorted(key for key in now.keys() | then.keys() if now.get(key) != then.get(key))
    added = sorted(one for one in version.tasks if one not in record.tasks and not is_system(one))
    removed = sorted(one for one in record.tasks if one not in version.tasks and not is_system(one))
    return Differences(tuple(added), tuple(removed), tuple(keys))


def state_versions(spec: pb.TopologySpec) -> dict[str, int]:
    """Return the ``state_version`` of each component with a state; 1 where nothing is said."""
    return {one.id: max(one.state_version, 1) for one in spec.components if one.keeps_state}


def migrated(running: pb.TopologySpec, spec: pb.TopologySpec) -> list[str]:
    """Return the components whose ``state_version`` is higher in ``spec``, whose values are migrated; ascending."""
    before, after = state_versions(running), state_versions(spec)
    return sorted(id for id, version in after.items() if version > before.get(id, version))


def is_same(record: pb.TopologyRecord, version: pb.TopologyVersion) -> bool:
    """True if an update to this version changes nothing."""
    there = version_of(record)
    there.number = version.number
    return there == version


def changed_tasks(record: pb.TopologyRecord, version: pb.TopologyVersion) -> list[str]:
    """Return the components that both have, with another number of tasks; ascending."""
    return sorted(one for one, count in version.tasks.items() if record.tasks.get(one, count) != count)


def check_update(
    record: pb.TopologyRecord,
    running: pb.TopologySpec,
    version: pb.TopologyVersion,
    spec: pb.TopologySpec,
    cluster_conf: Mapping[str, Any],
    drop_states: Collection[str] = (),
) -> None:
    """Check that a topology can go on with another version where the one that runs ends. Raises UsageError.

    ``running`` and ``spec``: the outlines of what runs and of the version. ``cluster_conf``: what holds where the
    topology says nothing. ``drop_states``: components whose states may be discarded. Components with another number of
    tasks are checked elsewhere (``changed_tasks``).
    """
    if _is_transactional(running) != _is_transactional(spec):
        what = "transactional" if _is_transactional(running) else "not transactional"
        raise UsageError(
            f"topology '{record.name}' is {what}, and an update cannot change that: kill it and submit the new one"
        )
    _check_conf(record, version)
    before = {component.id: component for component in running.components}
    after = {component.id: component for component in spec.components}
    conf = {**cluster_conf, **json.loads(version.conf_json)}
    is_aligned = CHECKPOINT_SPOUT in record.tasks and bool(conf.get(ALIGNED))
    for name, component in before.items():
        if name in after:
            _check_component(component, after[name], max(record.tasks[name], version.tasks[name]))
        is_stored = is_in_checkpoints(component, is_aligned)
        if is_stored and name in after:
            _check_place(component, after[name], conf)
        if is_stored and name not in drop_states:
            _check_kept(component, name in after, conf)
    if CHECKPOINT_SPOUT in version.tasks:
        check_interval(json.loads(version.conf_json))
    back = updated(record, version, 1.0)
    check_follows(record, back)
    back.pending.update.CopyFrom(back.previous)  # on the way back the record is at its largest
    check_record_size(back)


def goes_back(record: pb.TopologyRecord) -> bool:
    """True if a rollback brings the version before back. While an update waits, it withdraws that instead."""
    return record.HasField("previous") and not record.pending.HasField("update")


def updated(record: pb.TopologyRecord, version: pb.TopologyVersion, trial_began_unix_s: float) -> pb.TopologyRecord:
    """Return the record of a topology that goes on with a version. ``trial_began_unix_s``: 0 without a trial.

    Its tasks have new ids, so that nothing of the workers before reaches the new ones.
    """
    after = pb.TopologyRecord()
    after.CopyFrom(record)
    after.ClearField("pending")
    after.ClearField("earlier")
    if not record.pending.is_taken_back:
        after.previous.CopyFrom(version_of(record))
    elif record.HasField("earlier"):
        after.previous.CopyFrom(record.earlier)
    else:
        after.ClearField("previous")
    if trial_began_unix_s and record.HasField("previous"):
        after.earlier.CopyFrom(record.previous)
    for name in _FIELDS:
        after.ClearField(name)
    _copy(version, after)
    follow(after, json.loads(record.conf_json or "{}"))
    after.version = version.number
    after.last_version = max(record.last_version, version.number)
    after.trial_began_unix_s = trial_began_unix_s
    after.first_task = (record.first_task or 1) + sum(record.tasks.values())
    return after


def _copy(source: pb.TopologyRecord | pb.TopologyVersion, target: pb.TopologyRecord | pb.TopologyVersion) -> None:
    for name in _FIELDS:
        value = getattr(source, name)
        if isinstance(value, str | int | float):
            setattr(target, name, value)
        elif isinstance(value, Mapping):
            getattr(target, name).MergeFrom(value)
        else:
            getattr(target, name).extend(value)


def _submitted(record: pb.TopologyRecord) -> dict[str, Any]:
    """Return the configuration that the version that runs was submitted with."""
    conf = json.loads(record.conf_json or "{}")
    for name, text in record.submitted_conf.items():
        if text:
            conf[name] = json.loads(text)
        else:
            conf.pop(name, None)
    return dict(conf)


def _is_transactional(spec: pb.TopologySpec) -> bool:
    return any(stream.id == REPORT_STREAM for component in spec.components for stream in component.outputs)


def _check_conf(record: pb.TopologyRecord, version: pb.TopologyVersion) -> None:
    now, then = json.loads(record.conf_json or "{}"), json.loads(version.conf_json or "{}")
    for name in sorted(FIXED.keys() - _CHANGING):
        if now.get(name) != then.get(name):
            was, will = (json.dumps(masked({name: conf.get(name)})[name]) for conf in (now, then))
            raise UsageError(
                f"topology '{record.name}' has {name} {was}, and an update cannot make it {will}: {FIXED[name]}"
            )


def _check_place(before: pb.ComponentSpec, after: pb.ComponentSpec, conf: Mapping[str, Any]) -> None:
    """Check that a component has no other place of its own for its state. ``conf``: the topology's."""
    then, now = ({**conf, **json.loads(one.conf_json or "{}")} for one in (before, after))
    for name in (PROVIDER, CONFIG):
        if then.get(name) != now.get(name):
            was, will = (json.dumps(masked({name: own.get(name)})[name]) for own in (then, now))
            raise UsageError(
                f"component '{after.id}' has {name} {was}, and an update cannot make it {will}: {FIXED[name]}"
            )


def _check_kept(component: pb.ComponentSpec, is_there: bool, conf: Mapping[str, Any]) -> None:
    if not is_there:
        raise UsageError(
            f"component '{component.id}' keeps a state and is not in the update, so its state would be discarded: keep "
            f"the component, or name it with --drop-state"
        )
    own = json.loads(component.conf_json or "{}")
    if ({**conf, **own}.get("topology.state.provider") or "memory") == "memory":
        raise UsageError(
            f"component '{component.id}' keeps its state in the memory of its workers, which an update replaces: name "
            f"it with --drop-state, or {DURABLE}, when you submit the topology"
        )


def _check_component(before: pb.ComponentSpec, after: pb.ComponentSpec, tasks: int) -> None:
    if before.kind != after.kind:
        was, will = ("spout", "bolt") if before.kind == pb.COMPONENT_KIND_SPOUT else ("bolt", "spout")
        raise UsageError(f"component '{after.id}' is a {was}, and a {will} in the update: give the {will} another id")
    if before.keeps_state and not after.keeps_state:
        raise UsageError(
            f"component '{after.id}' keeps a state, which the update would leave behind: keep it, or give the new "
            f"component another id"
        )
    if before.state_form and after.state_form and before.state_form != after.state_form:
        raise UsageError(
            f"component '{after.id}' has stored what a {before.state_form} stores, which a {after.state_form} cannot "
            f"read: give the new component another id"
        )
    keys, keys_after = _keys(before), _keys(after)
    if after.keeps_state and after.kind == pb.COMPONENT_KIND_BOLT and keys != keys_after and tasks > 1:
        raise UsageError(
            f"component '{after.id}' keeps its state by {_listed(keys)}, and the update groups its inputs by "
            f"{_listed(keys_after)}: entries would be looked for in other tasks; keep the fields, or give the new "
            f"component another id"
        )


def _keys(component: pb.ComponentSpec) -> list[tuple[str, ...]]:
    """Return the fields of each fields grouping of a component."""
    return sorted({tuple(one.fields) for one in component.inputs if one.grouping == pb.GROUPING_KIND_FIELDS})


def _listed(keys: Sequence[tuple[str, ...]]) -> str:
    return " and ".join(f"({', '.join(fields)})" for fields in keys) or "no field"
