"""The plan of kills, drawn from a seed before the run.

A driver needs some seconds to come back, since Spark has to start. Kills of drivers are far apart, so that batches are
committed between them; other processes are killed in between.

Pure: the same seed gives the same plan. The victim of a kill depends on the processes alive at that moment.
"""

from __future__ import annotations

import itertools
import random

from bench.crashes.kills import DOWN_S, Kill

SPARK = ("driver", "executor")
"""The worker that drives Spark; Spark's JVM, which contains the executor on a local master."""

OTHERS = ("task", "acker", "nimbus")
"""A Python worker that runs a Spark task; an acker; the leading nimbus."""

PAUSE_S = (3.0, 5.0)  # between two kills
SPARK_PAUSE_S = (12.0, 15.0)  # between two kills that restart Spark
FIRST_S = 2.0


def plan(seconds: float, seed: int) -> list[Kill]:
    """Return kills in the order of their times, up to ``seconds``.

    The driver and the executor take turns. The others come in random order, repeated only after all have come.
    """
    rng = random.Random(seed)
    kills: list[Kill] = []
    turns, deck = itertools.cycle(SPARK), list[str]()
    at_s = rng.uniform(0, FIRST_S)
    spark_at_s = rng.uniform(0, PAUSE_S[1])
    while at_s < seconds:
        if at_s >= spark_at_s:
            role = next(turns)
            spark_at_s = at_s + rng.uniform(*SPARK_PAUSE_S)
        else:
            deck = deck or rng.sample(OTHERS, len(OTHERS))
            role = deck.pop()
        kills.append(Kill(at_s, role, rng.random(), rng.uniform(*DOWN_S)))
        at_s += rng.uniform(*PAUSE_S)
    return kills
