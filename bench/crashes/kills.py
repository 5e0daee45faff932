"""The plan of kills, drawn from a seed before the run.

Pure: the same seed gives the same plan. The victim of a kill depends on the processes alive at that moment.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

ROLES = ("worker", "acker", "supervisor", "nimbus")
PAUSE_S = (2.0, 5.0)  # between two kills
DOWN_S = (0.5, 4.0)  # until a daemon is restarted
ZOOKEEPER_DOWN_S = (0.5, 2.0)


@dataclass(frozen=True, order=True)
class Kill:
    """kill -9 of one process. ``pick``, from 0 to 1, selects the victim; ``down_s`` is the time until the restart."""

    at_s: float
    role: str
    pick: float
    down_s: float


def plan(seconds: float, seed: int) -> list[Kill]:
    """Return kills in the order of their times, up to ``seconds``; ZooKeeper's is in the middle.

    Roles come in random order. A role is repeated only after all roles have come.
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
