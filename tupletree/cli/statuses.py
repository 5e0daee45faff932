"""Statuses of tasks (``context.register_status``), for people.

Four kinds are known and get lines of their own: the coordinator of a transactional topology, a pipeline, the
checkpoint spout of a stateful topology, and a spout with a connection. Every other status is shown key by key. All
statuses come from user code, on machines that may run another version: any field may be missing or of any type. Texts
are therefore cut, and characters that would control a terminal are escaped.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from tupletree._wire.statuses import committed_by, source_of
from tupletree.attempt import TransactionAttempt
from tupletree.cli.output import count

if TYPE_CHECKING:
    from tupletree.client import TopologyDescription

_WIDTH: Final = 160
_REASON: Final = 2000
_ROWS: Final = 20
_OLD_S: Final = 3.0
_NO_STATUS: Final = {"error": "the status that nimbus returned is not a small JSON object"}


def status_dicts(reply: TopologyDescription) -> list[dict[str, Any]]:
    """The statuses of a topology's tasks, by component and task: what ``--json`` prints."""
    found: list[dict[str, Any]] = [
        {
            "component": component.component_id,
            "task": one.task_id,
            "age_s": round(one.age_s, 3),
            "status": _NO_STATUS if (status := one.status) is None else status,
        }
        for component in reply.components
        for one in component.statuses
    ]
    kinds = [(one["component"], one["status"]) for one in found]
    committed = {name: status.get("committed") for name, status in kinds if status.get("kind") == "coordinator"}
    for name, status in kinds:
        if status.get("kind") == "pipeline":
            status["committed_txid"] = committed_by(name, status, committed)
    return found


def status_lines(statuses: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the statuses of ``status_dicts`` as lines of text."""
    lines = []
    for one in statuses:
        status = one["status"]
        old = f", {_seconds(one['age_s'])} ago" if one["age_s"] > _OLD_S else ""
        title, rest = _SHOWN.get(str(status.get("kind")), _source if source_of(status) else _generic)(status)
        lines.append(f"{printable(one['component'])}[{one['task']}]{old}: {title}".rstrip())
        lines.extend(f"    {line}".rstrip() for line in rest)
    return lines


def printable(value: Any, width: int = _WIDTH) -> str:
    """Return a value on one line of at most ``width`` characters: JSON unless it is a string, unprintables escaped."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text[: width + 1])
    return text if len(text) <= width else text[: width - 1] + "…"


def _pipeline(status: Mapping[str, Any]) -> tuple[str, list[str]]:
    took = _object(status, "batch_s")
    title = [f"pipeline {_text(status, 'state')}", f"transaction {_count(status, 'committed_txid')} committed"]
    title.append(f"{_count(status, 'rows_per_s')} rows/s")
    title.append(f"{_count(status, 'rows_total')} rows in {_count(status, 'batches_total')} batches")
    if took.get("p50") is not None:
        title.append(f"arrival to commit {_seconds(took.get('p50'))} (p50), {_seconds(took.get('p99'))} (p99)")
    lines = _wrapped("reason", status.get("reason"))
    spark = _object(status, "spark")
    if spark:
        lines.append("spark: " + "  ".join(_text(spark, key) for key in ("master", "app_id", "ui") if spark.get(key)))
    batches = [
        [
            _count(batch, "txid"),
            _text(batch, "phase"),
            _seconds(batch.get("age_s")),
            _count(batch, "rows"),
            _count(batch, "failures"),
            _seconds(batch.get("retry_in_s")),
            _text(batch, "job"),
        ]
        for batch in _objects(status, "batches")
    ]
    return ", ".join(title), lines + _aligned(
        ["txid>", "phase", "age>", "rows>", "failures>", "retry in>", "job"], batches
    )


def _coordinator(status: Mapping[str, Any]) -> tuple[str, list[str]]:
    title = [f"coordinator of {_text(status, 'transactional_id')} {_text(status, 'state')}"]
    title.append(f"transaction {_count(status, 'committed')} committed")
    if status.get("failures"):
        title.append(f"{_count(status, 'failures')} failures since then")
    lag = status.get("lag")
    if isinstance(lag, dict):
        figures = [f"{printable(key, 40)} {_figure(figure)}" for key, figure in lag.items()]
        title.append("lag: " + (" ".join(_few(figures)) or "none"))
    active = [
        [_count(one, "txid"), _attempt(one.get("attempt")), _text(one, "phase"), _seconds(one.get("age_s"))]
        for one in _objects(status, "active")
    ]
    return ", ".join(title), _aligned(["txid>", "attempt>", "phase", "age>"], active)


def _checkpoint(status: Mapping[str, Any]) -> tuple[str, list[str]]:
    title = [f"checkpoints of {_text(status, 'state_id')}, {_text(status, 'state')}"]
    if status.get("state") == "refused":
        return ", ".join(title), _wrapped("reason", status.get("reason"))
    if status.get("txid") is not None:
        title.append(f"checkpoint {_count(status, 'txid')} {_text(status, 'phase')}")
    if status.get("is_recovering"):
        title.append("recovering")
    if status.get("step"):
        title.append(f"{_text(status, 'step')} for {_seconds(status.get('step_age_s'))}")
    if status.get("last_checkpoint_s"):
        title.append(f"last duration {_seconds(status.get('last_checkpoint_s'))}")
    if status.get("failures"):
        title.append(f"{_count(status, 'failures')} failures since the last checkpoint")
    return ", ".join(title), []


def _source(status: Mapping[str, Any]) -> tuple[str, list[str]]:
    is_connected = status.get("connected") is True
    title = [printable(source_of(status), 100), "connected" if is_connected else "not connected"]
    if "lag" in status:
        title += [f"{_count(status, 'outstanding')} outstanding", f"lag {_count(status, 'lag')}"]
        title[-1] += " bytes" if status.get("lag_unit") == "bytes" else ""
    return ", ".join(title), _wrapped("reason", status.get("error"))


def _generic(status: Mapping[str, Any]) -> tuple[str, list[str]]:
    return "", _few([f"{printable(key, 40)}: {printable(value)}" for key, value in status.items()])


_SHOWN = {"pipeline": _pipeline, "coordinator": _coordinator, "checkpoint": _checkpoint}


def _wrapped(name: str, text: Any) -> list[str]:
    """Return a text as wrapped lines, which its name begins; no lines if the text is empty."""
    lines = _few(f"{name}: {text}".splitlines()) if text else []
    return [part for line in lines for part in textwrap.wrap(printable(line, _REASON), _WIDTH)]


def _few(lines: list[str]) -> list[str]:
    return lines if len(lines) <= _ROWS else [*lines[:_ROWS], f"… {len(lines) - _ROWS} more"]


def _aligned(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows as aligned lines; a heading that ends with ``>`` aligns its column right. No rows: no lines."""
    if not rows:
        return []
    shown = [[heading.removesuffix(">") for heading in headings], *rows[:_ROWS]]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    lines = [
        "  ".join(
            cell.rjust(width) if heading.endswith(">") else cell.ljust(width)
            for heading, cell, width in zip(headings, row, widths, strict=True)
        )
        for row in shown
    ]
    return lines if len(rows) <= _ROWS else [*lines, f"… {len(rows) - _ROWS} more"]


def _object(status: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = status.get(key)
    return found if isinstance(found, dict) else {}


def _objects(status: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    found = status.get(key)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _text(status: Mapping[str, Any], key: str) -> str:
    value = status.get(key)
    return "-" if value is None or value == "" else printable(value, 100)


def _count(status: Mapping[str, Any], key: str) -> str:
    return _figure(status.get(key))


def _figure(value: Any) -> str:
    if not _is_number(value):
        return "-" if value is None else printable(value, 40)
    return f"{value:.1f}" if isinstance(value, float) and abs(value) < 100 else count(value)


def _seconds(value: Any) -> str:
    if not _is_number(value):
        return "-" if value is None else printable(value, 20)
    return f"{value:.2f} s" if abs(value) < 10 else f"{value:,.1f} s"


def _attempt(value: Any) -> str:
    """``1.7``: the coordinator's epoch, and the attempt's number within that epoch."""
    if not isinstance(value, int):
        return printable(value, 20)
    return printable(str(TransactionAttempt(0, value)).partition("attempt ")[2].rstrip(")"), 20)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e18
