"""When a task acks the steps that it gets."""

from __future__ import annotations

import pytest
from hand_driven import HandDriven, xors

from tupletree import Spout, StatefulBolt, TopologyBuilder
from tupletree._checkpoints.steps import STREAM, Action, Step
from tupletree.outputs import CHECKPOINT_STREAM
from tupletree.tuples import Origin
from tupletree.worker.core.batches import Batch, Rows


class Source(Spout):
    outputs = ("n",)


class Keep(StatefulBolt):
    refuses = False

    def init_state(self, state):
        if self.refuses:
            raise ValueError("not today")

    def execute(self, tup):
        pass


class Scene:
    """A bolt that gets its steps from two tasks of a spout."""

    def __init__(self, bolt):
        builder = TopologyBuilder()
        builder.set_spout("source", Source(), 2)
        builder.set_bolt("keep", bolt).shuffle_grouping("source")
        self.hand = HandDriven(builder.create_topology(), {"topology.state.checkpoint.aligned": True})
        self.first, self.second = self.hand.tasks["source"]

    def step(self, source, step, root):
        origin = Origin("source", source, CHECKPOINT_STREAM, STREAM.fields)
        rows = Rows.of([(step.row(0), root, root + 1)])
        self.hand.executor("keep").inbox.put(Batch(origin, self.hand.tasks["keep"][0], rows), 1)
        self.hand.step("keep")
        updates = self.hand.take_updates()
        return xors(updates), updates.fails


@pytest.fixture
def scene():
    return Scene(Keep())


INITIALISE = Step(10, Action.INITSTATE, 0)


def test_no_step_is_acked_before_the_task_has_acted_on_it(scene):
    """Otherwise two incarnations of a task, with a step each of two sources, would have acked a round that none did."""
    assert scene.step(scene.first, INITIALISE, 100) == ({}, set())
    assert scene.step(scene.second, INITIALISE, 200) == ({100: 101, 200: 201}, set())


def test_what_came_of_a_round_that_is_over_is_failed(scene):
    assert scene.step(scene.first, INITIALISE, 100) == ({}, set())
    assert scene.step(scene.first, Step(11, Action.INITSTATE, 0), 300) == ({}, {100})
    assert scene.step(scene.second, INITIALISE, 200) == ({}, {200}), "it has not been done"
    assert scene.step(scene.second, Step(11, Action.INITSTATE, 0), 400) == ({300: 301, 400: 401}, set())


def test_a_task_that_cannot_act_fails_all_that_has_come():
    bolt = Keep()
    bolt.refuses = True
    scene = Scene(bolt)
    assert scene.step(scene.first, INITIALISE, 100) == ({}, set())
    assert scene.step(scene.second, INITIALISE, 200) == ({}, {100, 200})
    assert [str(error) for _, _, error in scene.hand.errors] == [
        "component 'keep' raised in step INITSTATE of a checkpoint: ValueError: not today"
    ]


def test_a_checkpoint_before_the_first_initialisation_is_refused_without_an_error_to_show(scene):
    prepare = Step(10, Action.PREPARE, 1)
    scene.step(scene.first, prepare, 100)
    assert scene.step(scene.second, prepare, 200) == ({}, {100, 200})
    assert scene.hand.errors == []
