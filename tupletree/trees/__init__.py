"""Trees of work over any programs: begin one, hand out its children, and be told when all of it is done.

    with TreeClient("acker-1,acker-2", namespace="orders") as trees:
        tree = trees.begin(timeout_s=30)
        send_to_another_process(tree.child())
        assert tree.wait().is_done

The ledger of an acker keeps each tree in some 40 bytes, whatever its size. See docs/guides/trees.md.
"""

from __future__ import annotations

from tupletree.trees.client import TreeClient
from tupletree.trees.handles import Child, Tree
from tupletree.trees.outcomes import Outcome, OutcomeKind

__all__ = ["Child", "Outcome", "OutcomeKind", "Tree", "TreeClient"]
