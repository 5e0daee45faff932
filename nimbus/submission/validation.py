"""Validation of a submission, and the record created from it.

Clients check the same, and in more detail, while a topology is built, but nimbus does not trust clients. Everything is
checked before the first byte of the bundle is read, except one thing: that the bundle contains the topology that the
header describes.
"""

from __future__ import annotations  # pure

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from tupletree import config
from tupletree._checkpoints.settings import check_settings
from tupletree._constraints import check_placement
from tupletree._coord.forms import encode
from tupletree._definition import Definition, Input
from tupletree._limits import (
    MAX_COMPONENTS,
    MAX_FIELDS,
    MAX_INPUTS,
    MAX_STREAMS,
    MAX_TASKS,
    component_id_fault,
    is_within,
    name_fault,
    parse_conf,
    shown,
)
from tupletree.declarer import check_input
from tupletree.errors import ConfigError, NameInUseError, TopologyError, UsageError
from tupletree.outputs import CHECKPOINT_STREAM, REPORT_STREAM, Stream
from tupletree.parallelism import component_needs, executor_counts, task_counts
from tupletree.topology import check_topology_name
from tupletree.v1 import nimbus_pb2 as rpc
from tupletree.v1 import topology_pb2 as pb

from ..acker_shards import MAX_SHARDS, shards_of
from ..conf_changes import MAX_RECORD_BYTES
from ..leader.autoscale_settings import check_autoscale
from ..leader.lifecycle import ACTIVE, INACTIVE, KILLED, MAX_EXECUTORS, MAX_WORKERS

_SHA256 = re.compile(r"[0-9a-f]{64}")
_MAX_AMOUNT = 1e12  # of a resource, for one executor
_SPOUT = pb.COMPONENT_KIND_SPOUT
_BOLT = pb.COMPONENT_KIND_BOLT


def check_name(name: str, records: Iterable[pb.TopologyRecord], now_unix_s: float) -> None:
    """Reject a name that a topology has already. Raises NameInUseError."""
    for record in records:
        if record.name != name:
            continue
        if record.status == KILLED:
            left_s = max(1, math.ceil(record.pending.due_unix_s - now_unix_s))
            raise NameInUseError(
                f"topology '{name}' was killed and is still ending: it is gone when its tuples in flight are done, in "
                f"{left_s} s at the latest; submit again then, or run 'tupletree kill {name} --wait 0' first"
            )
        raise NameInUseError(f"a topology named '{name}' exists already; kill it first or choose another name")


def check_unreadable(name: str, unreadable: Mapping[str, str]) -> None:
    """Reject the name of a topology whose record cannot be read. ``unreadable``: reasons, by topology id.

    Raises:
        NameInUseError: there is such a topology.
    """
    for one, why in unreadable.items():
        if one.rsplit("-", 2)[0] == name:
            raise NameInUseError(f"a topology named '{name}' exists already, and its record cannot be read: {why}")


def check_header(header: rpc.SubmitHeader, max_bundle_bytes: int) -> None:
    """Reject a submission that cannot succeed. Raises UsageError or a subclass, with a message of one sentence."""
    check_topology_name(header.name)
    if not _SHA256.fullmatch(header.sha256):
        raise UsageError(f"the bundle's sha256 is 64 hexadecimal digits, not {shown(header.sha256)}")
    if header.owner and (fault := name_fault(header.owner)):
        raise UsageError(f"the owner of a topology {fault}")
    if not 0 < header.size <= max_bundle_bytes:
        raise UsageError(
            f"the bundle has {header.size} bytes; the cluster accepts 1 to {max_bundle_bytes} (nimbus.max.bundle.bytes)"
        )
    config.validate(parse_conf(header.conf_json, "the topology's configuration"))
    check_spec(header.spec)


def new_record(
    header: rpc.SubmitHeader, cluster_conf: Mapping[str, Any], topology_id: str, now_unix_s: float
) -> pb.TopologyRecord:
    """Create the record of a checked submission.

    ``cluster_conf``: nimbus's configuration, which supplies the defaults. Raises UsageError if the topology is too
    large, or if its settings cannot work with its states or transactions.
    """
    own = config.topology_part(parse_conf(header.conf_json, "the topology's configuration"))
    conf = {**config.topology_part(cluster_conf), **own}
    tasks, executors = task_counts(header.spec, conf), executor_counts(header.spec, conf)
    workers = int(conf["topology.workers"])
    shards = shards_of(conf, workers)
    _check_counts(header.name, workers, executors, tasks, shards)
    _check_progress_root(header.name, conf, cluster_conf)
    check_autoscale(conf, executors, tasks, workers, header.spec)
    check_placement(conf, tasks, header.name)
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
        acker_shards=shards,
        needs=component_needs(header.spec, conf),
    )
    _check_amounts(record)
    if cluster_conf.get("nimbus.scheduler") == "resource":
        _check_needs(record, conf)
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
    """Return an id that no other topology has or will have."""
    return f"{name}-{counter}-{int(now_unix_s)}"


def without_objects(spec: pb.TopologySpec) -> pb.TopologySpec:
    """Return the spec as sent in a header, without the fields that only workers use."""
    outline = pb.TopologySpec()
    outline.CopyFrom(spec)
    outline.ClearField("worker_hooks")
    for component in outline.components:
        component.ClearField("object")
        for one in component.inputs:
            one.ClearField("custom")
    return outline


def check_spec(spec: pb.TopologySpec) -> None:
    """Reject a spec that cannot run. Raises TopologyError with component and field."""
    _check_extent(spec)
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


def _check_extent(spec: pb.TopologySpec) -> None:
    for count, limit, what in (
        (len(spec.components), MAX_COMPONENTS, "components"),
        (sum(len(component.outputs) for component in spec.components), MAX_STREAMS, "streams"),
        (sum(len(component.inputs) for component in spec.components), MAX_INPUTS, "subscriptions"),
        (
            sum(len(stream.fields) for component in spec.components for stream in component.outputs)
            + sum(len(one.fields) for component in spec.components for one in component.inputs),
            MAX_FIELDS,
            "fields",
        ),
    ):
        if count > limit:
            raise TopologyError(f"the topology has {count} {what}; the limit is {limit}")


def _definition(component: pb.ComponentSpec) -> Definition:
    if fault := component_id_fault(component.id):
        raise TopologyError(f"a component id {fault}", component=component.id, field="id")
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
    conf = parse_conf(component.conf_json, f"the configuration of component '{component.id}'")
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
        if fault := name_fault(stream.id):
            _refuse(component, "outputs", f"the id of a stream {fault}")
        if stream.id in outputs:
            _refuse(component, stream.id, f"its stream '{stream.id}' is declared twice")
        for field in stream.fields:
            if fault := name_fault(field):
                _refuse(component, stream.id, f"a field of its stream '{stream.id}' {fault}")
        if len(set(stream.fields)) < len(stream.fields):
            _refuse(component, stream.id, f"its stream '{stream.id}' has a field twice")
        outputs[stream.id] = Stream(stream.id, tuple(stream.fields), stream.direct)
    return outputs


def _inputs(component: pb.ComponentSpec) -> list[Input]:
    inputs = []
    for one in component.inputs:
        if one.grouping not in pb.GroupingKind.values() or one.grouping == pb.GROUPING_KIND_UNSPECIFIED:
            _refuse(component, one.source[:100], f"its subscription to {shown(one.source)} has no known grouping")
        inputs.append(Input(one.source, one.stream, one.grouping, tuple(one.fields)))
    return inputs


def _check_counts(name: str, workers: int, executors: Mapping[str, int], tasks: Mapping[str, int], shards: int) -> None:
    for count, limit, what in (
        (workers, MAX_WORKERS, "workers (topology.workers)"),
        (sum(executors.values()), MAX_EXECUTORS, "executors"),
        (sum(tasks.values()), MAX_TASKS, "tasks"),
        (shards, MAX_SHARDS, "acker shards (topology.acker.executors)"),
    ):
        if count > limit:
            raise UsageError(f"topology '{name}' asks for {count} {what}; the limit is {limit}")


def _check_amounts(record: pb.TopologyRecord) -> None:
    """Refuse amounts whose sum over all executors could be infinite, which no response can hold."""
    for name, needs in sorted(record.needs.items()):
        largest = max(needs.cpu_percent, needs.memory_mb, *needs.resources.values())
        if largest > _MAX_AMOUNT:
            raise UsageError(
                f"topology '{record.name}': an executor of component '{name}' needs {largest:g} of a resource; the "
                f"limit is {_MAX_AMOUNT:g}"
            )


def _check_needs(record: pb.TopologyRecord, conf: Mapping[str, Any]) -> None:
    limit = float(conf["topology.worker.max.heap.size.mb"])
    for name, needs in sorted(record.needs.items()):
        if needs.memory_mb > limit:
            raise UsageError(
                f"topology '{record.name}': an executor of component '{name}' needs {needs.memory_mb:g} MB, and a "
                f"worker may have {limit:g}: set topology.worker.max.heap.size.mb to {needs.memory_mb:g} or more"
            )


def _check_size(record: pb.TopologyRecord) -> None:
    size = len(encode(record))
    if size > MAX_RECORD_BYTES:
        raise UsageError(
            f"topology '{record.name}' takes {size} bytes in ZooKeeper with its configuration and the names of its "
            f"components; the limit is {MAX_RECORD_BYTES}: make its configuration smaller"
        )


def _check_progress_root(name: str, conf: Mapping[str, Any], cluster_conf: Mapping[str, Any]) -> None:
    """Reject a topology that stores its progress in the cluster's own nodes, which nimbus reads and writes.

    The path in the cluster's configuration is the operator's choice and is accepted. So is any path at another
    ensemble, where nimbus has no nodes.
    """
    key = "transactional.zookeeper.root"
    is_elsewhere = conf["transactional.zookeeper.servers"] or conf["transactional.zookeeper.port"]
    if is_elsewhere or conf[key] == cluster_conf[key]:
        return
    root = str(cluster_conf["zookeeper.root"])
    if is_within(conf[key], root) or is_within(root, conf[key]):
        raise UsageError(
            f"topology '{name}': {key} {shown(conf[key])} overlaps the cluster's own nodes (zookeeper.root '{root}'); "
            f"name a node beside them, such as '{cluster_conf[key]}'"
        )


def _refuse(component: pb.ComponentSpec, field: str, fault: str) -> NoReturn:
    raise TopologyError(f"component '{component.id}': {fault}", component=component.id, field=field)
