"""Metrics of a topology's components, from the reports of nimbus. Pure arithmetic.

Workers report counters and sums since their start. The metrics of an interval are the differences of two reports; if a
counter fell because a worker was restarted, the later report alone counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tupletree._wire.latency import percentile_s
from tupletree._wire.names import is_system
from tupletree._wire.user_counts import of_inputs, of_streams
from tupletree.client import ComponentKind, ComponentStats, TaskStats

COUNTERS = ("emitted", "transferred", "executed", "acked", "failed", "timeouts")


def component_figures(stats: ComponentStats) -> dict[str, Any]:
    """Totals and mean latencies of one component."""
    total = stats.total
    is_spout = stats.kind == ComponentKind.SPOUT
    return {
        "component": stats.component_id,
        "kind": "spout" if is_spout else "bolt",
        "executors": stats.executors,
        "tasks": stats.tasks,
        **counters(total, sys=is_system(stats.component_id)),
        "queued": total.queued,
        "pending": total.pending,
        "congested": total.congested,
        "capacity": round(stats.capacity, 4),
        "execute_ms": None if is_spout else _execute_ms(total),
        "process_ms": _mean_ms(total.process_s_sum, total.process_samples),
        "complete_ms": _mean_ms(total.complete_s_sum, total.complete_samples),
        "remark": stats.remark,
        **percentiles(total.process_buckets, total.complete_buckets),
        "emitted_per_s": round(stats.emitted_per_s, 1),
        "executed_per_s": round(stats.executed_per_s, 1),
        "acked_per_s": round(stats.acked_per_s, 1),
        "streams": [{"stream": s.stream, "emitted": s.emitted, "transferred": s.transferred} for s in total.streams],
    }


def counters(total: TaskStats, *, sys: bool = False) -> dict[str, int]:
    """The counters of a task or component, without what is the system's; ``sys``: of a component that is, with it."""
    executed, acked, failed = of_inputs(total, "executed", "acked", "failed")
    return {
        "emitted": of_streams(total, "emitted", sys=sys),
        "transferred": of_streams(total, "transferred", sys=sys),
        "executed": executed,
        "acked": acked,
        "failed": failed,
        "timeouts": total.timeouts,
    }


def rates(before: ComponentStats | None, now: ComponentStats, elapsed_s: float) -> dict[str, Any]:
    """The activity of one component between two reports: rates per second, and latencies of that interval."""
    figures = component_figures(now)
    if before is None or elapsed_s <= 0:
        return figures
    sys = is_system(now.component_id)
    old, new = counters(before.total, sys=sys), counters(now.total, sys=sys)
    if any(new[name] < old[name] for name in COUNTERS):
        return figures
    per_s = {f"{name}_per_s": round((new[name] - old[name]) / elapsed_s, 1) for name in COUNTERS}
    a, b = before.total, now.total
    latencies: dict[str, float | None] = {
        "execute_ms": _execute_ms(b, a),
        "process_ms": _mean_ms(b.process_s_sum - a.process_s_sum, b.process_samples - a.process_samples),
        "complete_ms": _mean_ms(b.complete_s_sum - a.complete_s_sum, b.complete_samples - a.complete_samples),
        **percentiles(
            _between(a.process_buckets, b.process_buckets),
            _between(a.complete_buckets, b.complete_buckets),
        ),
    }
    if figures["kind"] == "spout":
        latencies["execute_ms"] = None
    return {**figures, **per_s, **latencies}


def percentiles(process_counts: Sequence[int], complete_counts: Sequence[int]) -> dict[str, float | None]:
    """Return the medians and 99th percentiles of the sampled latencies; None without samples."""
    found: dict[str, float | None] = {}
    for name, counts in (("process", process_counts), ("complete", complete_counts)):
        for share, suffix in ((0.5, "p50"), (0.99, "p99")):
            latency_s = percentile_s(counts, share)
            found[f"{name}_{suffix}_ms"] = None if latency_s is None else round(latency_s * 1000, 4)
    return found


def stream_rates(before: dict[str, Any], now: dict[str, Any], stream: str | None, elapsed_s: float) -> dict[str, float]:
    """Emitted and transferred tuples per second of one stream, or (None) of all, between two ``component_figures``."""
    sums = {}
    for name in ("emitted", "transferred"):
        old, new = (
            sum(one[name] for one in figures.get("streams", ()) if stream in (None, one["stream"]))
            for figures in (before, now)
        )
        sums[name] = round(max(0, new - old) / elapsed_s, 1) if elapsed_s > 0 else 0.0
    return sums


def _between(before: Sequence[int], now: Sequence[int]) -> list[int]:
    """Return the increase per bucket; a missing earlier count is 0."""
    earlier = [*before, *([0] * (len(now) - len(before)))]
    return [max(0, new - old) for new, old in zip(now, earlier, strict=False)]


def totals(figures: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the topology's totals: the acked, failed and pending trees of its spouts, and all emitted tuples."""
    all_of = list(figures)
    spouts = [f for f in all_of if f["kind"] == "spout"]
    return {
        "emitted_per_s": round(sum(f["emitted_per_s"] for f in all_of), 1),
        "acked_per_s": round(sum(f["acked_per_s"] for f in spouts), 1),
        "acked": sum(f["acked"] for f in spouts),
        "failed": sum(f["failed"] for f in spouts),
        "timeouts": sum(f["timeouts"] for f in spouts),
        "pending": sum(f["pending"] for f in spouts),
    }


def _execute_ms(now: TaskStats, before: TaskStats | None = None) -> float | None:
    """Return the mean time of the user's tuples in ``execute``, since ``before`` or since the beginning."""
    old_s, old = (0.0, 0) if before is None else of_inputs(before, "execute_s", "executed")
    new_s, new = of_inputs(now, "execute_s", "executed")
    return _mean_ms(new_s - old_s, new - old)


def _mean_ms(sum_s: float, samples: int) -> float | None:
    return round(sum_s / samples * 1000, 4) if samples > 0 else None
