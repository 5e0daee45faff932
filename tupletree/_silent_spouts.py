"""Static detection of spouts that emit with message ids but ignore failures. Pure.

The code of a spout's class is inspected, not run: some method passes ``msg_id`` or ``msg_ids`` as a keyword in a call.
Emits in other code are not detected; there, the statistics show the problem once a message has failed.
"""

from __future__ import annotations  # pure

from collections.abc import Iterator, Mapping
from types import CodeType
from typing import Final

from tupletree._stored_states import is_positioned
from tupletree.component import Component, ignores_fails

_ARGUMENTS: Final = frozenset({"msg_id", "msg_ids"})


def warnings_of(components: Mapping[str, Component]) -> list[str]:
    """Return one warning per spout that drops failed tuples. ``components`` is keyed by component id."""
    return [
        f"spout '{component_id}' emits with msg_id and does not override fail: a tuple that fails is given up, not "
        f"replayed; define {type(component).__name__}.fail(msg_id) to emit it again"
        for component_id, component in components.items()
        if ignores_fails(component) and not is_positioned(component) and _emits_tracked(type(component))
    ]


def _emits_tracked(kind: type) -> bool:
    own = [one for one in kind.__mro__ if not one.__module__.startswith("tupletree.")]
    codes = [getattr(member, "__code__", None) for one in own for member in vars(one).values()]
    return any(not _ARGUMENTS.isdisjoint(_names(code)) for code in codes if isinstance(code, CodeType))


def _names(code: CodeType) -> Iterator[str]:
    """Yield the keyword argument names of calls, including those in nested functions."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
        elif isinstance(constant, tuple):
            yield from (one for one in constant if isinstance(one, str))
