"""A write is said to be committed if and only if the store has it, whatever becomes of the task's state."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tupletree._checkpoints.steps import Action, Step
from tupletree._wire.codec import decode_value
from tupletree.state import StateProvider
from tupletree.state.buffered import BufferedState
from tupletree.state.memory import MemoryBackend, Namespace
from tupletree.worker.checkpoint.pending_writes import PendingWrites, Unsettled
from tupletree.worker.checkpoint.task_state import TaskState


class Provider(StateProvider):
    def new_state(self, namespace, conf, context):
        raise NotImplementedError


class Scene:
    """The state of one task over a store, with the writes that were made and what was said of each."""

    def __init__(self):
        self.stored = Namespace()
        self.state = TaskState("count", self.open, lambda: 0)
        self.txid = 0
        self.is_initialised = True
        self.writes = 0
        self.said = {}

    def open(self):
        return Provider(), BufferedState("s", MemoryBackend("s", self.stored))

    def step(self, action):
        return Step(1, action, self.txid)

    def write(self):
        if self.is_initialised:
            self.writes += 1
            self.state.state.put(self.writes, "written")
            self.state.writes.add(partial(self.said.__setitem__, self.writes))

    def prepare(self):
        if self.is_initialised and self.state.state.prepared is None:
            self.txid += 1
            self.state.prepare(self.txid)

    def commit(self):
        if self.state.state.prepared is not None:
            self.state.commit(self.step(Action.COMMIT))

    def roll_back(self):
        self.state.rollback()
        self.txid = self.state.state.committed or 0

    def reopen(self):
        self.state.forget()
        self.is_initialised = self.state.state.prepared is None

    def initialise(self):
        if self.state.state.prepared is None:
            self.state.check(self.step(Action.INITSTATE), is_unused=False)
            self.is_initialised = True


EVENTS = st.lists(
    st.sampled_from(["write", "write", "prepare", "commit", "roll_back", "reopen", "initialise"]), max_size=30
)


@given(EVENTS)
def test_what_is_said_of_a_write_is_so(events):
    scene = Scene()
    for event in events:
        getattr(scene, event)()
        stored = {decode_value(key) for key in scene.stored.entries}
        for write, outcome in scene.said.items():
            if outcome is not Unsettled.UNKNOWN:
                assert (write in stored) == (outcome is not Unsettled.ROLLED_BACK), (events, write)
    scene.roll_back()
    assert scene.said.keys() == set(range(1, scene.writes + 1))


@given(EVENTS)
def test_something_is_said_of_every_write_once(events):
    writes, said, txid, prepared, made = PendingWrites(), [], 0, None, 0
    for event in events:
        if event == "write":
            made += 1
            writes.add(lambda found, number=made: said.append((number, found)))
        elif event == "prepare" and prepared is None:
            prepared = txid + 1
            writes.prepared(prepared)
        elif event == "commit" and prepared is not None:
            txid, prepared = prepared, None
            writes.committed(txid)
        elif event == "roll_back":
            prepared = None
            writes.rolled_back(txid or None)
        elif event == "reopen":
            writes.reopened()
    writes.rolled_back(txid)
    assert sorted(number for number, _ in said) == list(range(1, made + 1))


@pytest.mark.parametrize(
    ("events", "said"),
    [
        (["write", "prepare", "write", "commit"], {1: 1}),
        (["write", "prepare", "write", "commit", "prepare", "commit"], {1: 1, 2: 2}),
        (["write", "prepare", "write", "roll_back"], {1: Unsettled.ROLLED_BACK, 2: Unsettled.ROLLED_BACK}),
        (["write", "prepare", "write", "reopen"], {1: Unsettled.UNKNOWN, 2: Unsettled.ROLLED_BACK}),
        (["write", "prepare", "commit", "write", "roll_back"], {1: 1, 2: Unsettled.ROLLED_BACK}),
    ],
)
def test_the_ends_of_a_write(events, said):
    scene = Scene()
    for event in events:
        getattr(scene, event)()
    assert scene.said == said


def test_a_commit_that_was_not_seen_to_succeed_is_seen_by_the_rollback():
    writes, said = PendingWrites(), []
    writes.add(said.append)
    writes.prepared(5)
    writes.rolled_back(5)  # the commit raised UnavailableError, and had happened
    assert said == [5]
