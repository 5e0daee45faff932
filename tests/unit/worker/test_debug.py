"""topology.debug logs what a component emits, and only that component's."""

from hand_driven import HandDriven

from tupletree import BasicBolt, Spout, TopologyBuilder


class One(Spout):
    outputs = ("n",)

    def next_tuple(self):
        self.collector.emit([1])


class Next(BasicBolt):
    outputs = ("n",)

    def execute(self, tup, collector):
        collector.emit([tup["n"] + 1])


def test_every_emitted_tuple_of_a_debugged_component_is_logged_and_still_delivered():
    builder = TopologyBuilder()
    builder.set_spout("one", One())
    builder.set_bolt("next", Next()).shuffle_grouping("one").set_debug(True)
    builder.set_bolt("last", Next()).shuffle_grouping("next")
    hand = HandDriven(builder.create_topology())
    hand.step("one")
    hand.step("next")
    hand.step("last")
    assert hand.logged == [("next", "default", [2])]
    assert [(origin.component, len(rows)) for origin, _, rows in hand.delivered][:2] == [("one", 1), ("next", 1)]
