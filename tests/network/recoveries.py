"""How long partitions stopped two topologies, measured, and recorded where ``NETWORK_RECORD`` names a file.

NETWORK_RECORD=partitions.json python -m pytest tests/network
"""

from __future__ import annotations

import itertools
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from running import Pair

VARIABLE = "NETWORK_RECORD"


@dataclass(frozen=True)
class Recovery:
    """One partition. Seconds."""

    what: str
    noticed_s: float  # from the cut until the cluster showed that it had noticed
    lasted_s: float  # from the cut until it was healed
    silent_s: dict[str, float]  # the longest pause between two signs of progress, by topology
    flows_after_s: dict[str, float]  # from the healing to the next progress
    normal_after_s: float  # from the healing until all daemons were there and both topologies flowed

    @classmethod
    def of(cls, what: str, pair: Pair, cut_s: float, noticed_s: float, healed_s: float, normal_s: float) -> Recovery:
        """From moments in unix seconds."""
        progress = {one.name: one.progress_s() for one in pair.both}
        return cls(
            what,
            noticed_s - cut_s,
            healed_s - cut_s,
            {name: longest_pause_s(moments, cut_s, normal_s) for name, moments in progress.items()},
            {name: min(at for at in moments if at > healed_s) - healed_s for name, moments in progress.items()},
            normal_s - healed_s,
        )


def longest_pause_s(moments: list[float], begin_s: float, end_s: float) -> float:
    """The longest time between two neighbours among ``moments``, of those that reach into begin_s … end_s."""
    pauses = itertools.pairwise(moments)
    return max((later - sooner for sooner, later in pauses if later > begin_s and sooner < end_s), default=0.0)


def record(recovery: Recovery) -> None:
    """Add one to the file, if there is to be one."""
    print(json.dumps(asdict(recovery)))
    if file := os.environ.get(VARIABLE):
        with Path(file).open("a", encoding="utf-8") as out:
            out.write(json.dumps(asdict(recovery)) + "\n")
