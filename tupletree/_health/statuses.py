"""Findings on the statuses of tasks, which come from user code: any field can be wrong."""

from __future__ import annotations  # pure

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

from tupletree._wire.statuses import source_of

Remark = Literal["warning", "note"]

FAILURES: Final = 3  # in a row, of a commit or of a checkpoint
_MAX_TEXT_LENGTH: Final = 1000  # of text from user code


def _pipeline(status: Mapping[str, Any], stall_s: float) -> Iterator[tuple[str, str]]:
    if status.get("state") == "stopped":
        yield "pipeline.stopped", f"the pipeline has stopped: {one_line(status.get('reason'))}"
    oldest_s = _oldest_s(status.get("batches"))
    if oldest_s > stall_s:
        yield "commit.stalled", f"a batch has waited {oldest_s:.0f} s to be committed"


def _coordinator(status: Mapping[str, Any], stall_s: float) -> Iterator[tuple[str, str]]:
    if status.get("state") == "deposed":
        yield "commit.deposed", "stalled: another coordinator has taken over the transactional id"
        return
    oldest_s, failures = _oldest_s(status.get("active")), _number(status.get("failures"))
    if oldest_s > stall_s:
        yield "commit.stalled", f"a transaction has been under way for {oldest_s:.0f} s"
    elif failures >= FAILURES:
        yield "commit.failing", f"transactions have failed {failures:.0f} times since the last commit"


def _checkpoint(status: Mapping[str, Any], stall_s: float) -> Iterator[tuple[str, str]]:
    if status.get("state") == "refused":
        yield "checkpoint.refused", f"no checkpoint is taken and nothing is acked: {one_line(status.get('reason'))}"
        return
    if status.get("state") == "stands still":
        yield "checkpoint.deposed", "stalled: another checkpoint spout has taken over the state id"
        return
    age_s, failures = _number(status.get("step_age_s")), _number(status.get("failures"))
    if age_s > stall_s:
        step = one_line(status.get("step"))
        yield "checkpoint.stalled", f"the checkpoint's step '{step}' has gone on for {age_s:.0f} s"
    elif failures >= FAILURES:
        yield "checkpoint.failing", f"checkpoints have failed {failures:.0f} times since the last committed one"


def _unread(statuses: Sequence[Mapping[str, Any]], is_connected: bool, words: str) -> str:
    """Return a sentence on tasks that do not read their source, with the last error; "" if there are none."""
    found = [one for one in statuses if one.get("connected") is is_connected and one.get("error")]
    if not found:
        return ""
    tasks = f"{len(found)} of {plural(len(statuses), 'task')} {'is' if len(found) == 1 else 'are'}"
    return f"{tasks} {words} {one_line(source_of(found[0]))}: {one_line(found[0]['error'])}"


def _late(statuses: Sequence[Mapping[str, Any]], recent_s: float) -> str:
    """Return a sentence on the tuples that a component drops as late; "" if it has dropped none recently."""
    late = [one for one in statuses if one.get("kind") == "late"]
    ages_s = [_number(one.get("newest_age_s")) for one in late]
    if min(ages_s, default=recent_s) >= recent_s:
        return ""
    dropped = int(sum(_number(one.get("dropped")) for one in late))
    tuples = "1 tuple was" if dropped == 1 else f"{dropped:,} tuples were"
    return f"{tuples} dropped as late so far, the newest {min(ages_s):.0f} s ago: raise max_lag, or name a late_stream"


def remarks(status: Mapping[str, Any]) -> Iterator[tuple[Remark, str, str]]:
    """Yield notes that apply to any kind of status."""
    batches = [*_objects(status.get("active")), *_objects(status.get("batches"))]
    worst = max(batches, key=lambda one: _number(one.get("failures")), default={})
    if failures := int(_number(worst.get("failures"))):
        yield (
            "warning",
            "commit.retried",
            f"transaction {one_line(str(worst.get('txid')))} failed {plural(failures, 'time')}",
        )
    lag = status.get("lag")
    if isinstance(lag, dict) and lag.get("error"):
        yield "warning", "lag.unknown", f"its lag behind its source is unknown: {one_line(lag['error'])}"
    if status.get("is_recovering") is True and status.get("state") not in ("refused", "stands still"):
        yield "note", "checkpoint.recovering", "the states are recovering from their last checkpoint"


def _nothing(status: Mapping[str, Any], stall_s: float) -> Iterator[tuple[str, str]]:
    return iter(())


_STALLS: Final = {"pipeline": _pipeline, "coordinator": _coordinator, "checkpoint": _checkpoint}


def stalls(status: Mapping[str, Any], stall_s: float) -> Iterator[tuple[str, str]]:
    """Yield what makes a task stand still: the kind of finding, and the words for it."""
    return _STALLS.get(str(status.get("kind")), _nothing)(status, stall_s)


def troubles(statuses: Sequence[Mapping[str, Any]], recent_s: float) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a component as a whole. ``statuses``: of its tasks."""
    sources = [status for status in statuses if source_of(status)]
    if away := _unread(sources, False, "not connected to"):
        yield "source.away", away
    if refused := _unread(sources, True, "connected and cannot read all of"):
        yield "source.refused", refused
    if late := _late(statuses, recent_s):
        yield "tuples.late", late


def _objects(entries: Any) -> list[dict[str, Any]]:
    return [one for one in entries if isinstance(one, dict)] if isinstance(entries, list) else []


def _oldest_s(entries: Any) -> float:
    return max((_number(one.get("age_s")) for one in _objects(entries)), default=0.0)


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e18 else 0.0


def plural(number: int, what: str) -> str:
    """Return a number with a noun, such as ``2 tasks``."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def one_line(value: Any) -> str:
    """Return text from user code as one line that is safe for a terminal."""
    text = " ".join(str(value or "no reason given").split())
    if len(text) > _MAX_TEXT_LENGTH:
        text = f"{text[: _MAX_TEXT_LENGTH - 1]}…"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
