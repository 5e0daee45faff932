"""What the commands that change a topology print."""

from __future__ import annotations

import time
from collections.abc import Sequence

import click

from tupletree.cli.output import duration, message_dict, print_json
from tupletree.v1 import topology_pb2


def print_records(records: Sequence[topology_pb2.TopologyRecord], as_json: bool) -> None:
    """One sentence for each topology: its status now, and when a pending action is due. JSON: always a list."""
    if as_json:
        print_json([message_dict(record) for record in records])
        return
    for record in records:
        status = message_dict(record)["status"]
        click.echo(f"{record.name} is {status}{_wait(record)}")


def _wait(record: topology_pb2.TopologyRecord) -> str:
    """What a kill or rebalance waits for, and for how long at most."""
    left_s = record.pending.due_unix_s - time.time() if record.HasField("pending") else 0.0
    if left_s < 1:
        return ""
    count = record.pending.unfinished
    what = f"{count} tuple tree{'' if count == 1 else 's'} or tuples in flight" if count else "its workers to be idle"
    return f": waiting for {what}, at most {duration(left_s)}"
