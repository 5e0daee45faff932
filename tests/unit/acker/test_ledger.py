"""The ledger's rules, one by one: what each update does, and the cases listed in the module's docstring."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import pytest

from tupletree.acker.ledger import Ledger, Verdicts
from tupletree.errors import UsageError

SPOUT, OTHER_SPOUT = 3, 70_000
ROOT, OTHER_ROOT = 2**64 - 1, 17
E1, E2, E3 = 0x9E3779B97F4A7C15, 0x0123456789ABCDEF, 0xFEDCBA9876543211


class Shard:
    """One ledger, fed one kind of update at a time; verdicts as plain dictionaries."""

    def __init__(self, buckets: int = 3) -> None:
        self.ledger = Ledger(buckets)
        self.now_s = 0.0

    def init(self, root: int, value: int, task: int = SPOUT) -> dict[str, dict[int, list[int]]]:
        return self._apply(inits=[(root, value, task)])

    def ack(self, root: int, value: int) -> dict[str, dict[int, list[int]]]:
        return self._apply(acks=[(root, value)])

    def fail(self, root: int) -> dict[str, dict[int, list[int]]]:
        return self._apply(fails=[root])

    def reset(self, root: int) -> dict[str, dict[int, list[int]]]:
        return self._apply(resets=[root])

    def rotate(self) -> dict[str, dict[int, list[int]]]:
        return plain(self.ledger.rotate(self.now_s))

    def _apply(
        self,
        inits: Sequence[tuple[int, int, int]] = (),
        acks: Sequence[tuple[int, int]] = (),
        fails: Sequence[int] = (),
        resets: Sequence[int] = (),
    ) -> dict[str, dict[int, list[int]]]:
        return plain(
            self.ledger.apply(
                array("Q", [root for root, _, _ in inits]),
                array("Q", [value for _, value, _ in inits]),
                array("I", [task for _, _, task in inits]),
                array("Q", [root for root, _ in acks]),
                array("Q", [value for _, value in acks]),
                array("Q", fails),
                array("Q", resets),
                self.now_s,
            )
        )


def plain(verdicts: Verdicts) -> dict[str, dict[int, list[int]]]:
    kinds = {
        "acked": verdicts.acked,
        "failed": verdicts.failed,
        "expired": verdicts.expired,
        "reset": verdicts.reset,
    }
    assert bool(verdicts) == any(kinds.values())
    return {kind: {task: list(roots) for task, roots in of.items()} for kind, of in kinds.items() if of}


@pytest.fixture
def shard() -> Shard:
    return Shard()


def test_a_tree_is_acked_when_its_last_edge_is(shard: Shard) -> None:
    assert shard.init(ROOT, E1) == {}
    assert shard.ack(ROOT, E1 ^ E2 ^ E3) == {}  # two children
    assert shard.ack(ROOT, E2) == {}
    assert shard.ack(ROOT, E3) == {"acked": {SPOUT: [ROOT]}}
    assert len(shard.ledger) == shard.ledger.trees == 0


def test_fail_ends_the_tree_at_once(shard: Shard) -> None:
    shard.init(ROOT, E1)
    assert shard.fail(ROOT) == {"failed": {SPOUT: [ROOT]}}
    assert len(shard.ledger) == shard.ledger.trees == 0


def test_duplicate_init_is_not_applied_twice(shard: Shard) -> None:
    shard.init(ROOT, E1)
    assert shard.init(ROOT, E1) == {}  # XORed again it would be 0: a pending tree reported as acked
    assert shard.ledger.trees == 1
    assert shard.ack(ROOT, E1) == {"acked": {SPOUT: [ROOT]}}


def test_duplicate_init_does_not_move_the_tree_to_another_spout(shard: Shard) -> None:
    shard.init(ROOT, E1, SPOUT)
    shard.init(ROOT, E2, OTHER_SPOUT)
    assert shard.ack(ROOT, E1) == {"acked": {SPOUT: [ROOT]}}


def test_duplicate_init_starts_the_life_again(shard: Shard) -> None:
    shard.init(ROOT, E1)
    shard.rotate()
    shard.init(ROOT, E1)
    assert [shard.rotate() for _ in range(3)] == [{}, {}, {"expired": {SPOUT: [ROOT]}}]


def test_ack_before_init(shard: Shard) -> None:
    assert shard.ack(ROOT, E1) == {}
    assert (len(shard.ledger), shard.ledger.trees) == (1, 0)
    assert shard.init(ROOT, E1) == {"acked": {SPOUT: [ROOT]}}
    assert (len(shard.ledger), shard.ledger.trees) == (0, 0)


def test_part_of_the_acks_before_init(shard: Shard) -> None:
    shard.ack(ROOT, E2)
    assert shard.init(ROOT, E1) == {}
    assert shard.ack(ROOT, E1 ^ E2) == {"acked": {SPOUT: [ROOT]}}


def test_fail_before_init(shard: Shard) -> None:
    assert shard.fail(ROOT) == {}
    assert shard.init(ROOT, E1) == {"failed": {SPOUT: [ROOT]}}
    assert len(shard.ledger) == shard.ledger.trees == 0


def test_fail_before_init_survives_acks_in_between(shard: Shard) -> None:
    shard.fail(ROOT)
    assert shard.ack(ROOT, E2) == {}
    assert shard.reset(ROOT) == {}
    assert shard.init(ROOT, E1) == {"failed": {SPOUT: [ROOT]}}


def test_zero_is_looked_at_before_failed(shard: Shard) -> None:
    shard.fail(ROOT)
    shard.ack(ROOT, E1)
    assert shard.init(ROOT, E1) == {"acked": {SPOUT: [ROOT]}}


def test_late_ack_after_completion_expires_without_a_verdict(shard: Shard) -> None:
    shard.init(ROOT, E1)
    shard.ack(ROOT, E1)
    assert shard.ack(ROOT, E1) == {}
    assert (len(shard.ledger), shard.ledger.trees) == (1, 0)
    assert [shard.rotate() for _ in range(3)] == [{}, {}, {}]
    assert len(shard.ledger) == 0
    assert shard.ledger.totals.timeouts == 0


def test_late_ack_after_failure_gives_no_second_verdict(shard: Shard) -> None:
    shard.init(ROOT, E1)
    shard.fail(ROOT)
    assert shard.ack(ROOT, E1) == {}
    assert shard.fail(ROOT) == {}


def test_reset_is_reported_to_the_spout_and_starts_the_life_again(shard: Shard) -> None:
    shard.init(ROOT, E1)
    shard.rotate()
    shard.rotate()
    assert shard.reset(ROOT) == {"reset": {SPOUT: [ROOT]}}
    assert [shard.rotate() for _ in range(3)] == [{}, {}, {"expired": {SPOUT: [ROOT]}}]


def test_reset_for_an_unknown_root_is_reported_to_nobody(shard: Shard) -> None:
    assert shard.reset(ROOT) == {}
    assert (len(shard.ledger), shard.ledger.trees) == (1, 0)
    assert shard.init(ROOT, E1) == {}
    assert shard.ack(ROOT, E1) == {"acked": {SPOUT: [ROOT]}}


def test_zero_before_init_waits_for_the_init(shard: Shard) -> None:
    shard.ack(ROOT, E2)
    assert shard.ack(ROOT, E2) == {}
    assert (len(shard.ledger), shard.ledger.trees) == (1, 0)
    assert shard.init(ROOT, E1) == {}
    assert shard.ack(ROOT, E1) == {"acked": {SPOUT: [ROOT]}}


def test_two_roots_sharing_an_edge_end_independently(shard: Shard) -> None:
    shard.init(ROOT, E1, SPOUT)
    shard.init(OTHER_ROOT, E2, OTHER_SPOUT)
    shard.ack(ROOT, E1 ^ E3)  # E3 is anchored to both
    shard.ack(OTHER_ROOT, E2 ^ E3)
    assert shard.ack(OTHER_ROOT, E3) == {"acked": {OTHER_SPOUT: [OTHER_ROOT]}}
    assert shard.ack(ROOT, E3) == {"acked": {SPOUT: [ROOT]}}


def test_init_of_zero_is_acked_at_once(shard: Shard) -> None:
    assert shard.init(ROOT, 0) == {"acked": {SPOUT: [ROOT]}}
    assert len(shard.ledger) == shard.ledger.trees == 0


def test_verdicts_are_grouped_by_spout_task(shard: Shard) -> None:
    verdicts = shard._apply(inits=[(1, 0, 5), (2, 0, 9), (3, 0, 5), (4, E1, 9)], fails=[4])
    assert verdicts == {"acked": {5: [1, 3], 9: [2]}, "failed": {9: [4]}}


def test_every_kind_of_update_of_one_root_in_one_batch(shard: Shard) -> None:
    verdicts = shard._apply(inits=[(1, E1, 5)], acks=[(1, E1 ^ E2), (1, E2)], resets=[1])
    assert verdicts == {"acked": {5: [1]}}  # the reset comes too late and is an entry nobody waits for
    assert shard.ledger.trees == 0


def test_the_largest_ids_fit(shard: Shard) -> None:
    top = 2**64 - 1
    shard.init(top, top, 2**32 - 1)
    shard.rotate()
    assert shard.ack(top, top) == {"acked": {2**32 - 1: [top]}}


@pytest.mark.parametrize("update", ["init", "ack", "fail", "reset"])
@pytest.mark.parametrize("age", [0, 1, 2])
def test_every_update_starts_the_life_again_whatever_the_age(update: str, age: int) -> None:
    """An entry expires with exactly the third rotation after its last update (a RotatingMap of three buckets)."""
    shard = Shard(3)
    if update == "fail":  # of a known tree it would end it: look at an entry that still waits for its init
        shard.ack(ROOT, E1)
        end: dict[str, dict[int, list[int]]] = {}
    else:
        shard.init(ROOT, E1)
        end = {"expired": {SPOUT: [ROOT]}}
    for _ in range(age):
        shard.rotate()
    match update:
        case "init":
            shard.init(ROOT, E1)
        case "ack":
            shard.ack(ROOT, E2)
        case "fail":
            shard.fail(ROOT)
        case "reset":
            shard.reset(ROOT)
    for _ in range(2):
        assert shard.rotate() == {}
        assert len(shard.ledger) == 1
    assert shard.rotate() == end
    assert len(shard.ledger) == 0


@pytest.mark.parametrize("buckets", [2, 3, 4])
def test_the_expiry_window_is_that_of_the_rotating_map(buckets: int) -> None:
    shard = Shard(buckets)
    shard.init(ROOT, E1)
    assert [shard.rotate() for _ in range(buckets)] == [{}] * (buckets - 1) + [{"expired": {SPOUT: [ROOT]}}]
    assert shard.ledger.trees == 0


def test_an_ack_after_expiry_finds_nothing(shard: Shard) -> None:
    shard.init(ROOT, E1)
    for _ in range(3):
        shard.rotate()
    assert shard.ack(ROOT, E1) == {}


def test_completing_a_tree_in_each_bucket(shard: Shard) -> None:
    for age in range(3):
        shard.init(ROOT, E1)
        for _ in range(age):
            shard.rotate()
        assert shard.ack(ROOT, E1) == {"acked": {SPOUT: [ROOT]}}
        assert len(shard.ledger) == 0


def test_rotation_in_steps_expires_the_same(shard: Shard) -> None:
    for root in range(1, 11):
        shard.init(root, E1, task=root % 2)
    shard.ack(99, E1)
    shard.rotate()
    shard.rotate()
    parts = [plain(part) for part in shard.ledger.rotation(0.0, step=4)]
    assert len(parts) == 3
    expired = sorted(root for part in parts for roots in part.get("expired", {}).values() for root in roots)
    assert expired == list(range(1, 11))
    assert shard.ledger.totals.timeouts == 10
    assert len(shard.ledger) == shard.ledger.trees == 0


def test_without_timeouts_trees_stay_and_orphans_go(shard: Shard) -> None:
    shard.init(ROOT, E1)
    shard.ack(99, E1)
    for _ in range(7):
        assert not shard.ledger.rotate(0.0, trees_expire=False)
    assert (len(shard.ledger), shard.ledger.trees) == (1, 1)
    assert shard.ack(ROOT, E1) == {"acked": {SPOUT: [ROOT]}}


def test_oldest_age_counts_from_the_first_update_of_a_pending_tree(shard: Shard) -> None:
    assert shard.ledger.oldest_age_s(5.0) == 0.0
    shard.now_s = 10.0
    shard.ack(ROOT, E2)  # first seen now
    shard.now_s = 12.0
    shard.init(OTHER_ROOT, E1)
    assert shard.ledger.oldest_age_s(13.0) == pytest.approx(1.0)  # ROOT has no init: not a tree yet
    shard.init(ROOT, E1)
    assert shard.ledger.oldest_age_s(13.0) == pytest.approx(3.0)
    shard.rotate()
    shard.reset(ROOT)
    assert shard.ledger.oldest_age_s(20.0) == pytest.approx(10.0)  # living longer does not make it younger
    shard.ack(ROOT, E1 ^ E2)
    assert shard.ledger.oldest_age_s(20.0) == pytest.approx(8.0)
    shard.fail(OTHER_ROOT)
    assert shard.ledger.oldest_age_s(20.0) == 0.0


def test_totals(shard: Shard) -> None:
    shard.init(1, E1)
    shard.init(2, E1)
    shard.init(3, E1)
    shard.ack(1, E1 ^ E2)
    shard.ack(1, E2)
    shard.fail(2)
    shard.reset(3)
    for _ in range(3):
        shard.rotate()
    totals = shard.ledger.totals
    assert (totals.inits, totals.acks, totals.fails, totals.resets) == (3, 2, 1, 1)
    assert (totals.completed, totals.failed, totals.timeouts) == (1, 1, 1)


def test_bytes_held_do_not_depend_on_the_size_of_the_trees(shard: Shard) -> None:
    for root in range(1000, 2000):
        shard.init(root, E1)
    before = shard.ledger.bytes_held
    for edge in range(1, 50):
        for root in range(1000, 2000, 100):
            shard.ack(root, edge)
    assert shard.ledger.bytes_held == before
    assert before / 1000 < 200


def test_fewer_than_two_buckets_are_refused() -> None:
    with pytest.raises(UsageError, match="at least 2 buckets"):
        Ledger(1)
