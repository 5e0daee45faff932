"""Traffic between components: metrics by stream, and the graph drawn by Storm's UI."""

from __future__ import annotations  # pure

import re
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote

from tupletree._wire.names import is_system
from tupletree.v1 import topology_pb2 as pb

from ..leader.scheduler import Slot
from ..statistics.counters import Figures
from .formatting import WINDOWS, number_text, percentiles, window_hint
from .topology import Topology

_SPOUT: Final = pb.COMPONENT_KIND_SPOUT
_BOLT: Final = pb.COMPONENT_KIND_BOLT
_BOXES_IN_A_ROW: Final = 4


def metrics(topology: Topology, window: str, sys: bool) -> dict[str, Any]:
    """``topology/{id}/metrics``: every component by stream."""
    return {
        "window": window,
        "windowHint": window_hint(window),
        "window-hint": window_hint(window),
        "spouts": [_spout(one, topology.figures(one, window), sys) for one in topology.components(_SPOUT, sys)],
        "bolts": [_bolt(one, topology.figures(one, window), sys) for one in topology.components(_BOLT, sys)],
    }


def boxes(topology: Topology, sys: bool) -> dict[str, Any]:
    """``topology/{id}/visualization-init``: a check box per stream, in rows."""
    names = sorted({one.stream for component in topology.spec.components for one in component.inputs})
    shown = [
        {"stream": one, "sani-stream": sanitized(one), "checked": not is_system(one)}
        for one in names
        if sys or not is_system(one)
    ]
    return {
        "visualizationTable": [
            {":row": shown[start : start + _BOXES_IN_A_ROW]} for start in range(0, len(shown), _BOXES_IN_A_ROW)
        ]
    }


def graph(topology: Topology, window: str, sys: bool) -> dict[str, Any]:
    """``topology/{id}/visualization``: every component with its inputs and its executors' transferred tuples."""
    return {
        one: _node(topology, one, window, sys) for kind in (_SPOUT, _BOLT) for one in topology.components(kind, sys)
    }


def sanitized(stream: str) -> str:
    """Return a stream's name in the form that Storm's UI uses for element ids."""
    name = re.sub(r"[^A-Za-z_\-:.]", "_", stream)
    return name if name[:1].isalpha() else f"_s{name}"


def _node(topology: Topology, component_id: str, window: str, sys: bool) -> dict[str, Any]:
    is_spout = topology.kinds.get(component_id) == _SPOUT
    figures = topology.figures(component_id, window)
    spec = next(one for one in topology.spec.components if one.id == component_id)
    rates = topology.statistics.rates(topology.tasks(component_id), topology.view.now_s)
    transferred = {one: figures.stream(one, "transferred") for one in figures.streams(sys)}
    return {
        ":type": "spout" if is_spout else "bolt",
        ":capacity": 0 if is_spout else round(topology.capacity(component_id), 3),
        ":latency": _latencies(figures, is_spout, sys),
        ":transferred": transferred,
        ":stats": _executors(topology, component_id, window, transferred, sys),
        ":link": f"/component.html?id={quote(component_id, safe='')}&topology_id={quote(topology.record.id, safe='')}",
        ":inputs": [
            {
                ":component": one.source,
                ":stream": one.stream,
                ":sani-stream": sanitized(one.stream),
                ":grouping": pb.GroupingKind.Name(one.grouping).removeprefix("GROUPING_KIND_").lower(),
            }
            for one in spec.inputs
            if sys or not is_system(one.stream)
        ],
        "outputs": [
            {"stream": one.id, "fields": list(one.fields), "direct": one.direct}
            for one in spec.outputs
            if sys or not is_system(one.id)
        ],
        "emittedPerSecond": round(rates.emitted, 3),
        "executedPerSecond": round(rates.executed, 3),
        "ackedPerSecond": round(rates.acked, 3),
        "failed": figures.count("failed"),
        "percentiles": percentiles(figures, "complete" if is_spout else "process"),
        **topology.statistics.gauges(topology.tasks(component_id)),
    }


def _latencies(figures: Figures, is_spout: bool, sys: bool) -> dict[str, float]:
    """Return latencies in milliseconds: per emitted stream of a spout, per received stream of a bolt."""
    if is_spout:
        return {one: round(figures.stream_complete_ms(one), 3) for one in figures.streams(sys)}
    return {
        f"{source}:{stream}": round(figures.input_ms((source, stream), "process_s_sum", "process_samples"), 3)
        for source, stream in figures.inputs(sys)
    }


def _executors(
    topology: Topology, component_id: str, window: str, transferred: dict[str, int], sys: bool
) -> list[dict[str, Any]]:
    """Return each executor's transferred tuples, by stream.

    Per executor and window only the sum over all streams is kept. Each stream's count is therefore split among the
    executors in proportion to their sums, which is exact for a component with a single stream.
    """
    where = {
        run.first_task: worker
        for worker in topology.view.assignment(topology.record.id).workers
        for run in worker.executors
    }
    shown, now_s = [], topology.view.now_s
    total = sum(transferred.values())
    for tasks in topology.executors(component_id):
        worker = where.get(tasks.start, pb.WorkerAssignment())
        reported = topology.view.leader_state.reports.get((topology.record.id, Slot(worker.supervisor_id, worker.port)))
        own = Figures(topology.statistics.task_counts(tasks, WINDOWS[window], now_s)).transferred(sys)
        share = own / total if total else 0.0
        shown.append(
            {
                ":host": worker.host,
                ":port": worker.port,
                ":uptime_secs": 0 if reported is None else int(reported.report.uptime_s + now_s - reported.at_s),
                ":transferred": {window: {sanitized(one): round(count * share) for one, count in transferred.items()}},
            }
        )
    return shown


def _spout(component_id: str, figures: Figures, sys: bool) -> dict[str, Any]:
    streams = figures.streams(sys)
    return {
        "id": component_id,
        **{name: _by_stream(figures, streams, name) for name in ("emitted", "transferred", "acked", "failed")},
        "complete_ms_avg": [
            {"stream_id": one, "value": number_text(figures.stream_complete_ms(one))} for one in streams
        ],
        "complete_ms_percentiles": percentiles(figures, "complete"),
    }


def _bolt(component_id: str, figures: Figures, sys: bool) -> dict[str, Any]:
    streams, inputs = figures.streams(sys), figures.inputs(sys)

    def by_input(value: Callable[[tuple[str, str]], Any]) -> list[dict[str, Any]]:
        return [{"component_id": one[0], "stream_id": one[1], "value": value(one)} for one in inputs]

    return {
        "id": component_id,
        **{name: _by_stream(figures, streams, name) for name in ("emitted", "transferred")},
        "acked": by_input(lambda one: figures.input(one, "acked")),
        "failed": by_input(lambda one: figures.input(one, "failed")),
        "process_ms_avg": by_input(lambda one: number_text(figures.input_ms(one, "process_s_sum", "process_samples"))),
        "executed": by_input(lambda one: figures.input(one, "executed")),
        "executed_ms_avg": by_input(lambda one: number_text(figures.input_ms(one, "execute_s", "executed"))),
        "process_ms_percentiles": percentiles(figures, "process"),
    }


def _by_stream(figures: Figures, streams: list[str], name: str) -> list[dict[str, Any]]:
    return [{"stream_id": one, "value": figures.stream(one, name)} for one in streams]
