"""The operators that become components of their own: what they are made of, before the plan places them."""

from __future__ import annotations  # pure

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tupletree.streams.edges import Edge
from tupletree.streams.steps import Chain, Fold

LATE: Final = "late"
"""The stream of elements that come too late, unless a bolt of the user names another."""


@dataclass(frozen=True, slots=True)
class Part:
    """An operator that is a component.

    Attributes:
        make: makes the bolt, of the edges that reach it, the chain that follows, and True for exactly once.
        by_key: elements of one key go to one task.
        by_fields: likewise, by these fields of the element.
        fold: the aggregation, if it can begin where its elements are: partial values come instead of elements.
        is_plain: it takes elements as one value each, not as the fields of their record.
        is_timed: it waits for watermarks.
        late_stream: the stream of elements that come too late, if somebody takes them; "": no element can be late.
        needs_value: it takes elements; otherwise only their keys.
        takes_chain: narrow operators that follow run in the bolt; otherwise in a component of their own.
        is_stateful: it has a state, which must keep its name.
        settles: what it writes to other systems is settled with a checkpoint; None: it writes nothing that we know of.
        instead: what to use if it must be settled and is not.
        hindrance: why it cannot take part in aligned checkpoints; "" if it can.
    """

    make: Callable[[Sequence[Edge], Chain, bool], Any]
    by_key: bool = False
    by_fields: tuple[str, ...] = ()
    fold: Fold | None = None
    is_plain: bool = False
    is_timed: bool = False
    late_stream: str = ""
    needs_value: bool = True
    takes_chain: bool = False
    is_stateful: bool = False
    settles: bool | None = None
    instead: str = ""
    hindrance: str = ""
