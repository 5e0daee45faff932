"""Placement of a topology's shards on ackers: sticky, even, deterministic.

A shard stays on its acker while the acker is alive. When the acker drains, new roots of the shard go to another acker.
``draining_*`` then names the old acker until that acker is gone: it finishes its pending trees. When an acker is dead,
its shards move at once. Their trees are lost, and the spouts fail the trees that they had pending.

A new acker gets shards of new topologies and of dead and draining ackers. Only a rebalance takes shards from a healthy
acker, to even out the load: the spouts are paused by then, and trees still pending fail at once and are replayed.
"""

from __future__ import annotations  # pure

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from .scheduler import even_sizes


@dataclass(frozen=True)
class Acker:
    """An acker that is registered and answers."""

    address: str
    draining: bool = False
    ready: bool = True  # False: overloaded or starting; keeps its shards, but others are preferred for new ones


@dataclass(frozen=True)
class Shard:
    """Placement of one shard. ``acker_id`` empty: no acker takes new roots yet, and spouts wait."""

    acker_id: str = ""
    address: str = ""
    draining_acker_id: str = ""
    draining_address: str = ""


def place_shards(
    count: int,
    current: Sequence[Shard],
    ackers: Mapping[str, Acker],
    load: Mapping[str, int],
    *,
    spread: bool = False,
) -> list[Shard]:
    """Place each of a topology's ``count`` shards on an acker.

    ``ackers``: all ackers alive, by id. ``load``: number of shards of other topologies per acker. A shard without an
    acker goes to the one with the fewest shards of this topology, then the fewest in all, then the smallest id.
    ``spread``: take from each acker the shards beyond its even share.
    """
    shards = [_settled(current[number] if number < len(current) else Shard(), ackers) for number in range(count)]
    candidates = _candidates(ackers)
    if spread:
        shards = _without_surplus(shards, candidates)
    own = Counter(shard.acker_id for shard in shards if shard.acker_id)
    placed = []
    for shard in shards:
        if shard.acker_id or not candidates:
            placed.append(shard)
            continue
        chosen = min(candidates, key=lambda acker_id: (own[acker_id], own[acker_id] + load.get(acker_id, 0), acker_id))
        own[chosen] += 1
        placed.append(Shard(chosen, ackers[chosen].address, shard.draining_acker_id, shard.draining_address))
    return placed


def load_of(topologies: Iterable[Sequence[Shard]]) -> Counter[str]:
    """Return the number of shards per acker. Each shard counts for the acker that takes its new roots."""
    return Counter(shard.acker_id for shards in topologies for shard in shards if shard.acker_id)


def _settled(shard: Shard, ackers: Mapping[str, Acker]) -> Shard:
    """Remove ackers that are gone from the shard; ``acker_id`` becomes empty if a new acker is needed."""
    acker = ackers.get(shard.acker_id)
    if acker is not None and acker.draining:
        return Shard("", "", shard.acker_id, acker.address)
    draining = ackers.get(shard.draining_acker_id)
    old = (shard.draining_acker_id, draining.address) if draining is not None else ("", "")
    if acker is None:
        return Shard("", "", *old)
    return Shard(shard.acker_id, acker.address, *old)


def _without_surplus(shards: Sequence[Shard], candidates: Sequence[str]) -> list[Shard]:
    """Clear the acker of shards beyond its even share. The ackers with most shards get the larger shares."""
    held = Counter(shard.acker_id for shard in shards)
    shares = even_sizes(len(shards), len(candidates))
    left = dict(zip(sorted(candidates, key=lambda one: (-held[one], one)), shares, strict=True))
    result = []
    for shard in shards:
        if left.get(shard.acker_id, 0) > 0:
            left[shard.acker_id] -= 1
            result.append(shard)
        else:
            result.append(Shard("", "", shard.draining_acker_id, shard.draining_address))
    return result


def _candidates(ackers: Mapping[str, Acker]) -> list[str]:
    staying = {acker_id: acker for acker_id, acker in ackers.items() if not acker.draining}
    ready = [acker_id for acker_id, acker in staying.items() if acker.ready]
    return sorted(ready or staying)
