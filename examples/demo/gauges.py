"""The metrics of a running word count, from the same places as an operator: nimbus and each acker's /ledger."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterable

from examples.demo.screen import Frame
from tupletree import NimbusClient
from tupletree.errors import TupletreeError
from tupletree.testing import ProcessInfo


def read_frame(name: str, lines: int, acked: int, client: NimbusClient, ackers: Iterable[ProcessInfo]) -> Frame:
    """Return the current metrics. An unavailable metric is 0; an unavailable pending count is None."""
    try:
        components = {stats.component_id: stats for stats in client.describe(name).components}
    except TupletreeError:
        components = {}
    spout, count = components.get("lines"), components.get("count")
    return Frame(
        lines=lines,
        acked=acked,
        emitted=sum(stream.emitted for stream in spout.total.streams) if spout else 0,
        failed=spout.total.failed if spout else 0,
        words_per_s=count.executed_per_s if count else 0.0,
        pending={acker.name: _pending(acker.http_port) for acker in ackers},
    )


def _pending(http_port: int) -> int | None:
    """Return the number of pending trees of an acker; None if the acker does not answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{http_port}/ledger", timeout=1) as reply:
            return sum(int(shard["pending"]) for shard in json.load(reply)["shards"])
    except OSError:
        return None
