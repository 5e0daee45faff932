"""Output of a traced tuple tree."""

from __future__ import annotations

from typing import Any, Final

import click

from tupletree.cli.output import clock, print_table
from tupletree.cli.statuses import printable
from tupletree.cli.tracing import Hop, Tree

MAX_ROWS: Final = 200


def tree_dict(tree: Tree) -> dict[str, Any]:
    """One tree for programs; times in milliseconds since its beginning."""
    origin_s = _origin_s(tree)
    return {
        "root": tree.root,
        "component": tree.component,
        "task": tree.task,
        "worker": tree.worker,
        "message": tree.message,
        "begun_unix_s": tree.begun_s,
        "verdict": tree.verdict or None,
        "took_ms": _ms(tree.took_s, 0.0),
        "is_whole": tree.is_whole,
        "clock_shifts_ms": {machine: round(shift * 1000, 3) for machine, shift in tree.shifts_s.items()},
        "hops": [_hop_dict(hop, origin_s) for hop in tree.hops],
    }


def _hop_dict(hop: Hop, origin_s: float) -> dict[str, Any]:
    return {
        "edge": hop.edge,
        "source": hop.source,
        "source_task": hop.source_task,
        "stream": hop.stream,
        "component": hop.component,
        "task": hop.task,
        "worker": hop.worker,
        "sent_ms": _ms(hop.sent_s, origin_s),
        "arrived_ms": _ms(hop.received_s, origin_s),
        "began_ms": _ms(hop.begun_s, origin_s),
        "took_ms": _took_ms(hop),
        "settled_ms": _ms(hop.settled_s, origin_s),
        "outcome": hop.outcome or None,
        "error": hop.error or None,
        "hops": [_hop_dict(child, origin_s) for child in hop.children],
    }


def print_tree(tree: Tree) -> None:
    """One tree for people."""
    origin_s = _origin_s(tree)
    began = f" at {clock(tree.begun_s)}" if tree.begun_s is not None else ""
    verdict = tree.verdict or "not decided yet"
    took = f" after {_shown(_ms(tree.took_s, 0.0))} ms" if tree.took_s is not None else ""
    message = f", message {printable(tree.message)}" if tree.message else ""
    origin = f"{_place(tree.component, tree.task)} on {tree.worker or '?'}"
    click.echo(f"tree {tree.root} of {origin}{began}{message}: {verdict}{took}")
    for machine, shift_s in sorted(tree.shifts_s.items()):
        direction = "behind" if shift_s > 0 else "ahead"
        click.echo(f"the clock of {machine} is {direction}: its times are moved by {shift_s * 1000:+.3f} ms")
    rows: list[tuple[str, ...]] = []
    waiting = [(hop, 0) for hop in reversed(tree.hops)]
    while waiting and len(rows) < MAX_ROWS:
        hop, depth = waiting.pop()
        rows.append(_row(hop, depth, origin_s))
        waiting.extend((child, depth + 1) for child in reversed(hop.children))
    print_table(["hop", "worker", "sent>", "arrived>", "began>", "took>", "settled>", "outcome"], rows)
    hops = len(tree.all_hops())
    if hops > len(rows):
        click.echo(f"… {hops - len(rows)} more hops; show them with --json")
    if not tree.is_whole:
        click.echo("this tree is incomplete: events were lost, or a worker writes no events")


def _row(hop: Hop, depth: int, origin_s: float) -> tuple[str, ...]:
    component = hop.component or "?"
    return (
        "  " * depth + _place(component, hop.task),
        hop.worker or "?",
        _shown(_ms(hop.sent_s, origin_s)),
        _shown(_ms(hop.received_s, origin_s)),
        _shown(_ms(hop.begun_s, origin_s)),
        _shown(_took_ms(hop)),
        _shown(_ms(hop.settled_s, origin_s)),
        hop.outcome + (f" raised {hop.error}" if hop.error else ""),
    )


def _place(component: str, task: int | None) -> str:
    return printable(f"{component or '?'}[{'?' if task is None else task}]", 60)


def _origin_s(tree: Tree) -> float:
    """Return the origin of the times: the spout's emit, or the first known time."""
    if tree.begun_s is not None:
        return tree.begun_s
    return min((at for hop in tree.all_hops() if (at := hop.first_s) is not None), default=tree.ended_s or 0.0)


def _ms(at_s: float | None, origin_s: float) -> float | None:
    return None if at_s is None else round((at_s - origin_s) * 1000, 3)


def _took_ms(hop: Hop) -> float | None:
    return None if hop.begun_s is None or hop.ended_s is None else _ms(hop.ended_s, hop.begun_s)


def _shown(ms: float | None) -> str:
    return "-" if ms is None else f"{ms:,.3f}" if abs(ms) < 10 else f"{ms:,.1f}"
