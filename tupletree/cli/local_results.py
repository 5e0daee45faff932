"""Results of ``tupletree local``: the user's states, and the last line, on what was not done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tupletree._checkpoints.coordinator import Phase
from tupletree._checkpoints.steps import CHECKPOINT_SPOUT
from tupletree._wire.statuses import source_of
from tupletree.component import Spout, StatefulBolt
from tupletree.connectors.exactly_once import ExactlyOnceSinkBolt
from tupletree.errors import GivenUpError, named
from tupletree.joins.bolt import Join
from tupletree.keyed.process import KeyedProcess
from tupletree.keyed.progress import VALUE
from tupletree.testing import ComponentCounts
from tupletree.topology import Topology
from tupletree.windows.stateful import KEY, StatefulWindowedBolt


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


@dataclass(frozen=True, slots=True)
class LastLine:
    """The last line of a run, if there is one. ``is_failure``: nothing was emitted because of an error."""

    text: str
    is_failure: bool = False


def last_line(
    topology: Topology,
    emitted: Mapping[str, int],
    counts: Mapping[str, ComponentCounts],
    statuses: Mapping[tuple[str, int], Mapping[str, Any]],
    errors: Sequence[tuple[str, BaseException]],
) -> LastLine:
    """Return why no tuple was emitted, or that sinks that write with checkpoints had none; without text otherwise.

    ``emitted``: tuples of components. ``counts``: of components. ``statuses``: of tasks, by component and task.
    ``errors``: all that components have reported.
    """
    spouts = [id for id, one in topology.components.items() if isinstance(one.component, Spout)]
    sources = [id for id in spouts if id != CHECKPOINT_SPOUT]
    tuples = sum(emitted.get(id, 0) for id in sources)
    messages = sum(one.acked for id, one in counts.items() if id in sources)
    failures = sum(one.failed for id, one in counts.items() if id in sources)
    if tuples and failures and not messages and errors:
        component, error = errors[-1]
        why = f"no message was processed, and {failures:,} attempts have failed; the newest error"
        return LastLine(f"{why}: component {component!r} reported {named(error)}", is_failure=True)
    if tuples:
        if unended := _uncommitted(topology, statuses, errors):
            return LastLine(unended, is_failure=True)
        return LastLine(_unwritten(topology, tuples, statuses))
    if messages:
        return LastLine(f"no tuple was emitted: the operators passed on none of {messages:,} messages read")
    fault = _fault(sources, statuses, errors)
    if fault:
        return LastLine(f"no tuple was emitted: {fault}", is_failure=True)
    return LastLine("no tuple was emitted: the sources had nothing to read")


def _fault(
    sources: Sequence[str],
    statuses: Mapping[tuple[str, int], Mapping[str, Any]],
    errors: Sequence[tuple[str, BaseException]],
) -> str:
    """Return why sources could not read, or gave up all that they have read; "" if there is no reason."""
    given_up = sum(isinstance(error, GivenUpError) for component, error in errors if component in sources)
    if given_up:
        return f"{_were(given_up, 'message')} given up"
    for component, error in reversed(errors):
        if component in sources:
            return f"source {component!r} reported {named(error)}"
    for (component, _), status in statuses.items():
        if component in sources and source_of(status) and status.get("connected") is not True:
            return f"source {component!r} was not connected to {source_of(status)}"
    return ""


def _were(number: int, what: str) -> str:
    return f"1 {what} was" if number == 1 else f"{number:,} {what}s were"


def _writes_with_checkpoints(topology: Topology) -> bool:
    bolts = [definition.component for definition in topology.components.values()]
    return any(isinstance(bolt, StatefulBolt) and bolt.needs_positions for bolt in bolts)


def _uncommitted(
    topology: Topology,
    statuses: Mapping[tuple[str, int], Mapping[str, Any]],
    errors: Sequence[tuple[str, BaseException]],
) -> str:
    """Return a sentence if sinks that write with checkpoints could not write the newest one; "" otherwise."""
    for (component, _), status in statuses.items():
        is_stuck = status.get("phase") == Phase.COMMITTING and status.get("is_recovering") and status.get("failures")
        if component == CHECKPOINT_SPOUT and is_stuck and errors and _writes_with_checkpoints(topology):
            who, error = next((one for one in reversed(errors) if one[0] != CHECKPOINT_SPOUT), errors[-1])
            return (
                f"the rows of checkpoint {status.get('txid')} are not all written: component {who!r} reported "
                f"{named(error)}"
            )
    return ""


def _unwritten(topology: Topology, tuples: int, statuses: Mapping[tuple[str, int], Mapping[str, Any]]) -> str:
    """Return a sentence if sinks that write with checkpoints had no checkpoint; "" otherwise."""
    if not _writes_with_checkpoints(topology):
        return ""
    for (component, _), status in statuses.items():
        first = 2 if status.get("phase") == Phase.PREPARING else 1
        if component == CHECKPOINT_SPOUT and (status.get("txid") or 0) >= first:
            return ""
    return (
        f"{_were(tuples, 'tuple')} emitted and no checkpoint was committed: nothing is written; run for longer than "
        f"topology.state.checkpoint.interval.ms"
    )
