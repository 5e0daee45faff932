"""Writes from outside among the steps of checkpoints, which are put into a task's inbox by hand."""

from __future__ import annotations

import asyncio
import time

import pytest
from test_states_opened_anew import BOTH, Hand, sqlite

from tupletree._checkpoints.steps import Action, Step
from tupletree.errors import ConflictError, UnavailableError
from tupletree.state.providers import open_state
from tupletree.state.writes import Change, put_of
from tupletree.v1 import worker_pb2
from tupletree.worker.checkpoint import state_writes
from tupletree.worker.checkpoint.state_writes import StateWrites

TEN = put_of("word", 10)


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

    def run(self, *steps):
        """The answer, when the steps come after the changes were made."""

        async def write():
            job = asyncio.create_task(self.writes.write(self.request))
            await self.until(lambda: self.live or job.done())
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


def test_too_many_requests_at_once_are_refused(writer, monkeypatch):
    monkeypatch.setattr(state_writes, "MAX_WAITING", 0)
    with pytest.raises(UnavailableError, match=r"^this worker is making the changes of 0 requests; try again$"):
        writer.run()
