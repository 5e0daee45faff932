"""Shell completion of the names of running topologies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_DEADLINE_S = 2.0  # for the cluster's reply, which mostly takes some hundredths of a second


def complete_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of a running topology; no completions if the cluster does not reply soon. Never raises."""
    import logging
    from queue import Empty, SimpleQueue
    from threading import Thread

    from click.shell_completion import CompletionItem

    from tupletree.client import NimbusClient  # imported here because the import is slow
    from tupletree.config import load

    answer: SimpleQueue[list[str]] = SimpleQueue()

    def ask() -> None:
        try:
            given = ctx.params
            overrides = tuple(given.get("overrides") or ())
            conf = load(given.get("conf_path"), overrides)
            with NimbusClient(given.get("seeds"), conf, leader_timeout_s=0.0) as client:
                answer.put([summary.record.name for summary in client.list()])
        except Exception:  # a shell prompt is no place for an error message
            answer.put([])

    logging.disable(logging.CRITICAL)
    Thread(target=ask, daemon=True).start()
    try:
        names = answer.get(timeout=_DEADLINE_S)
    except Empty:
        names = []
    already = ctx.params.get("names") or ()
    return [CompletionItem(name) for name in names if name.startswith(incomplete) and name not in already]
