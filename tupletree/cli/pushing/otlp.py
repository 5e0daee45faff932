"""Requests of OTLP with metrics: one resource per process, at most ``MAX_POINTS`` values in each.

Names stay those of Prometheus, so that docs/metrics.md and dashboards hold. Labels become attributes. Needs
``tupletree[otel]``.
"""

from __future__ import annotations  # pure

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AggregationTemporality,
    HistogramDataPoint,
    Metric,
    NumberDataPoint,
    ScopeMetrics,
)

from .history import Starts
from .readings import Distribution, Labels, Reading, Series, Target

MAX_POINTS: Final = 5000
_MAX_S: Final = 1e10  # nanoseconds have 64 bits
_UNITS: Final = {"_seconds": "s", "_bytes": "By"}


class Requests:
    """The requests for one receiver, which knows when each counter began. ``job``: begins ``service.name``."""

    def __init__(self, job: str) -> None:
        self._job = job
        self._starts = Starts()

    def of(self, readings: Sequence[Reading], now_s: float) -> Iterator[tuple[int, bytes]]:
        """Yield encoded requests, each with the number of its values."""
        starts = [self._starts.of(reading) for reading in readings]  # also of readings that cannot be sent
        self._starts.forget(now_s)
        for reading, begun in zip(readings, starts, strict=True):
            for start in range(0, len(reading.series), MAX_POINTS):
                part = reading.series[start : start + MAX_POINTS]
                yield len(part), self._request(reading, part, begun).SerializeToString()

    def _request(
        self, reading: Reading, part: Sequence[Series], begun: Mapping[tuple[str, Labels], float]
    ) -> ExportMetricsServiceRequest:
        request = ExportMetricsServiceRequest()
        of_process = request.resource_metrics.add()
        of_process.resource.attributes.extend(_attributes(_resource(reading.target, self._job)))
        scope = of_process.scope_metrics.add()
        scope.scope.name = "tupletree"
        metrics: dict[tuple[str, str], Metric] = {}
        for series in part:
            metric = metrics.get((series.name, series.kind))
            if metric is None:
                metric = metrics[series.name, series.kind] = _metric(scope, series)
            _add_point(metric, series, _ns(reading.at_s), _ns(begun.get(series.key, reading.at_s)))
        return request


def rejected(reply: bytes) -> str | None:
    """Return why a receiver did not take all values, in its words; None if it took all."""
    try:
        partial = ExportMetricsServiceResponse.FromString(reply).partial_success
    except DecodeError:
        return None  # some receivers answer with a text
    if not partial.rejected_data_points:
        return None
    return f"{partial.rejected_data_points} of them rejected: {partial.error_message or 'no reason given'}"


def _resource(target: Target, job: str) -> dict[str, str]:
    return {
        "service.name": f"{job}-{target.role}",
        "service.instance.id": target.id,
        "tupletree.address": target.address,
        "tupletree.topology": target.topology,
        "tupletree.topology_id": target.topology_id,
        "tupletree.slot": target.slot,
    }


def _metric(scope: ScopeMetrics, series: Series) -> Metric:
    unit = next((unit for end, unit in _UNITS.items() if series.name.removesuffix("_total").endswith(end)), "")
    metric = scope.metrics.add(name=series.name, description=series.help, unit=unit)
    if series.kind == "counter":
        metric.sum.is_monotonic = True
        metric.sum.aggregation_temporality = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
    elif series.kind == "histogram":
        metric.histogram.aggregation_temporality = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
    return metric


def _add_point(metric: Metric, series: Series, at_ns: int, started_ns: int) -> None:
    attributes = _attributes(dict(series.labels))
    if isinstance(series.value, Distribution):
        metric.histogram.data_points.append(
            HistogramDataPoint(
                attributes=attributes,
                start_time_unix_nano=started_ns,
                time_unix_nano=at_ns,
                count=series.value.count,
                sum=series.value.sum,
                bucket_counts=series.value.counts,
                explicit_bounds=series.value.bounds,
            )
        )
        return
    point = NumberDataPoint(attributes=attributes, time_unix_nano=at_ns, as_double=series.value)
    if series.kind == "counter":
        point.start_time_unix_nano = started_ns
        metric.sum.data_points.append(point)
    else:
        metric.gauge.data_points.append(point)


def _attributes(values: Mapping[str, str]) -> list[KeyValue]:
    return [KeyValue(key=key, value=AnyValue(string_value=value)) for key, value in values.items() if value]


def _ns(at_s: float) -> int:
    return int(min(max(0.0, at_s), _MAX_S) * 1e9)
