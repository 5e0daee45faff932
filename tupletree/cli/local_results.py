"""Results of ``tupletree local``: the user's states and frames, and a warning if no checkpoint let sinks write."""

from __future__ import annotations

import os
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tupletree._checkpoints.coordinator import Phase
from tupletree._checkpoints.steps import CHECKPOINT_SPOUT
from tupletree.component import Spout, StatefulBolt
from tupletree.connectors.exactly_once import ExactlyOnceSinkBolt
from tupletree.joins.bolt import Join
from tupletree.keyed.process import KeyedProcess
from tupletree.keyed.progress import VALUE
from tupletree.topology import Topology
from tupletree.windows.stateful import KEY, StatefulWindowedBolt

MAX_FRAMES: Final = 5
_PACKAGE: Final = Path(__file__).resolve().parents[1]
_OURS: Final = (f"{_PACKAGE}{os.sep}", f"{_PACKAGE.parent / 'worker'}{os.sep}", "tupletree/worker/")
"""The beginnings of the paths of our files; the last is of compiled modules."""
_GENERATED: Final = "<operators of "


def users_frames(error: BaseException) -> str:
    """Return the frames of a component's exception that are not ours, the last ones, as Python shows them.

    If the user's code had returned already, this is the line of the generated code that used what it returned.
    """
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(_OURS)]
    users = [frame for frame in frames if not frame.filename.startswith(_GENERATED)] or frames[-1:]
    return "".join(traceback.format_list(users[-MAX_FRAMES:])).rstrip("\n")


def users_states(topology: Topology, states: Mapping[str, Mapping[Any, Any]]) -> dict[str, dict[Any, Any]]:
    """Return the states of components without the entries that the library keeps in them for itself."""
    bolts = {component: topology.components[component].component for component in states}
    return {
        component: {key: value for key, value in state.items() if not _is_internal(bolts[component], key)}
        for component, state in states.items()
        if not _is_all_internal(bolts[component])
    }


def _is_all_internal(bolt: Any) -> bool:
    """True if the library alone knows what the state of a bolt means."""
    return isinstance(bolt, ExactlyOnceSinkBolt) or (isinstance(bolt, Join) and bolt.event_time is not None)


def _is_internal(bolt: Any, key: Any) -> bool:
    """True for an entry of the library in the state of a bolt."""
    if isinstance(bolt, KeyedProcess):
        return isinstance(key, tuple) and key[:1] != (VALUE,)
    return isinstance(bolt, StatefulWindowedBolt) and bool(key == KEY)


def unwritten_line(
    topology: Topology, emitted: Mapping[str, int], statuses: Mapping[tuple[str, int], Mapping[str, Any]]
) -> str:
    """Return a sentence if no tuple was emitted, or if sinks that write with checkpoints had none; "" otherwise.

    ``emitted``: tuples of components. ``statuses``: of tasks, by component and task.
    """
    spouts = [id for id, one in topology.components.items() if isinstance(one.component, Spout)]
    tuples = sum(emitted.get(id, 0) for id in spouts if id != CHECKPOINT_SPOUT)
    if not tuples:
        return "no tuple was emitted: the sources had nothing to read"
    bolts = [definition.component for definition in topology.components.values()]
    if not any(isinstance(bolt, StatefulBolt) and bolt.needs_positions for bolt in bolts):
        return ""
    for (component, _), status in statuses.items():
        first = 2 if status.get("phase") == Phase.PREPARING else 1
        if component == CHECKPOINT_SPOUT and (status.get("txid") or 0) >= first:
            return ""
    emitted_tuples = "1 tuple was" if tuples == 1 else f"{tuples:,} tuples were"
    return (
        f"{emitted_tuples} emitted and no checkpoint was committed: nothing is written; run for longer than "
        f"topology.state.checkpoint.interval.ms"
    )
