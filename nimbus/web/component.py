"""The response about one component, with Storm's fields."""

from __future__ import annotations  # pure

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote_plus

from tupletree.errors import NotFoundError
from tupletree.v1 import topology_pb2 as pb

from ..leader.scheduler import Slot
from ..statistics.acker_stats import COMPONENT as ACKERS
from ..statistics.counters import Figures
from . import resources
from .formatting import (
    WINDOWS,
    dumps_link,
    encoded,
    number_text,
    percentiles,
    status_name,
    uptime_text,
    window_hint,
    worker_log_link,
)
from .progress import connections
from .topology import Topology, error

_SPOUT = pb.COMPONENT_KIND_SPOUT


def page(
    topology: Topology,
    component_id: str,
    window: str,
    sys: bool,
    user: str,
    profiled: Sequence[tuple[str, int]] = (),
) -> dict[str, Any]:
    """``topology/{id}/component/{component}``. Raises NotFoundError for an unknown component.

    ``profiled``: host and port of each worker that is being profiled.
    """
    component_id = _known(topology, component_id)
    is_spout = topology.kinds.get(component_id) == _SPOUT
    where = _where_ackers(topology) if component_id == ACKERS else _where(topology)
    figures = topology.figures(component_id, window)
    found = {
        "user": user,
        **_identity(topology, component_id, window, is_spout),
        **_inspection(topology, component_id, where, profiled),
        **topology.remark(component_id),
        "componentErrors": [
            error(one, topology) for one in topology.complaints if one.latest.component_id == component_id
        ],
        "outputStats": [_output(figures, one, is_spout) for one in figures.streams(sys)],
        "executorStats": [
            _executor(topology, component_id, one, where, window, sys) for one in topology.executors(component_id)
        ],
    }
    windows = [_in_window(topology, component_id, one, sys, is_spout) for one in WINDOWS]
    if is_spout:
        found["spoutSummary"] = windows
        found["connections"] = connections(topology, component_id)
    else:
        found["boltStats"] = windows
        found["inputStats"] = [_input(figures, one) for one in figures.inputs(sys)]
    return found


def _known(topology: Topology, component_id: str) -> str:
    """Return the component's id, which may still be URL-encoded. Raises NotFoundError."""
    record = topology.record
    for one in (component_id, unquote_plus(component_id)):
        if one in record.tasks or (one == ACKERS and record.acker_shards):
            return one
    known = ", ".join(sorted(record.tasks))
    raise NotFoundError(f"topology '{record.name}' has no component '{component_id[:200]}'; it has {known}")


def _identity(topology: Topology, component_id: str, window: str, is_spout: bool) -> dict[str, Any]:
    record = topology.record
    return {
        "id": component_id,
        "encodedId": encoded(component_id),
        "name": record.name,
        "executors": len(topology.executors(component_id)),
        "tasks": len(topology.tasks(component_id)),
        "topologyId": record.id,
        "encodedTopologyId": encoded(record.id),
        "topologyStatus": status_name(record),
        "window": window,
        "windowHint": window_hint(window),
        "componentType": "spout" if is_spout else "bolt",
        **resources.component_fields(topology.view, record, component_id),
        "schedulerDisplayResource": topology.view.resources.is_on,
        "hasState": any(
            one.id == component_id and one.keeps_state and not is_spout for one in topology.spec.components
        ),
    }


def _inspection(
    topology: Topology,
    component_id: str,
    where: Mapping[int, tuple[str, int, str]],
    profiled: Sequence[tuple[str, int]],
) -> dict[str, Any]:
    """Return the fields about sampling and running profiles."""
    record = topology.record
    sampled = dict(record.sampled_percent)
    executors = topology.executors(component_id) if component_id != ACKERS else ()  # ackers log for all topologies
    own = sorted({where[one.start] for one in executors if one.start in where})
    return {
        "debug": component_id in sampled or "" in sampled,
        "samplingPct": sampled.get(component_id, sampled.get("", 10.0)),
        "eventLogLink": _event_log_link(topology, own),
        "profilingAndDebuggingCapable": True,
        "profileActionEnabled": True,
        "profilerActive": [
            {
                "host": host,
                "port": str(port),
                "dumplink": dumps_link(topology.base, record.id, host, port),
                "timestamp": "",
            }
            for host, port in profiled
        ],
    }


def _in_window(topology: Topology, component_id: str, window: str, sys: bool, is_spout: bool) -> dict[str, Any]:
    figures = topology.figures(component_id, window)
    return {
        "window": window,
        "windowPretty": window_hint(window),
        **_common(figures, sys),
        **_latencies(figures, is_spout),
        **({} if is_spout else {"capacity": number_text(topology.capacity(component_id))}),
        **(
            {"completeLatencyPercentiles": percentiles(figures, "complete"), "timeouts": figures.count("timeouts")}
            if is_spout
            else {"processLatencyPercentiles": percentiles(figures, "process")}
        ),
    }


def _common(figures: Figures, sys: bool) -> dict[str, Any]:
    return {
        "emitted": figures.emitted(sys),
        "transferred": figures.transferred(sys),
        "acked": figures.count("acked"),
        "failed": figures.count("failed"),
    }


def _latencies(figures: Figures, is_spout: bool) -> dict[str, Any]:
    if is_spout:
        return {"completeLatency": number_text(figures.complete_ms)}
    return {
        "executeLatency": number_text(figures.execute_ms),
        "executed": figures.count("executed"),
        "processLatency": number_text(figures.process_ms),
    }


def _output(figures: Figures, stream: str, is_spout: bool) -> dict[str, Any]:
    shown = {
        "stream": stream,
        "emitted": figures.stream(stream, "emitted"),
        "transferred": figures.stream(stream, "transferred"),
    }
    if not is_spout:
        return shown
    return {
        **shown,
        "completeLatency": number_text(figures.stream_complete_ms(stream)),
        "acked": figures.stream(stream, "acked"),
        "failed": figures.stream(stream, "failed"),
    }


def _input(figures: Figures, source: tuple[str, str]) -> dict[str, Any]:
    return {
        "component": source[0],
        "encodedComponentId": encoded(source[0]),
        "stream": source[1],
        "executeLatency": number_text(figures.input_ms(source, "execute_s", "executed")),
        "processLatency": number_text(figures.input_ms(source, "process_s_sum", "process_samples")),
        "executed": figures.input(source, "executed"),
        "acked": figures.input(source, "acked"),
        "failed": figures.input(source, "failed"),
    }


def _where(topology: Topology) -> dict[int, tuple[str, int, str]]:
    """Return the host, port and supervisor id of each executor, by the executor's first task."""
    return {
        run.first_task: (worker.host, worker.port, worker.supervisor_id)
        for worker in topology.view.assignment(topology.record.id).workers
        for run in worker.executors
    }


def _where_ackers(topology: Topology) -> dict[int, tuple[str, int, str]]:
    """Return the host, port and id of the acker of each shard."""
    shards = topology.view.assignment(topology.record.id).shards
    known = {one.shard: topology.view.state.ackers.get(one.acker_id) for one in shards}
    return {shard: (one.host, one.grpc_port, one.id) for shard, one in known.items() if one is not None}


def _uptime_s(topology: Topology, component_id: str, where: tuple[str, int, str]) -> int:
    """Return for how long the process of an executor has been up; 0 if it is not known."""
    view, (_, port, process) = topology.view, where
    if component_id == ACKERS:
        acker = view.state.ackers.get(process)
        return 0 if acker is None else max(0, int(view.now_unix_s - acker.started_unix_s))
    reported = view.leader_state.reports.get((topology.record.id, Slot(process, port)))
    return 0 if reported is None else int(reported.report.uptime_s + view.now_s - reported.at_s)


def _executor(
    topology: Topology,
    component_id: str,
    tasks: range,
    where: dict[int, tuple[str, int, str]],
    window: str,
    sys: bool,
) -> dict[str, Any]:
    view, statistics = topology.view, topology.statistics_of(component_id)
    is_spout, is_worker = topology.kinds.get(component_id) == _SPOUT, component_id != ACKERS
    host, port, process = where.get(tasks.start, ("", 0, ""))
    uptime_s = _uptime_s(topology, component_id, (host, port, process))
    figures = Figures(statistics.task_counts(tasks, WINDOWS[window], view.now_s))
    name = f"[{tasks.start}-{tasks.stop - 1}]"
    return {
        "id": name,
        "encodedId": encoded(name),
        "uptime": uptime_text(uptime_s),
        "uptimeSeconds": uptime_s,
        "host": host,
        "port": port,
        **_common(figures, sys),
        **_latencies(figures, is_spout),
        **({} if is_spout else {"capacity": number_text(statistics.capacity([tasks], view.now_s))}),
        "workerLogLink": worker_log_link(topology.base, topology.record.id, host, port) if host and is_worker else "",
        "supervisorId": process if is_worker else "",
        **statistics.gauges(tasks),
    }


def _event_log_link(topology: Topology, where: list[tuple[str, int, str]]) -> str:
    """Return the link to the sampled tuples of the component's first worker; empty if there is no worker."""
    if not where:
        return ""
    host, port, _ = where[0]
    return worker_log_link(topology.base, topology.record.id, host, port, "events.jsonl")
