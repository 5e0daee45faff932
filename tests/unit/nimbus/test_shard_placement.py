"""Acker shards: sticky, even, moved when their acker drains or dies."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from tupletree.nimbus.leader.shard_placement import Acker, Shard, place_shards


def ackers(*names: str, **others: Acker) -> dict[str, Acker]:
    return {name: Acker(f"{name}:1") for name in names} | others


def at(name: str, draining: str = "") -> Shard:
    return Shard(name, f"{name}:1" if name else "", draining, f"{draining}:1" if draining else "")


def test_shards_spread_evenly_ties_by_id() -> None:
    assert place_shards(3, [], ackers("a", "b"), {}) == [at("a"), at("b"), at("a")]


def test_other_topologies_count_when_it_is_even_otherwise() -> None:
    assert place_shards(1, [], ackers("a", "b"), {"a": 5, "b": 2}) == [at("b")]


def test_a_shard_stays_though_a_new_acker_appears() -> None:
    now = [at("a"), at("a")]
    assert place_shards(2, now, ackers("a", "b"), {}) == now


def test_a_rebalance_evens_out_and_moves_no_more_than_it_must() -> None:
    now = [at("a"), at("a"), at("b"), at("a"), at("a")]
    assert place_shards(5, now, ackers("a", "b"), {}, spread=True) == [at("a"), at("a"), at("b"), at("a"), at("b")]
    even = [at("b"), at("b"), at("a")]
    assert place_shards(3, even, ackers("a", "b"), {}, spread=True) == even


def test_a_dead_ackers_shards_move_at_once_and_nothing_drains() -> None:
    assert place_shards(2, [at("a"), at("b")], ackers("b"), {}) == [at("b"), at("b")]


def test_a_draining_ackers_shards_move_and_it_finishes_its_trees() -> None:
    alive = ackers("b", a=Acker("a:1", draining=True))
    assert place_shards(2, [at("a"), at("b")], alive, {}) == [at("b", "a"), at("b")]
    assert place_shards(2, [at("b", "a"), at("b")], alive, {}) == [at("b", "a"), at("b")]
    assert place_shards(2, [at("b", "a"), at("b")], ackers("b"), {}) == [at("b"), at("b")]


def test_without_an_acker_shards_are_empty_until_one_comes() -> None:
    assert place_shards(2, [at("a"), at("a")], {}, {}) == [at(""), at("")]
    assert place_shards(1, [at("a")], {"a": Acker("a:1", draining=True)}, {}) == [at("", "a")]
    assert place_shards(2, [at(""), at("")], ackers("b"), {}) == [at("b"), at("b")]


def test_an_unready_acker_keeps_its_shards_and_gets_new_ones_only_if_alone() -> None:
    busy = Acker("a:1", ready=False)
    assert place_shards(2, [at("a")], ackers("b", a=busy), {}) == [at("a"), at("b")]
    assert place_shards(1, [], {"a": busy}, {}) == [at("a")]


def test_an_acker_that_returns_at_another_address_is_found_there() -> None:
    assert place_shards(1, [at("a")], {"a": Acker("elsewhere:1")}, {}) == [Shard("a", "elsewhere:1")]


names = st.sampled_from(["", "a", "b", "c", "d"])
populations = st.dictionaries(
    st.sampled_from("abcd"),
    st.builds(lambda draining, ready: (draining, ready), st.booleans(), st.booleans()),
).map(lambda states: {name: Acker(f"{name}:1", *state) for name, state in states.items()})
maps = st.lists(st.builds(at, names, names), max_size=8)


@given(st.integers(0, 8), maps, populations, st.dictionaries(st.sampled_from("abcd"), st.integers(0, 5)))
def test_shards_are_where_they_may_be_and_stay_there(
    count: int, current: list[Shard], alive: Mapping[str, Acker], load: Mapping[str, int]
) -> None:
    after = place_shards(count, current, alive, load)
    staying = {name for name, acker in alive.items() if not acker.draining}
    assert len(after) == count
    for number, shard in enumerate(after):
        assert shard.acker_id in staying or (shard.acker_id == "" and not staying)
        assert shard.draining_acker_id in {*alive, ""}
        if number < len(current) and current[number].acker_id in staying:
            assert shard.acker_id == current[number].acker_id
    assert place_shards(count, after, alive, load) == after
    even = place_shards(count, current, alive, load, spread=True)
    assert place_shards(count, even, alive, load, spread=True) == even


@given(st.integers(0, 20), st.sets(st.sampled_from("abcd"), min_size=1))
def test_fresh_shards_are_even(count: int, alive: set[str]) -> None:
    held = [shard.acker_id for shard in place_shards(count, [], ackers(*alive), {})]
    counts = [held.count(name) for name in alive]
    assert max(counts) - min(counts) <= 1
