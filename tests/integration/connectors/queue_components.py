"""Bolts behind the queues and logs of the conformance suites, with the history of what they did."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

from tupletree import Bolt, FailedException, Topology, TopologyBuilder
from tupletree.replaying_spout import ReplayingSpout
from tupletree.testing import LocalCluster
from tupletree.testing.simulation.external import current, external


class History:
    """The messages that bolts executed, by text, in this process. ``held``: those that wait for ``finish``."""

    def __init__(self) -> None:
        self.executed: Counter[str] = Counter()
        self.letters: list[list[Any]] = []
        self.held: list[tuple[Any, Any]] = []
        self.fails = 0  # executions of each message that fail
        self.holds = False
        self.held_texts: set[str] = set()
        self.lock = threading.Lock()

    def finish(self) -> None:
        """Ack the held messages, on the thread of their bolt."""
        self.holds, self.held_texts = False, set()
        with self.lock:
            held, self.held = self.held, []
        for bolt, tup in held:
            bolt.context.call_soon(lambda bolt=bolt, tup=tup: bolt.collector.ack(tup))


class Watch(Bolt):
    """Executes messages as the history says."""

    holds_tuples = True

    def __init__(self, history: History) -> None:
        self.history = history

    def execute(self, tup: Any) -> None:
        history, text = self.history, tup["text"]
        history.executed[text] += 1
        if history.executed[text] <= history.fails:
            self.collector.fail(tup, FailedException("not yet"))
        elif text.startswith("poison"):
            self.collector.fail(tup, FailedException("poison"))
        elif history.holds or text in history.held_texts:
            with history.lock:
                history.held.append((self, tup))
        else:
            self.collector.ack(tup)


class Letters(Bolt):
    def __init__(self, history: History) -> None:
        self.history = history

    def execute(self, tup: Any) -> None:
        self.history.letters.append(list(tup.values))
        self.collector.ack(tup)


class Running:
    """A watched topology in this process."""

    def __init__(self, cluster: LocalCluster, stand_in: Any) -> None:
        self.cluster = cluster
        self.history: History = current(stand_in)

    def wait(self, condition: Callable[[], Any], timeout_s: float = 30) -> None:
        self.cluster.wait_until(condition, timeout_s)

    def wait_executed(self, texts: list[str], timeout_s: float = 30) -> None:
        self.wait(lambda: set(texts) <= set(self.history.executed), timeout_s)


def watched(
    spout: ReplayingSpout, history: History, *, retry: Any = None, dead_letters: bool = False, parallelism: int = 1
) -> Topology:
    """Return a topology of a spout and a bolt that the history watches. ``history``: made by ``external``."""
    builder = TopologyBuilder()
    messages = builder.set_spout("messages", spout, parallelism)
    builder.set_bolt("watch", Watch(history)).shuffle_grouping(messages)
    if retry is not None:
        messages.set_retry(retry)
    if dead_letters:
        messages.set_dead_letters("rejected")
        builder.set_bolt("letters", Letters(history)).shuffle_grouping(messages, "rejected")
    return builder.create_topology()


def new_history() -> Any:
    return external(History)
