"""Shuffles that follow the load: a slow task gets what it can execute, and the others what they can."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tupletree.worker.core.routing import WHOLE, Shares, Shuffled, shuffle
from tupletree.worker.execution.load_sampler import EARLY_S, MIN_WAIT_S, LoadSampler, by_wait, has_ended_early
from tupletree.worker.execution.load_shares import DOUBLING_S, MAX_WAIT_S, SLACK_S, LoadMeter, LoadShares
from tupletree.worker.execution.loads import Loads

STEP_S = 0.002
SAMPLE_S = 0.05


def shuffled(count: int, seed: int = 1) -> tuple[Shuffled, Shares]:
    chooser, shares = shuffle(list(range(count)), random.Random(seed)), Shares(count)
    assert isinstance(chooser, Shuffled)
    chooser.share_by(shares)
    return chooser, shares


class Model:
    """Tasks that execute rows at speeds of their own, and senders that hear of their loads ``told_s`` later.

    At most ``pending`` rows wait at any time: the senders emit whenever there are fewer. A call is for up to ``batch``
    rows, which end together.
    """

    def __init__(
        self, rates: Sequence[float], pending: int, *, seed: int, told_s: float, is_aware: bool = True, batch: int = 1
    ) -> None:
        self.rates = list(rates)
        self.pending = pending
        self.is_aware = is_aware
        self.executed = [0] * len(rates)
        self.waiting = [0] * len(rates)
        self._told_every = round(told_s / SAMPLE_S)
        self._rng = random.Random(seed)
        self._worked = [0.0] * len(rates)
        self._needed = [0.0] * len(rates)
        self._batch = batch
        self._begun = [0] * len(rates)  # rows of the present call
        self._meters = [LoadMeter(0.0) for _ in rates]
        self._free_s: dict[int, float] = {}
        self._senders = []
        for number in range(3):
            chooser, shares = shuffled(len(rates), 10 * seed + number)
            self._senders.append((chooser, LoadShares(range(len(rates)), shares, 0.0)))
        self._steps = 0

    def run(self, duration_s: float) -> list[int]:
        """Return the rows that each task executes in this time."""
        before = list(self.executed)
        for _ in range(round(duration_s / STEP_S)):
            self._steps += 1
            self._execute()
            if self._steps % round(SAMPLE_S / STEP_S) == 0:
                self._sample(self._steps // round(SAMPLE_S / STEP_S), self._steps * STEP_S)
            for number in range(max(0, self.pending - sum(self.waiting))):
                self.waiting[self._senders[number % len(self._senders)][0].choose([])] += 1
        return [now - then for now, then in zip(self.executed, before, strict=True)]

    def _execute(self) -> None:
        for task, rate in enumerate(self.rates):
            self._worked[task] += rate * STEP_S if self.waiting[task] else 0
            while self.waiting[task]:
                if not self._begun[task]:
                    self._begun[task] = min(self._batch, self.waiting[task])
                    self._needed[task] = sum(self._rng.expovariate(1) for _ in range(self._begun[task]))
                if self._worked[task] < self._needed[task]:
                    break
                self._worked[task] -= self._needed[task]
                self.waiting[task] -= self._begun[task]
                self.executed[task] += self._begun[task]
                self._begun[task] = 0
            if not self.waiting[task]:
                self._worked[task] = 0.0

    def _sample(self, number: int, now_s: float) -> None:
        waits_s = {
            task: meter.sample(self.waiting[task], self.executed[task], now_s)
            for task, meter in enumerate(self._meters)
        }
        if number % self._told_every == 0:
            self._free_s = {task: now_s + wait_s for task, wait_s in waits_s.items() if wait_s >= MIN_WAIT_S}
        if self.is_aware:
            known = {task: free_s - now_s for task, free_s in self._free_s.items() if free_s > now_s}
            for _, shares in self._senders:
                shares.update(known, (), now_s)


RATES = [
    [1000.0, 1000.0, 1000.0, 10.0],
    [1000.0, 100.0],
    [1000.0, 100.0, 100.0, 100.0],
    [1000.0, 1000.0, 1000.0, 500.0],
    [100.0, 100.0, 100.0, 10.0],
]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("told_s", [0.05, 0.5])
@pytest.mark.parametrize("rates", RATES)
def test_the_rate_is_the_sum_of_what_the_tasks_can_and_not_the_slowest_one_times_their_number(
    rates: list[float], told_s: float, seed: int
) -> None:
    pending = round(sum(rates) / 2)
    model = Model(rates, pending, seed=seed, told_s=told_s)
    assert sum(model.run(10)) > 0.85 * 10 * sum(rates)
    turns = Model(rates, pending, seed=seed, told_s=told_s, is_aware=False)
    turns.run(10)
    assert max(turns.waiting) > 0.3 * turns.pending, "the slow tasks have what may be pending"
    assert sum(turns.run(10)) < 1.4 * 10 * len(rates) * min(rates)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("told_s", [0.05, 0.5])
@pytest.mark.parametrize("slow", [[100.0] * 4, [100.0] * 12, [10.0] * 7])
def test_a_fast_task_is_used_however_many_others_are_slow(slow: list[float], told_s: float, seed: int) -> None:
    rates = [1000.0, *slow]
    model = Model(rates, round(sum(rates) / 2), seed=seed, told_s=told_s)
    model.run(3)
    assert sum(model.run(10)) > 0.9 * 10 * sum(rates)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("pending", [20, 1000])
@pytest.mark.parametrize("told_s", [0.05, 0.5])
def test_equally_fast_tasks_execute_equally_much(pending: int, told_s: float, seed: int) -> None:
    aware = Model([1000.0] * 4, pending, seed=seed, told_s=told_s).run(10)
    turns = Model([1000.0] * 4, pending, seed=seed, told_s=told_s, is_aware=False).run(10)
    assert max(aware) < 1.04 * min(aware)
    assert sum(aware) > 0.98 * sum(turns)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("told_s", [0.05, 0.5])
def test_calls_for_many_rows_are_no_load_because_they_take_long(told_s: float, seed: int) -> None:
    aware = Model([2500.0] * 4, 2000, seed=seed, told_s=told_s, batch=256).run(20)
    turns = Model([2500.0] * 4, 2000, seed=seed, told_s=told_s, batch=256, is_aware=False).run(20)
    assert sum(aware) > 0.97 * sum(turns)


@pytest.mark.parametrize("seed", range(3))
def test_the_share_of_a_task_falls_while_it_is_slow_and_recovers_when_it_is_fast_again(seed: int) -> None:
    model = Model([1000.0] * 4, 1000, seed=seed, told_s=0.05)
    model.run(2)
    model.rates[2] = 5.0
    model.run(3)  # it works off what it had
    slow = model.run(5)
    assert 0 < slow[2] < 0.02 * sum(slow)
    model.rates[2] = 1000.0
    model.run(4)
    recovered = model.run(5)
    assert max(recovered) < 1.1 * min(recovered)


def test_a_task_that_stands_still_gets_nothing_more_and_no_task_starves_after_all_stood_still() -> None:
    model = Model([1000.0] * 3, 300, seed=1, told_s=0.05)
    model.rates[0] = 0.0
    model.run(1)
    stuck = model.waiting[0]
    model.run(10)
    assert model.waiting[0] - stuck < 20
    model.rates = [0.0] * 3
    assert sum(model.run(5)) <= 3
    model.rates = [1000.0] * 3
    model.run(3)
    assert min(model.run(3)) > 0.9 * 3000


@given(st.lists(st.integers(0, WHOLE), min_size=2, max_size=9), st.integers(0, 5), st.data())
def test_turns_go_by_shares_and_none_to_a_target_without_one(of: list[int], seed: int, data: st.DataObject) -> None:
    of[data.draw(st.integers(0, len(of) - 1))] = WHOLE
    chooser, shares = shuffled(len(of), seed)
    shares.set(of)
    rounds = 200
    chosen = [chooser.choose([]) for _ in range(rounds * sum(of) // WHOLE)]
    for target, share in enumerate(of):
        assert abs(chosen.count(target) - rounds * share / WHOLE) <= 3


@given(st.integers(2, 6), st.lists(st.integers(1, 40), max_size=4), st.integers(0, 5))
def test_whatever_the_shares_were_turns_are_even_again_when_they_are(count: int, runs: list[int], seed: int) -> None:
    chooser, shares = shuffled(count, seed)
    for number, length in enumerate(runs):
        shares.set([WHOLE] + [number * 7 % WHOLE] * (count - 1))
        for _ in range(length):
            chooser.choose([])
    shares.set([WHOLE] * count)
    for _ in range(5):
        assert sorted(chooser.choose([]) for _ in range(count)) == list(range(count))


waits = st.dictionaries(st.integers(0, 7), st.floats(0, 2 * MAX_WAIT_S), max_size=8)


@given(st.lists(st.tuples(waits, st.frozensets(st.integers(0, 9)), st.floats(0, 2)), max_size=20), st.integers(2, 6))
def test_one_task_takes_all_of_its_turns_and_a_closed_one_none_unless_all_are_closed(
    history: list[tuple[dict[int, float], frozenset[int], float]], count: int
) -> None:
    shares = Shares(count)
    loads, now_s = LoadShares(range(count), shares, 0.0), 0.0
    for waits_s, closed, elapsed_s in history:
        now_s += elapsed_s
        loads.update(waits_s, closed, now_s)
        assert max(shares.of) == WHOLE
        assert all(shares.of[task] == 0 for task in closed if task < count) or closed >= set(range(count))
    for _ in range(10):  # nothing is heard any more
        now_s += DOUBLING_S
        loads.update({}, (), now_s)
    assert shares.is_even


def test_if_all_tasks_are_closed_who_sends_all_the_same_sends_to_all_of_them() -> None:
    shares = Shares(3)
    loads = LoadShares([4, 5, 6], shares, 0.0)
    loads.update({}, {4, 5}, 0.1)
    loads.update({}, {4, 5, 6}, 0.2)
    assert shares.is_even, "not only to the one that was closed last"
    loads.update({4: 2.0, 5: 0.4, 6: 0.4}, {4, 5, 6}, 0.3)
    assert 0 < shares.of[0] < shares.of[1] == shares.of[2]


def test_waits_that_differ_little_change_nothing_and_others_the_more_the_longer_they_are() -> None:
    shares = Shares(3)
    loads = LoadShares([4, 5, 6], shares, 0.0)
    loads.update({4: 0.3, 5: 0.6, 6: 0.31}, (), 0.1)
    loads.update({4: 0.9 * SLACK_S}, (), 0.2)
    assert shares.is_even
    loads.update({4: 0.3, 5: 1.3, 6: 0.31}, (), 0.3)
    assert shares.of == [WHOLE, WHOLE // 4, WHOLE]
    loads.update({}, (), 0.4)
    assert shares.is_even
    loads.update({4: 0.3, 5: 13.0, 6: 0.31}, (), 0.5)
    assert shares.of == [WHOLE, 0, WHOLE]
    loads.update({}, (), 0.6)
    assert shares.of == [WHOLE, WHOLE // 2, WHOLE], "it was halved once"
    loads.update({}, (), 0.6 + DOUBLING_S / 2)
    assert shares.of == [WHOLE, round(WHOLE / 2 * 2**0.5), WHOLE]


def test_tasks_that_stand_still_are_loaded_also_where_most_do() -> None:
    shares = Shares(5)
    loads = LoadShares(range(5), shares, 0.0)
    loads.update({0: 0.01, 1: 30.0, 2: 30.0, 3: 30.0, 4: 30.0}, (), 0.1)
    assert shares.of == [WHOLE, 0, 0, 0, 0]


@pytest.mark.parametrize("idle_s", [60.0, 600.0, 1e9])
def test_after_any_time_without_a_tuple_all_tasks_take_all_of_their_turns(idle_s: float) -> None:
    shares = Shares(2)
    loads = LoadShares([4, 5], shares, 0.0)
    loads.update({}, (), idle_s)
    for second in range(10):
        loads.update({4: 20.0 if second % 2 else 0.0}, (), idle_s + second / 10)
    assert shares.of[0] == 0
    loads.update({}, (), 2 * idle_s)
    loads.update({}, (), 3 * idle_s)
    assert shares.is_even


def test_the_meter_counts_rows_that_wait_by_the_time_that_a_row_takes() -> None:
    meter = LoadMeter(0.0)
    assert meter.sample(0, 0, 5.0) == 0.0
    assert meter.sample(10, 0, 5.1) == 0.0, "they may just have come"
    assert meter.sample(10, 0, 5.2) == pytest.approx(0.1), "none has ended: all may end together"
    assert meter.sample(8, 2, 5.3) == pytest.approx(8 * 0.1)
    assert meter.sample(6, 4, 5.5) == pytest.approx(6 * 0.1)
    assert meter.sample(6, 4, 8.5) == pytest.approx(3.0), "a call hangs"
    assert meter.sample(90, 4, 8.6) == pytest.approx(90 * 0.1 - 3.1), "rows that end together"
    assert meter.sample(6, 4, 99.0) == MAX_WAIT_S
    assert meter.sample(0, 10, 99.1) == 0.0


def test_rows_that_end_together_wait_for_each_other_and_not_for_as_many_calls() -> None:
    meter = LoadMeter(0.0)
    waits_s = [meter.sample(512, 256 * int(now / 12), now / 100) for now in range(5, 500, 5)]
    assert max(waits_s) < 2 * 0.24 + 0.12, "two calls of 0.12 s, of which one is under way"
    meter = LoadMeter(0.0)
    for number in range(20):
        meter.sample(1000, 25_000 * number, number / 20)
    assert meter.sample(1000, 25_000 * 19, 1.25) == pytest.approx(0.3, rel=0.05), "the process got no processor"


@pytest.mark.parametrize("last", [1, 5, 40])
def test_the_last_rows_before_a_pause_do_not_make_those_after_it_seem_slow(last: int) -> None:
    meter, done, now_s = LoadMeter(0.0), 0, 0.0
    for _ in range(5):
        for waiting in [*range(2500, 0, -250), last, 0, 0, 0]:  # 250 rows a sample; the last ones end at once
            now_s += SAMPLE_S
            wait_s = meter.sample(waiting, done, now_s)
            assert wait_s <= 1.5 * SAMPLE_S * waiting / 250 + SAMPLE_S
            done += min(waiting, 250)


def test_a_call_that_hung_does_not_make_later_rows_seem_slow_for_long() -> None:
    meter = LoadMeter(0.0)
    for number in range(20):
        meter.sample(1000, 500 * number, number * SAMPLE_S)
    waits_s = [meter.sample(1000, 9501 + 500 * number, 5.0 + number * SAMPLE_S) for number in range(7)]
    assert waits_s[0] > 1.0 and waits_s[-1] < 0.5


def test_rows_that_are_slow_all_of_a_sudden_show_soon_however_many_were_fast() -> None:
    meter = LoadMeter(0.0)
    for number in range(100):
        meter.sample(100, 20_000 * number, number * SAMPLE_S)
    waits_s = [meter.sample(100, 2_000_000 + number, 5.0 + number / 2) for number in range(4)]
    assert waits_s[-1] > 20.0, "half a second for each row"


def test_loads_are_those_of_all_sources_until_their_time_is_over_or_their_source_gone() -> None:
    loads = Loads()
    loads.set("own", {1: 11.0})
    loads.set("a worker", {2: 12.0, 3: 9.0})
    assert loads.waits_s(10.0) == {1: 1.0, 2: 2.0}
    assert loads.waits_s(11.0) == {2: 1.0}
    loads.set("a worker", {})
    loads.set("another one", {})
    assert loads.waits_s(10.0) == {1: 1.0}


class Queue:
    def __init__(self, tasks: Sequence[int]) -> None:
        self.tasks, self.rows, self.executed = tasks, 0, 0


def test_tasks_of_one_inbox_are_told_together_and_only_loaded_ones() -> None:
    slow, quick, sampler = Queue([1, 2]), Queue([3]), LoadSampler()
    for second in range(4):
        free_s = sampler.sample([slow, quick], float(second))
        slow.rows, slow.executed, quick.rows, quick.executed = 5, second, 1, 1000 * second
    assert free_s == {1: 3.0 + 5.0, 2: 3.0 + 5.0}, "a row a second"
    assert by_wait(free_s, 3.5) == [([1, 2], 4500)]
    assert by_wait(free_s, 9.0) == []
    assert sampler.sample([quick], 4.0) == {}, "what is gone is not told"


def test_a_load_has_ended_early_if_it_was_told_for_long_and_its_task_is_free_soon() -> None:
    told_s = {1: 20.0, 2: 10.0 + EARLY_S}
    assert has_ended_early(told_s, {}, 10.0)
    assert has_ended_early(told_s, {2: 11.0}, 10.0)
    assert has_ended_early(told_s, {1: 10.1}, 10.0), "what comes may be from others, who keep it a little loaded"
    assert not has_ended_early(told_s, {1: 20.0 - EARLY_S}, 10.0)
    assert not has_ended_early(told_s, {1: 25.0}, 10.0)
    assert not has_ended_early(told_s, {}, 20.0)
    assert not has_ended_early({}, {}, 10.0)
