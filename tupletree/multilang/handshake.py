"""The context of a component in another language: the topology around its task, in Storm's words."""

from __future__ import annotations  # pure

from collections.abc import Mapping, Sequence
from typing import Any

from tupletree.context import TopologyContext
from tupletree.outputs import DEFAULT_STREAM
from tupletree.outputs import direct as direct_stream


def context_message(context: TopologyContext, outputs: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the ``context`` of the first message. ``outputs``: the fields of each output stream."""
    sources: dict[str, dict[str, Any]] = {}
    fields: dict[str, dict[str, Any]] = {}
    for (component, stream), grouping in context.sources.items():
        sources.setdefault(component, {})[stream] = {"type": grouping.upper()}
        fields.setdefault(component, {})[stream] = list(context.source_fields.get((component, stream), ()))
    return {
        "taskid": context.task_id,
        "componentid": context.component_id,
        "task->component": {str(task): id for id, tasks in context.components.items() for task in tasks},
        "streams": list(outputs),
        "stream->outputfields": {stream: list(names) for stream, names in outputs.items()},
        "stream->target->grouping": {
            stream: {target: {"type": grouping.upper()} for target, grouping in targets.items()}
            for stream, targets in context.targets.items()
        },
        "source->stream->grouping": sources,
        "source->stream->fields": fields,
    }


def streams_of(
    outputs: Sequence[str] | Mapping[str, Sequence[str]], direct: Mapping[str, Sequence[str]] | None
) -> dict[str, list[str]]:
    """Return the fields of each stream that a component declares."""
    plain = outputs if isinstance(outputs, Mapping) else {DEFAULT_STREAM: outputs} if outputs else {}
    return {stream: list(fields) for stream, fields in {**plain, **(direct or {})}.items()}


def outputs_of(
    outputs: Sequence[str] | Mapping[str, Sequence[str]], direct: Mapping[str, Sequence[str]] | None
) -> dict[str, Any]:
    """Return what the builder takes as the outputs of a component."""
    streams = streams_of(outputs, direct)
    return {id: direct_stream(fields) if id in (direct or {}) else fields for id, fields in streams.items()}
