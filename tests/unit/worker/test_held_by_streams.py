"""A program of streams holds no more inputs for partial values than spouts may have pending."""

from __future__ import annotations

import pytest
from hand_driven import HandDriven

from tupletree.streams import StreamBuilder
from tupletree.streams.heads import CombiningBolt


@pytest.mark.parametrize(("pending", "held"), [(None, 5000), (100_000, 5000), (80, 20), (1, 1)])
def test_spouts_need_not_wait_for_a_tick(pending: int | None, held: int) -> None:
    builder = StreamBuilder(parallelism=2)
    builder.source(["a", "b"], name="words").key_by(len).count()
    hand = HandDriven(builder.topology(), {"topology.max.spout.pending": pending})
    bolt = hand.executor("words-key_by").tasks[0].bolt
    assert isinstance(bolt, CombiningBolt)
    assert bolt.held == held
