"""kill -9 of one thing after the other, drawn from a seed."""

from __future__ import annotations

import functools
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping

from tupletree.testing import DevCluster, wait_until

PAUSE_S = (1.0, 3.0)
"""From a kill, and the start of what was killed, to the next kill."""
KILL_EVERY_S = 6.0
"""Kills take longer than they were to take, if on average they come more rarely than this."""


def workers(cluster: DevCluster) -> int:
    """The number of running workers."""
    return sum(process.role == "worker" for process in cluster.processes)


def kill_daemon(cluster: DevCluster, rng: random.Random, role: str) -> None:
    """One of two daemons of a role, started again; or a worker, which its supervisor starts again."""
    if role == "worker":
        wait_until(lambda: workers(cluster), 60, what="a worker to kill")
        cluster.kill(role, rng.randrange(workers(cluster)))
        return
    number = rng.randrange(2)
    cluster.kill(role, number)
    cluster.restart(role, number)


def kill_in_turn(
    cluster: DevCluster, rng: random.Random, seconds: float, others: Mapping[str, Callable[[], None]] | None = None
) -> Counter[str]:
    """Kill workers, ackers, nimbuses and ``others`` for so many seconds; return the number of kills of each.

    They come in random order; each comes again when all have come, workers twice as often. It takes longer if by then
    not all have come, or kills were rare. ``others``: functions that kill something and start it again.
    """
    victims = {role: functools.partial(kill_daemon, cluster, rng, role) for role in ("worker", "acker", "nimbus")}
    victims.update(others or {})
    kills: Counter[str] = Counter()
    deck: list[str] = []
    until_s = time.monotonic() + seconds
    enough = seconds / KILL_EVERY_S
    while (now_s := time.monotonic()) < until_s or len(kills) < len(victims) or kills.total() < enough:
        next_s = now_s + rng.uniform(*PAUSE_S)
        wait_until(lambda next_s=next_s: time.monotonic() > next_s, 60, what="the pause ends")
        deck = deck or rng.sample(["worker", *victims], len(victims) + 1)
        kind = deck.pop()
        victims[kind]()
        kills[kind] += 1
    return kills
