"""Steps of checkpoints keep their place among the tuples of their task, whatever is held on the way."""

from __future__ import annotations

from hand_driven import HandDriven
from local_components import Do

from tupletree import Spout, StatefulBolt, TopologyBuilder
from tupletree._checkpoints.steps import Action, Step
from tupletree.outputs import CHECKPOINT_STREAM
from tupletree.tuples import Origin
from tupletree.worker.core.batches import Batch, Rows

ALIGNED = {"topology.state.checkpoint.aligned": True, "topology.transfer.batch.size": 4}


class Source(Spout):
    outputs = ("n",)


class Keep(StatefulBolt):
    def init_state(self, state):
        self.state = state

    def execute(self, tup):
        self.collector.ack(tup)


def built(tasks):
    """middle --two streams--> keep, with steps that the test sends to middle in the spout's place."""

    def pass_on(tup, collector):
        collector.emit([tup["n"]], tup, "even" if tup["n"] % 2 == 0 else "odd")
        collector.ack(tup)

    builder = TopologyBuilder()
    builder.set_spout("source", Source())
    builder.set_bolt("middle", Do(pass_on, {"even": ["n"], "odd": ["n"]}), tasks).shuffle_grouping("source")
    builder.set_bolt("keep", Keep()).shuffle_grouping("middle", "even").shuffle_grouping("middle", "odd")
    return HandDriven(builder.create_topology(), ALIGNED)


class Scene:
    def __init__(self, tasks=1):
        self.hand = built(tasks)
        self.sent = 0
        [self.source], [self.keep] = self.hand.tasks["source"], self.hand.tasks["keep"]
        self.step(Step(10, Action.INITSTATE, 0), 0)
        self.run()
        self.seen()

    def send(self, *numbers):
        origin = Origin("source", self.source, "default", ["n"])
        self.sent += len(numbers)
        rows = Rows.of([([n], 0, 0) for n in numbers])
        self._put(origin, Rows(rows.columns, rows.roots, rows.edges, rows.pairs, 10))

    def step(self, step, sent=None):
        origin = Origin("source", self.source, CHECKPOINT_STREAM, ["round", "action", "txid", "fresh", "sent"])
        self._put(origin, Rows.of([(step.row(self.sent if sent is None else sent), 0, 0)]))

    def _put(self, origin, rows):
        self.hand.executor("middle").inbox.put(Batch(origin, self.hand.tasks["middle"][0], rows), len(rows))

    def run(self):
        while self.hand.step("middle"):
            pass

    def seen(self):
        """What has come to the keeper since, in order; a step as its name and the number it carries."""
        found = []
        for origin, task, rows in self.hand.delivered:
            if task == self.keep:
                is_step = origin.stream == CHECKPOINT_STREAM
                found += [(Action(row[1]).name, row[-1]) if is_step else row[0] for row, _, _ in rows]
        self.hand.delivered.clear()
        return found


def test_a_step_follows_all_that_was_emitted_before_it_on_every_stream_and_precedes_the_rest():
    scene = Scene()
    scene.send(1, 2, 3)
    scene.step(Step(20, Action.PREPARE, 1))
    scene.send(4, 5)
    executor = scene.hand.executor("middle")
    while executor.step():  # all of it before anything is handed over
        pass
    executor.flush()
    seen = scene.seen()
    assert (sorted(seen[:3]), seen[3], sorted(seen[4:])) == ([1, 2, 3], ("PREPARE", 3), [4, 5])


def test_what_is_held_for_a_closed_gate_keeps_its_place_when_it_opens():
    scene = Scene()
    scene.send(1, 2, 3)
    scene.step(Step(20, Action.PREPARE, 1))
    scene.send(4, 5, 6, 7, 8)
    executor = scene.hand.executor("middle")
    while executor.step():
        pass
    scene.hand.gate.set("test", [scene.keep])
    executor.flush()
    executor.flush_full()
    assert scene.seen() == []
    assert executor.has_buffered
    assert not executor.can_flush
    scene.hand.gate.set("test", [])
    assert executor.can_flush
    executor.flush_full()  # a full batch of what follows must not overtake the step
    executor.flush()
    seen = scene.seen()
    assert (sorted(seen[:3]), seen[3], sorted(seen[4:])) == ([1, 2, 3], ("PREPARE", 3), [4, 5, 6, 7, 8])


def test_a_step_keeps_its_place_when_its_executor_is_divided():
    scene = Scene(tasks=2)
    scene.send(2, 4, 6)
    scene.step(Step(20, Action.PREPARE, 1))
    scene.send(8, 10)
    whole = scene.hand.executor("middle")
    while whole.step():
        pass
    scene.hand.gate.set("test", [scene.keep])
    whole.flush()
    part = whole.divided(0.0)[0]
    scene.hand.gate.set("test", [])
    part.flush()
    assert scene.seen() == [2, 4, 6, ("PREPARE", 3), 8, 10]


def test_the_number_goes_on_over_batches_and_checkpoints_and_begins_anew_with_a_generation():
    scene = Scene()
    scene.send(*range(9))
    scene.step(Step(20, Action.PREPARE, 1))
    scene.run()
    assert scene.seen()[-1] == ("PREPARE", 9)
    scene.send(9)
    scene.step(Step(30, Action.PREPARE, 2))
    scene.run()
    assert scene.seen()[-1] == ("PREPARE", 10)
    scene.send(10)
    scene.step(Step(40, Action.INITSTATE, 1))
    scene.run()
    assert scene.seen()[-1] == ("INITSTATE", 0)


def test_batches_are_marked_with_the_generation_in_which_they_were_emitted():
    scene = Scene()
    marks = []
    executor = scene.hand.executor("middle")
    deliver = executor._deliver
    executor._deliver = lambda origin, task, rows, tasks: (
        marks.append((list(rows.columns[0]), rows.generation)) or deliver(origin, task, rows, tasks)
    )
    scene.send(2)
    scene.step(Step(40, Action.INITSTATE, 1))
    while executor.step():
        pass
    executor.flush()
    assert [mark for mark in marks if mark[0] == [2]] == [([2], 10)]
    assert marks[-1][1] == 40
