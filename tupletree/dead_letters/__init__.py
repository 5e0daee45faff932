"""Stored dead letters: a bolt that stores letters, and a spout that replays letters on request.

    orders = builder.set_spout("orders", Orders()).set_dead_letters("rejected")
    builder.set_bolt("letters", DeadLetterBolt("sqlite:letters.db")).shuffle_grouping(orders, "rejected")

``tupletree dead-letters`` lists, shows, replays and drops what is in the store.
"""

from __future__ import annotations

from tupletree.dead_letters.addresses import open_store
from tupletree.dead_letters.components import DeadLetterBolt, DeadLetterSpout
from tupletree.dead_letters.letter import Letter
from tupletree.dead_letters.store import DeadLetterStore

__all__ = ["DeadLetterBolt", "DeadLetterSpout", "DeadLetterStore", "Letter", "open_store"]
