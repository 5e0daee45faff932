"""Who is killed when: drawn from a seed, before anything runs.

Pure: the same seed, the same plan. Which process it meets depends on which ones live at that moment.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

ROLES = ("worker", "acker", "supervisor", "nimbus")
PAUSE_S = (2.0, 5.0)  # between two kills
DOWN_S = (0.5, 4.0)  # until a daemon is started again
ZOOKEEPER_DOWN_S = (0.5, 2.0)


@dataclass(frozen=True, order=True)
class Kill:
    """kill -9 of one process. ``pick``, from 0 to 1, says which of those that live; ``down_s`` for how long."""

    at_s: float
    role: str
    pick: float
    down_s: float


def plan(seconds: float, seed: int) -> list[Kill]:
    """Kills in the order of their times, up to ``seconds``; in the middle of it ZooKeeper.

    Roles come in random order, but each once before any comes again.
    """
    rng = random.Random(seed)
    kills = [Kill(seconds / 2, "zookeeper", 0.0, rng.uniform(*ZOOKEEPER_DOWN_S))]
    deck: list[str] = []
    at_s = rng.uniform(0, PAUSE_S[0])
    while at_s < seconds:
        deck = deck or rng.sample(ROLES, len(ROLES))
        kills.append(Kill(at_s, deck.pop(), rng.random(), rng.uniform(*DOWN_S)))
        at_s += rng.uniform(*PAUSE_S)
    return sorted(kills)
