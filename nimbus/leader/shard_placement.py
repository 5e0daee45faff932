"""Which acker holds which shard of a topology: sticky, even, deterministic.

A shard stays where it is while its acker lives. When the acker drains, the shard goes to another for new roots, and
``draining_*`` names the old one, which finishes the trees it began, until it is gone. When the acker is dead, the
shard moves at once; its trees are lost with it, and the spouts that had them pending fail them themselves.

A new acker gets shards from new topologies and from dead and draining ackers. Only a rebalance takes shards from a
healthy acker to even things out: spouts have paused before, and what is pending still fails at once and is replayed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from .scheduler import even_sizes


@dataclass(frozen=True)
class Acker:
    """An acker that is registered and answers."""

    address: str
    draining: bool = False
    ready: bool = True  # not: overloaded or still starting; it keeps its shards, others come first for new ones


@dataclass(frozen=True)
class Shard:
    """One shard's place. ``acker_id`` empty: nobody takes new roots yet, spouts wait."""

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
    """A place for each of a topology's ``count`` shards.

    ``ackers``: all that live, by id. ``load``: shards of other topologies they hold. A shard without a place goes to
    the acker with the fewest of this topology, then the fewest in all, then the smallest id. ``spread``: take from
    ackers what they hold beyond an even share.
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
    """How many shards each acker holds for new roots."""
    return Counter(shard.acker_id for shards in topologies for shard in shards if shard.acker_id)


def _settled(shard: Shard, ackers: Mapping[str, Acker]) -> Shard:
    """The shard without what is gone: ``acker_id`` empty if it needs a new one."""
    acker = ackers.get(shard.acker_id)
    if acker is not None and acker.draining:
        return Shard("", "", shard.acker_id, acker.address)
    draining = ackers.get(shard.draining_acker_id)
    old = (shard.draining_acker_id, draining.address) if draining is not None else ("", "")
    if acker is None:
        return Shard("", "", *old)
    return Shard(shard.acker_id, acker.address, *old)


def _without_surplus(shards: Sequence[Shard], candidates: Sequence[str]) -> list[Shard]:
    """The shards, without a place where their acker holds more than its even share. Who holds more may keep more."""
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
