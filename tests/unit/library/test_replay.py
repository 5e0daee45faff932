"""The messages of a spout until each is processed: pauses, attempts, positions, generations."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tupletree._replay import MAX_WAITING, Lane, Pending, Replay
from tupletree._wire.fail_reasons import FailReason
from tupletree.backoff import Backoff

BAD = FailReason("split", 3, "ValueError: no")
FINAL = FailReason("split", 3, "ValueError: no", retry=False)
RETRY = Backoff(first_s=1, factor=2, max_s=60, max_attempts=3)


def begin(replay: Replay, count: int) -> list[Pending]:
    return [replay.begin([number], "default", position=number) for number in range(count)]


def test_a_failed_message_waits_longer_each_time_and_is_given_up_after_the_last_attempt() -> None:
    replay = Replay(RETRY)
    [one] = begin(replay, 1)
    assert not replay.failed(one, BAD, now_s=10)
    assert replay.pop_due(10.9) is None and replay.pop_due(11) is one
    assert not replay.failed(one, BAD, now_s=20)
    assert replay.pop_due(21.9) is None and replay.pop_due(22) is one
    assert replay.failed(one, BAD, now_s=30)
    assert (one.attempts, one.reason) == (3, BAD)
    assert replay.pop_due(1000) is None


def test_a_final_failure_is_given_up_at_once() -> None:
    replay = Replay(RETRY)
    [one] = begin(replay, 1)
    assert replay.failed(one, FINAL, now_s=0)


def test_the_pauses_are_those_of_the_retries_for_any_number_of_attempts() -> None:
    class Drawn(Backoff):
        """Pauses that a person's own class computes anew each time."""

        def pause_s(self, attempts: int) -> float:
            return attempts / 7

    for retry in (Backoff(first_s=0.001, factor=1.5, max_s=7, max_attempts=None), Drawn(max_attempts=None)):
        replay = Replay(retry)
        [one] = begin(replay, 1)
        for attempts in range(1, 40):
            assert not replay.failed(one, BAD, now_s=0)
            assert replay.due_s == retry.pause_s(attempts) and replay.pop_due(replay.due_s) is one


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5), st.booleans()), max_size=60))
def test_messages_are_due_in_the_order_in_which_their_pauses_end(failures: list[tuple[int, int, bool]]) -> None:
    class Jumps(Backoff):
        """Pauses that need not grow."""

        def pause_s(self, attempts: int) -> float:
            return [3.0, 1.0, 2.0, 1.0][attempts - 1]

    replay = Replay(Jumps(max_attempts=None))
    lanes = Lane(), Lane()
    due: list[tuple[float, Pending]] = []
    now_s = 0.0
    for attempts, elapsed_s, is_first in failures:
        now_s += elapsed_s / 4
        one = replay.begin([0], "default", lane=lanes[0 if is_first else 1])
        one.attempts = attempts
        replay.failed(one, BAD, now_s)
        due.append((now_s + replay.retry.pause_s(attempts + 1), one))
    replay.end(lanes[0])
    due = sorted((entry for entry in due if entry[1].lane is lanes[1]), key=lambda entry: entry[0])
    assert replay.waiting == len(due)
    for at_s, _ in due:
        assert replay.due_s == at_s and replay.pop_due(at_s - 0.01) is None
        popped = replay.pop_due(at_s)
        assert popped is not None and popped.due_s == at_s
        replay.done(popped)
    assert replay.waiting == 0 and replay.pop_due(1000) is None and len(lanes[1]) == 0


def test_the_last_attempt_is_what_a_class_of_ones_own_says() -> None:
    class Thrice(Backoff):
        def is_last(self, attempts: int) -> bool:
            return attempts == 3

    replay = Replay(Thrice(max_attempts=None))
    [one] = begin(replay, 1)
    assert [replay.failed(one, BAD, now_s=0) for _ in range(3)] == [False, False, True]


def test_a_tree_lost_with_a_process_is_no_attempt() -> None:
    replay = Replay(RETRY)
    [one] = begin(replay, 1)
    for now_s in range(100):
        assert not replay.failed(one, None, now_s)
        assert replay.pop_due(now_s + 1) is one
    assert one.attempts == 0


def test_what_is_due_first_comes_first() -> None:
    replay = Replay(RETRY)
    first, second, third = begin(replay, 3)
    for one, now_s in ((third, 0), (first, 1), (second, 1)):
        replay.failed(one, BAD, now_s)
    assert [replay.pop_due(10) for _ in range(4)] == [third, first, second, None]


@given(st.permutations(range(8)))
def test_the_position_is_that_of_the_longest_prefix_that_is_done(order: list[int]) -> None:
    replay = Replay(RETRY)
    messages = begin(replay, 8)
    done: set[int] = set()
    for number in order:
        assert replay.done(messages[number])
        done.add(number)
        prefix = next(count for count in range(9) if count not in done)
        assert replay.finished == prefix
        assert replay.position == (prefix - 1 if prefix else None)
        assert len(replay) == 8 - prefix


def test_a_message_ends_once() -> None:
    replay = Replay(RETRY)
    one, _ = begin(replay, 2)
    assert replay.done(one) and not replay.done(one)
    assert not replay.failed(one, FINAL, 0), "the verdict came twice"
    assert replay.pop_due(1000) is None


def test_what_is_heard_of_an_older_generation_is_ignored() -> None:
    replay = Replay(RETRY)
    old = begin(replay, 3)
    replay.done(old[0])
    replay.failed(old[1], BAD, 0)
    replay.reset(position=0)
    [new] = begin(replay, 1)
    assert not replay.done(old[1]) and not replay.failed(old[2], FINAL, 0)
    assert replay.pop_due(1000) is None and replay.position == 0 and len(replay) == 1
    assert replay.done(new) and replay.position == 0 and replay.finished == 1


def test_a_message_without_an_id_has_its_number() -> None:
    replay = Replay(RETRY)
    assert [replay.begin([1], "default").id, replay.begin([1], "default", "x").id] == [0, "x"]


def test_a_message_without_end_costs_nothing_for_the_later_ones_of_a_source_without_positions() -> None:
    replay = Replay(RETRY, is_ordered=False)
    poison = replay.begin(["poison"], "default")
    for number in range(1000):
        assert replay.done(replay.begin([number], "default"))
    assert len(replay) == 1
    replay.reset()
    assert not replay.done(poison)
    first, second = (replay.begin([number], "default") for number in range(2))
    assert replay.done(second) and not replay.done(second) and len(replay) == 1
    assert replay.done(first) and len(replay) == 0


@given(st.randoms(use_true_random=False), st.booleans(), st.integers(1, 300))
def test_a_lane_knows_its_position_whatever_ends_when_and_however_many_are_under_way(
    random: Random, is_ordered: bool, most: int
) -> None:
    replay, lane = Replay(RETRY), Lane("start", is_ordered=is_ordered)
    live: dict[int, Pending] = {}
    positions: list[str | None] = []
    for number in range(600):
        position = random.choice([None, f"after {number}"])
        positions.append(position)
        live[number] = replay.begin([number], "default", position=position, lane=lane)
        while len(live) > random.randrange(most):
            oldest = random.random() < 0.3
            ended = live.pop(min(live) if oldest else random.choice(list(live)))
            assert ended.is_live() and replay.done(ended) and not replay.done(ended) and not ended.is_live()
        first = min(live, default=number + 1)
        assert all(one.is_live() for one in live.values())
        if is_ordered:
            known = [position for position in positions[:first] if position is not None]
            assert (lane.finished, len(lane)) == (first, number + 1 - first)
            assert lane.position == (known[-1] if known else "start")
        else:
            assert (lane.position, len(lane)) == ("start", len(live))
    lane.end()
    assert len(lane) == 0 and not any(replay.done(one) or one.is_live() for one in live.values())


def test_lanes_have_positions_of_their_own_and_end_alone() -> None:
    replay = Replay(RETRY)
    lanes = Lane(100), Lane(200)
    messages = [replay.begin([n], "default", n, lane.position + n + 1, lane) for lane in lanes for n in range(3)]
    for one in (messages[0], messages[2], messages[3], messages[4]):
        assert replay.done(one)
    assert [lane.position for lane in lanes] == [101, 202]
    assert [lane.newest for lane in lanes] == [103, 203]
    replay.failed(messages[1], BAD, 0)
    replay.failed(messages[5], BAD, 0)
    replay.end(lanes[0])
    assert replay.waiting == 1 and not replay.done(messages[1])
    assert replay.pop_due(10) is messages[5] and replay.done(messages[5])
    assert (lanes[0].position, lanes[1].position) == (101, 203)


def test_a_lane_skips_positions_without_messages() -> None:
    replay, lane = Replay(RETRY), Lane(0)
    lane.skip_to(5)
    assert lane.position == 5
    one = replay.begin([1], "default", position=6, lane=lane)
    lane.skip_to(9)
    assert (lane.position, lane.newest) == (5, 9)
    replay.done(one)
    assert lane.position == 9


def test_none_is_read_while_the_most_messages_wait_or_are_ahead_of_the_oldest() -> None:
    replay = Replay(RETRY)
    waiting = begin(replay, MAX_WAITING)
    assert replay.may_read(MAX_WAITING + 1) and not replay.may_read(MAX_WAITING)
    for one in waiting:
        replay.failed(one, BAD, now_s=0)
    assert not replay.may_read(MAX_WAITING + 1)
    first = replay.pop_due(1)
    assert first is waiting[0] and replay.may_read(MAX_WAITING + 1)
    assert not replay.may_read(MAX_WAITING), "the oldest is not done"
    assert replay.done(first) and replay.may_read(MAX_WAITING)
