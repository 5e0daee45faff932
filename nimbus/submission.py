"""What a submission must be like, and the record it becomes.

Clients check the same, and better, while a topology is built; nimbus trusts none of them. Everything is checked before
the first byte of the bundle is asked for, except that the bundle holds the very topology that its header describes.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from tupletree import config
from tupletree._coord.forms import encode
from tupletree.declarer import Definition, Input, check_input
from tupletree.errors import ConfigError, NameInUseError, TopologyError, UsageError
from tupletree.outputs import CHECKPOINT_STREAM, REPORT_STREAM, Stream
from tupletree.parallelism import executor_counts, task_counts
from tupletree.state.settings import check_settings
from tupletree.topology import check_topology_name
from tupletree.v1 import nimbus_pb2 as rpc
from tupletree.v1 import topology_pb2 as pb

from .lifecycle import ACTIVE, INACTIVE, KILLED, MAX_EXECUTORS, MAX_WORKERS

# A rebalance writes record and assignment together, in a message of at most 1 MiB.
MAX_RECORD_BYTES = 600_000
MAX_TASKS = 100_000
MAX_SHARDS = 2000
MAX_CONF_BYTES = 256 * 1024

_SHA256 = re.compile(r"[0-9a-f]{64}")
_SPOUT = pb.COMPONENT_KIND_SPOUT
_BOLT = pb.COMPONENT_KIND_BOLT


def check_name(name: str, records: Iterable[pb.TopologyRecord], now_unix_s: float) -> None:
    """Refuse a name that a topology has. Raises NameInUseError."""
    for record in records:
        if record.name != name:
            continue
        if record.status == KILLED:
            left_s = max(1, math.ceil(record.pending.due_unix_s - now_unix_s))
            raise NameInUseError(
                f"topology '{name}' was killed and is still ending: it is gone when its tuples in flight are done, in "
                f"{left_s} s at the latest; submit it then, or 'tupletree kill {name} --wait 0' first"
            )
        raise NameInUseError(f"a topology named '{name}' exists already; kill it first or choose another name")


def check_header(header: rpc.SubmitHeader, max_bundle_bytes: int) -> None:
    """Refuse a submission that cannot succeed. Raises UsageError of one kind or another, in one sentence."""
    check_topology_name(header.name)
    if not _SHA256.fullmatch(header.sha256):
        raise UsageError(f"the bundle's sha256 is 64 hexadecimal digits, not {header.sha256!r}")
    if not 0 < header.size <= max_bundle_bytes:
        raise UsageError(
            f"the bundle has {header.size} bytes; this cluster takes 1 to {max_bundle_bytes} (nimbus.max.bundle.bytes)"
        )
    conf = _conf(header.conf_json, "the topology's configuration")
    config.validate(conf)
    check_spec(header.spec)


def new_record(
    header: rpc.SubmitHeader, cluster_conf: Mapping[str, Any], topology_id: str, now_unix_s: float
) -> pb.TopologyRecord:
    """The record of a checked submission. ``cluster_conf``: nimbus's own, with defaults for what the topology leaves
    open. Raises UsageError if the topology is too large, or has states or transactions
    with settings that cannot work."""
    conf = {**config.topology_part(cluster_conf), **config.topology_part(_conf(header.conf_json, "configuration"))}
    tasks, executors = task_counts(header.spec, conf), executor_counts(header.spec, conf)
    workers = int(conf["topology.workers"])
    shards = conf["topology.acker.executors"]
    record = pb.TopologyRecord(
        id=topology_id,
        name=header.name,
        status=INACTIVE if header.inactive else ACTIVE,
        conf_json=config.encode_conf(conf),
        bundle_sha256=header.sha256,
        bundle_bytes=header.size,
        submitted_unix_s=now_unix_s,
        owner=header.owner,
        workers=workers,
        executors=executors,
        tasks=tasks,
        acker_shards=workers if shards is None else int(shards),
    )
    _check_size(record)
    if record.acker_shards == 0 and _has_stream(header.spec, REPORT_STREAM):
        raise UsageError(
            f"topology '{record.name}' is transactional and has topology.acker.executors 0: without ackers it cannot "
            "tell when a batch is complete"
        )
    if _has_stream(header.spec, CHECKPOINT_STREAM):
        check_settings(conf)
    return record


def _has_stream(spec: pb.TopologySpec, name: str) -> bool:
    return any(stream.id == name for component in spec.components for stream in component.outputs)


def topology_id(name: str, counter: int, now_unix_s: float) -> str:
    """An id that no other topology has or will have."""
    return f"{name}-{counter}-{int(now_unix_s)}"


def without_objects(spec: pb.TopologySpec) -> pb.TopologySpec:
    """The spec as a header carries it: what only workers use is left out."""
    outline = pb.TopologySpec()
    outline.CopyFrom(spec)
    for component in outline.components:
        component.ClearField("object")
        for one in component.inputs:
            one.ClearField("custom")
    return outline


def check_spec(spec: pb.TopologySpec) -> None:
    """Refuse a spec that cannot run. Raises TopologyError with component and field."""
    if not any(component.kind == _SPOUT for component in spec.components):
        raise TopologyError("the topology has no spout")
    definitions: dict[str, Definition] = {}
    for component in spec.components:
        if component.id in definitions:
            _refuse(component, "id", "its id is used twice")
        definitions[component.id] = _definition(component)
    if list(definitions) != sorted(definitions):
        raise TopologyError("the topology's components are not in ascending order of their ids")
    for definition in definitions.values():
        for one in definition.inputs:
            emitter = definitions.get(one.source)
            if emitter is None:
                raise TopologyError(
                    f"component '{definition.id}' subscribes to '{one.source}', which does not exist",
                    component=definition.id,
                    field=one.source,
                )
            check_input(definition, one, emitter)


def _definition(component: pb.ComponentSpec) -> Definition:
    if not component.id or "/" in component.id:
        _refuse(component, "id", "its id is empty or has a '/'")
    if component.kind not in {_SPOUT, _BOLT}:
        _refuse(component, "kind", "it is neither a spout nor a bolt")
    if component.kind == _SPOUT and any(one.stream != CHECKPOINT_STREAM for one in component.inputs):
        _refuse(component, "inputs", "a spout has no inputs but the steps of checkpoints")
    if component.parallelism < 1:
        _refuse(component, "parallelism", "it needs at least one executor")
    if component.tasks < component.parallelism:
        _refuse(
            component, "tasks", f"{component.tasks} tasks cannot occupy {component.parallelism} executors, one each"
        )
    conf = _conf(component.conf_json, f"the configuration of component '{component.id}'")
    try:
        config.validate_component(conf)
    except ConfigError as error:
        _refuse(component, "configuration", str(error))
    return Definition(
        component.id, component.kind, None, component.parallelism, _outputs(component), _inputs(component), conf
    )


def _outputs(component: pb.ComponentSpec) -> dict[str, Stream]:
    outputs: dict[str, Stream] = {}
    for stream in component.outputs:
        if stream.id in outputs or not stream.id:
            _refuse(component, stream.id, f"its stream '{stream.id}' is declared twice or has no name")
        if len(set(stream.fields)) < len(stream.fields):
            _refuse(component, stream.id, f"its stream '{stream.id}' has a field twice")
        outputs[stream.id] = Stream(stream.id, tuple(stream.fields), stream.direct)
    return outputs


def _inputs(component: pb.ComponentSpec) -> list[Input]:
    inputs = []
    for one in component.inputs:
        if one.grouping not in pb.GroupingKind.values() or one.grouping == pb.GROUPING_KIND_UNSPECIFIED:
            _refuse(component, one.source, f"its subscription to '{one.source}' has no known grouping")
        inputs.append(Input(one.source, one.stream, one.grouping, tuple(one.fields)))
    return inputs


def _conf(text: str, what: str) -> dict[str, Any]:
    size = len(text.encode())
    if size > MAX_CONF_BYTES:
        raise UsageError(f"{what} has {size} bytes; {MAX_CONF_BYTES} are allowed")
    try:
        conf = json.loads(text or "{}")
    except ValueError:
        raise UsageError(f"{what} is not JSON") from None
    if not isinstance(conf, dict):
        raise UsageError(f"{what} is not a JSON object")
    return conf


def _check_size(record: pb.TopologyRecord) -> None:
    for count, limit, what in (
        (record.workers, MAX_WORKERS, "workers (topology.workers)"),
        (sum(record.executors.values()), MAX_EXECUTORS, "executors"),
        (sum(record.tasks.values()), MAX_TASKS, "tasks"),
        (record.acker_shards, MAX_SHARDS, "acker shards (topology.acker.executors)"),
    ):
        if count > limit:
            raise UsageError(f"topology '{record.name}' asks for {count} {what}; the limit is {limit}")
    size = len(encode(record))
    if size > MAX_RECORD_BYTES:
        raise UsageError(
            f"topology '{record.name}' takes {size} bytes in ZooKeeper with its configuration and the names of its "
            f"components; the limit is {MAX_RECORD_BYTES}: make its configuration smaller"
        )


def _refuse(component: pb.ComponentSpec, field: str, fault: str) -> NoReturn:
    raise TopologyError(f"component '{component.id}': {fault}", component=component.id, field=field)
