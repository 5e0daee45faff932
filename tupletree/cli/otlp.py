"""Export of traced trees to OpenTelemetry: one trace per tree, sent to a collector by OpenTelemetry's own SDK.

A trace has the root id of its tree, and a span the edge id of its tuple, so that a tree sent twice is the same trace.
Needs ``tupletree[otel]``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.trace import Status, StatusCode, set_span_in_context

from tupletree.cli.tracing import Hop, Tree
from tupletree.errors import UnavailableError

_TIMEOUT_S = 10


class _GivenIds(IdGenerator):
    """Returns the ids that were set before, instead of random ids."""

    def __init__(self) -> None:
        self.trace_id = 1
        self.span_id = 1

    def generate_trace_id(self) -> int:
        return self.trace_id

    def generate_span_id(self) -> int:
        return self.span_id


class Exporter:
    """Sends trees to one collector, or through the given ``exporter``."""

    def __init__(self, url: str, exporter: SpanExporter | None = None) -> None:
        self._url = url
        self._exporter = exporter or OTLPSpanExporter(endpoint=url, timeout=_TIMEOUT_S)

    def export(self, topology: str, trees: Sequence[Tree]) -> None:
        """Send these trees. Raises UnavailableError if the collector does not accept them."""
        spans = [span for tree in trees for span in spans_of(topology, tree)]
        if spans and self._exporter.export(spans) is not SpanExportResult.SUCCESS:
            raise UnavailableError(f"the OpenTelemetry collector at {self._url} did not accept the traces")


def spans_of(topology: str, tree: Tree) -> list[Any]:
    """Return a tree's spans: first its own, then one per tuple, from its send to the end of its execution."""
    ids = _GivenIds()
    provider = TracerProvider(resource=Resource.create({"service.name": topology}), id_generator=ids)
    tracer = provider.get_tracer("tupletree")
    ids.trace_id = _number(tree.root)
    ids.span_id = ids.trace_id
    known = [at for hop in tree.all_hops() for at in hop.times() if at is not None]
    known += [at for at in (tree.begun_s, tree.ended_s) if at is not None]
    root = tracer.start_span(
        f"tree of {tree.component or topology}",
        attributes=_attributes(
            {
                "tupletree.topology": topology,
                "tupletree.component": tree.component,
                "tupletree.task": tree.task,
                "tupletree.worker": tree.worker,
                "tupletree.message": tree.message,
                "tupletree.verdict": tree.verdict,
            }
        ),
        start_time=_ns(tree.begun_s if tree.begun_s is not None else min(known, default=0.0)),
    )
    if tree.verdict in ("failed", "expired"):
        root.set_status(Status(StatusCode.ERROR, tree.verdict))
    root.end(_ns(tree.ended_s if tree.ended_s is not None else max(known, default=0.0)))
    spans = [root]
    waiting: list[tuple[Hop, Any]] = [(hop, root) for hop in tree.hops]
    while waiting:
        hop, parent = waiting.pop()
        ids.span_id = _number(hop.edge)
        span = _span_of(tracer, hop, parent)
        if span is not None:
            spans.append(span)
        waiting.extend((child, span or parent) for child in hop.children)
    return spans


def _span_of(tracer: Any, hop: Hop, parent: Any) -> Any:
    """Return a hop's span; None if no time of the hop is known."""
    times = [at for at in hop.times() if at is not None]
    if not times:
        return None
    attributes = {
        "tupletree.component": hop.component,
        "tupletree.task": hop.task,
        "tupletree.worker": hop.worker,
        "tupletree.source": hop.source,
        "tupletree.stream": hop.stream,
        "tupletree.outcome": hop.outcome,
        "tupletree.error": hop.error,
    }
    span = tracer.start_span(
        hop.component or f"task {hop.task}",
        context=set_span_in_context(parent),
        attributes=_attributes(attributes),
        start_time=_ns(min(times)),
    )
    for name, at in (("received", hop.received_s), ("executing", hop.begun_s), (hop.outcome, hop.settled_s)):
        if at is not None and name:
            span.add_event(name, timestamp=_ns(at))
    if hop.error or hop.outcome == "failed":
        span.set_status(Status(StatusCode.ERROR, hop.error or hop.outcome))
    span.end(_ns(hop.ended_s if hop.ended_s is not None else max(times)))
    return span


def _attributes(given: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value not in (None, "")}


def _number(id_name: str) -> int:
    """Return an id as the number that OpenTelemetry expects, from 1 to 2^64 - 1."""
    try:
        return int(id_name, 16) % 2**64 or 1
    except ValueError:
        return 1


def _ns(at_s: float) -> int:
    return int(at_s * 1e9)
