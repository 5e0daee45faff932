"""Questions that a client of states puts to workers themselves: what both sides agree on (docs/protocol.md)."""

from __future__ import annotations  # pure

from typing import Final

PATH: Final = "/states/questions"
PROTOCOL: Final = "tupletree-states"
TOPOLOGY: Final = "tupletree-topology"
WORKER: Final = "tupletree-worker"
COMPONENT: Final = "tupletree-component"
"""Percent-encoded."""
FIELDS: Final = "tupletree-key-fields"
"""Of the response: the number of fields of the grouping that names the only task of a key; 0: every task is asked."""
LENGTH_BYTES: Final = 4
"""Before each message: its length, the highest byte first."""
