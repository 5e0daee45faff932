"""Shell completion of the names of running topologies and of their components."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from tupletree.client import NimbusClient

_DEADLINE_S = 2.0  # for the cluster's reply, which mostly takes some hundredths of a second


def complete_names(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """Complete the name of a running topology; no completions if the cluster does not reply soon. Never raises."""
    already = ctx.params.get("names") or ()
    names = _ask(ctx, lambda client: [summary.record.name for summary in client.list()])
    return _items((name for name in names if name not in already), incomplete)


def complete_components(ctx: click.Context, incomplete: str, suffix: str = "") -> list[CompletionItem]:
    """Complete a component of the topology that stands before it, as ``complete_names``; ``suffix`` follows each."""
    name = ctx.params.get("name") or next(
        iter(ctx.args), ""
    )  # click does not assign arguments before an option's value
    if not name:
        return []
    components = _ask(ctx, lambda client: [one.id for one in client.describe(name).spec.components])
    return _items((f"{one}{suffix}" for one in components if not one.startswith("$")), incomplete)


def _items(found: Iterable[str], incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(one) for one in found if one.startswith(incomplete)]


def _ask(ctx: click.Context, ask: Callable[[NimbusClient], list[str]]) -> list[str]:
    """Return what ``ask`` returns; an empty list if it fails or does not return soon."""
    import logging
    from queue import Empty, Queue
    from threading import Thread

    from tupletree.client import NimbusClient  # imported here because the import is slow
    from tupletree.config import load

    answer: Queue[list[str]] = Queue()

    def run() -> None:
        try:
            given = ctx.params
            overrides = tuple(given.get("overrides") or ())
            conf = load(given.get("conf_path"), overrides)
            with NimbusClient(given.get("seeds"), conf, leader_timeout_s=0.0) as client:
                answer.put(ask(client))
        except Exception:  # a shell prompt is no place for an error message
            answer.put([])

    logging.disable(logging.CRITICAL)
    Thread(target=run, daemon=True).start()
    try:
        return answer.get(timeout=_DEADLINE_S)
    except Empty:
        return []
