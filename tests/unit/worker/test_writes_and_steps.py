"""Writes from outside among the steps of checkpoints, which are put into a task's inbox by hand."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
from test_states_opened_anew import BOTH, Hand, sqlite

from tupletree._checkpoints.steps import Action, Step
from tupletree.errors import ConflictError, UnavailableError
from tupletree.state import StateProvider
from tupletree.state.buffered import BufferedState
from tupletree.state.memory import MemoryBackend, Namespace
from tupletree.state.providers import open_state
from tupletree.state.writes import Change, put_of
from tupletree.v1 import worker_pb2
from tupletree.worker.checkpoint import state_writes
from tupletree.worker.checkpoint.state_writes import StateWrites

TEN = put_of("word", 10)


class HangingState(BufferedState):
    """A state whose store does not answer for one key before it is told to."""

    answers = threading.Event()

    def get(self, key, default=None):
        if key == "slow":
            self.answers.wait(20)
        return super().get(key, default)


class HangingProvider(StateProvider):
    is_durable = False

    def new_state(self, namespace, conf, context):
        return HangingState(namespace, MemoryBackend(namespace, Namespace()), is_durable=False)


class Writer:
    """A worker whose only executor of ``count`` is driven by hand, and one request to it."""

    def __init__(self, conf, *changes, wait_s=30.0):
        self.hand = Hand(conf)
        self.round = 0
        tasks = [self.hand.driven.executor("count").tasks[0]]
        self.writes = StateWrites("hand", tasks, lambda component: [["word"]])
        self.request = worker_pb2.WriteTaskStatesRequest(
            topology_id="hand",
            component="count",
            indexes=[0],
            changes=[one.message for one in changes or [TEN]],
            wait_s=wait_s,
        )

    def step(self, action, txid):
        self.round += 1
        self.hand.send("count", Step(self.round, action, txid), BOTH)

    @property
    def live(self):
        return dict(self.hand.bolt("count").state.items())

    @property
    def stored(self):
        _, state = open_state("hand/count/0", self.hand.conf, None)
        return dict(state.items())

    def run(self, *steps, made=None):
        """The answer, when the steps come after the changes were made. ``made``: what the state has then."""

        async def write():
            job = asyncio.create_task(self.writes.write(self.request))
            await self.until(lambda: (self.live if made is None else self.live == made) or job.done())
            for step in steps:
                assert not job.done()
                if callable(step):
                    step()
                else:
                    self.step(*step)
                for _ in range(3):  # what is said of the changes comes through the event loop
                    await asyncio.sleep(0)
            await self.until(job.done)
            return job.result()

        return asyncio.run(write())

    async def until(self, is_so):
        until_s = time.monotonic() + 20
        while not is_so():
            assert time.monotonic() < until_s
            self.hand.driven.step("count")
            await asyncio.sleep(0.001)


@pytest.fixture
def writer(tmp_path):
    made = Writer(sqlite(tmp_path))
    made.step(Action.INITSTATE, 0)
    return made


def test_the_next_checkpoint_has_the_change(writer):
    reply = writer.run((Action.PREPARE, 1), (Action.COMMIT, 1))
    assert [(one.index, one.committed, one.put, one.deleted) for one in reply.tasks] == [(0, 1, 1, 0)]
    assert writer.stored == {"word": 10}


def test_a_change_after_prepare_is_in_the_checkpoint_after_it(writer):
    writer.step(Action.PREPARE, 1)
    reply = writer.run((Action.COMMIT, 1), (Action.PREPARE, 2), (Action.COMMIT, 2))
    assert reply.tasks[0].committed == 2


@pytest.mark.parametrize("before", [[], [(Action.PREPARE, 1)]], ids=["live", "prepared"])
def test_a_change_that_is_rolled_back_is_lost(writer, before):
    with pytest.raises(
        ConflictError,
        match=r"^task 0 of component 'count' went back to its last checkpoint before all changes were committed: write "
        r"them again \('tupletree errors' has the reason\)$",
    ):
        writer.run(*before, (Action.ROLLBACK, 1))
    assert writer.stored == {}


def test_of_a_change_in_a_state_that_another_has_opened_nothing_is_known(writer):
    def another():
        _, other = open_state("hand/count/0", writer.hand.conf, None)
        other.rollback()
        other.prepare_commit(2)

    with pytest.raises(UnavailableError, match=r"was opened anew, possibly with the changes: read the values before"):
        writer.run((Action.PREPARE, 1), another, (Action.COMMIT, 2))


def test_without_a_checkpoint_the_wait_ends(tmp_path):
    writer = Writer(sqlite(tmp_path), wait_s=0.05)
    writer.step(Action.INITSTATE, 0)
    with pytest.raises(UnavailableError, match=r"has made the changes, but no checkpoint was committed in time: the"):
        writer.run()
    assert writer.live == {"word": 10}


def test_a_task_that_is_not_initialised_is_waited_for(tmp_path):
    writer = Writer(sqlite(tmp_path), wait_s=0.05)
    writer.hand.bolt("count").state = {}
    with pytest.raises(UnavailableError, match=r"^task 0 of component 'count' has not opened its state yet; try again"):
        writer.run()


def test_changes_are_made_in_their_order_some_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(state_writes, "SLICE", 2)
    changes = [put_of(f"word{number % 3}", number) for number in range(5)]
    writer = Writer(sqlite(tmp_path), *changes, Change(TEN.key, None), Change(changes[0].key, None))
    writer.step(Action.INITSTATE, 0)
    last = len(changes) - 1

    async def write():
        job = asyncio.create_task(writer.writes.write(writer.request))
        await writer.until(lambda: writer.live == {"word1": last, "word2": 2})
        await asyncio.sleep(0)
        for step in ((Action.PREPARE, 1), (Action.COMMIT, 1)):
            writer.step(*step)
        await writer.until(job.done)
        return job.result()

    [done] = asyncio.run(write()).tasks
    assert (done.put, done.deleted, done.committed) == (5, 1, 1)
    assert writer.stored == {"word1": 4, "word2": 2}


def test_deletions_from_a_slow_store_are_made_one_after_the_other_between_other_work(tmp_path, monkeypatch):
    monkeypatch.setattr(state_writes, "SLICE_S", 0.0)  # as if each took longer than a call may
    deletions = [Change(put_of(f"word{number}", 1).key, None) for number in range(4)]
    writer = Writer(sqlite(tmp_path), *deletions)
    writer.step(Action.INITSTATE, 0)
    for number in range(4):
        writer.hand.word("keep", "count", f"word{number}", 10 + number)
    seen = []

    async def write():
        job = asyncio.create_task(writer.writes.write(writer.request))
        await writer.until(lambda: seen.append(len(writer.live)) or not writer.live)
        await asyncio.sleep(0)
        for step in ((Action.PREPARE, 1), (Action.COMMIT, 1)):
            writer.step(*step)
        await writer.until(job.done)
        return job.result()

    [done] = asyncio.run(write()).tasks
    assert (done.put, done.deleted, done.committed) == (0, 4, 1)
    assert set(seen) == {4, 3, 2, 1, 0}


def test_a_task_that_has_made_a_part_of_the_changes_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(state_writes, "SLICE", 1)
    writer = Writer(sqlite(tmp_path), TEN, put_of("other", 11), wait_s=0.05)
    writer.step(Action.INITSTATE, 0)

    async def write():
        job = asyncio.create_task(writer.writes.write(writer.request))
        while not writer.live:
            writer.hand.driven.step("count")
            if not writer.live:
                await asyncio.sleep(0.001)
        monkeypatch.setattr(state_writes, "CALL_S", 0.05)  # and from here on the task does nothing else
        await asyncio.wait([job])
        return job.result()

    sentence = (
        r"^task 0 of component 'count' is in a call of its own for more than 0.05 s; 1 of the 2 changes in this task "
        r"are made, and the next checkpoint has them, unless it fails: read the values before writing again$"
    )
    with pytest.raises(UnavailableError, match=sentence):
        asyncio.run(write())
    assert writer.live == {"word": 10}


def test_a_task_that_is_late_amid_the_changes_says_that_they_are_possibly_made(monkeypatch):
    monkeypatch.setattr(state_writes, "CALL_S", 1.0)
    HangingState.answers.clear()
    writer = Writer(
        {"topology.state.provider": f"{__name__}:HangingProvider"}, TEN, Change(put_of("slow", 1).key, None)
    )
    writer.step(Action.INITSTATE, 0)

    async def write():
        job = asyncio.create_task(writer.writes.write(writer.request))
        while not writer.hand.driven.executor("count").inbox:
            await asyncio.sleep(0.001)
        work = asyncio.create_task(asyncio.to_thread(writer.hand.driven.step, "count"))
        await asyncio.wait([job])
        HangingState.answers.set()
        await work
        return job.result()

    sentence = (
        r"^task 0 of component 'count' has been making changes for more than 1 s: they are possibly made, or will be; "
        r"read the values before writing again$"
    )
    with pytest.raises(UnavailableError, match=sentence):
        asyncio.run(write())
    assert writer.live == {"word": 10}


def test_expected_values_are_checked_before_the_first_change_is_made(tmp_path, monkeypatch):
    monkeypatch.setattr(state_writes, "SLICE_S", 0.0)
    fits, fails = put_of("word", 5, expected=1), put_of("late", 5, expected=1)
    writer = Writer(sqlite(tmp_path), fits, put_of("free", 5), fails)
    writer.step(Action.INITSTATE, 0)
    writer.hand.word("keep", "count", "word", 10)
    sentence = r"^key 'late' in task 0 of component 'count' has another value now: nothing was changed$"
    with pytest.raises(ConflictError, match=sentence):
        writer.run()
    assert writer.live == {"word": 1}
    writer.hand.word("keep", "count", "late", 11)
    after = {"word": 5, "free": 5, "late": 5}
    reply = writer.run((Action.PREPARE, 1), (Action.COMMIT, 1), made=after)
    assert reply.tasks[0].put == 3
    assert writer.stored == after


def test_too_many_requests_at_once_are_refused(writer, monkeypatch):
    monkeypatch.setattr(state_writes, "MAX_WAITING", 0)
    with pytest.raises(UnavailableError, match=r"^this worker is making the changes of 0 requests; try again$"):
        writer.run()
