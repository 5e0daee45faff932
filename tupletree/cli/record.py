"""Output of the commands that change a topology."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from tupletree.cli.output import duration, message_dict, print_json

if TYPE_CHECKING:
    from tupletree.client import TopologyRecord


def print_records(records: Sequence[TopologyRecord], as_json: bool) -> None:
    """One sentence for each topology: its status now, and when a pending action is due. JSON: always a list."""
    if as_json:
        print_json([message_dict(record.raw) for record in records])
        return
    for record in records:
        wait = waits_for(message_dict(record.pending.raw) if record.pending is not None else None, time.time())
        click.echo(f"{record.name} is {record.status}" + (f": {wait}" if wait else ""))


def waits_for(pending: Mapping[str, Any] | None, now_unix_s: float) -> str:
    """Return what a pending kill or rebalance waits for, and for how long at most; empty if nothing waits."""
    left_s = pending["due_unix_s"] - now_unix_s if pending is not None else 0.0
    if pending is None or left_s < 1:
        return ""
    count = pending["unfinished"]
    what = f"{count} tuple tree{'' if count == 1 else 's'} or tuples in flight" if count else "its workers to be idle"
    return f"waiting for {what}, at most {duration(left_s)}"
