"""Writing of the states of a savepoint, before the first step of a topology (docs/adr/0054).

Run by the worker of the checkpoint spout, as redistribution.py is. Each entry is written to the state of the task that
it was in, or, with another number of tasks, of the task that the component's fields grouping sends its key to.

**Idempotent.** The new states have names that no other submission has, so nothing of an earlier topology is changed
until the checkpoint record says that they are valid. A state that is at the savepoint's checkpoint was completed by an
earlier try, whose entries were the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

from tupletree._checkpoints.coordinator import Phase
from tupletree._checkpoints.record import Checkpoint
from tupletree._checkpoints.settings import SAVEPOINT
from tupletree._savepoints.manifest import Part as Saved
from tupletree._savepoints.rows import Row, load_carried, read_rows
from tupletree._wire.codec import decode_value
from tupletree.component import Spout, StatefulBolt
from tupletree.errors import UsageError
from tupletree.state.providers import is_durable, remove_state

from .contents import Contents, Part, contents_of
from .redistribution import Divider, Division, joined_positions, names_of, refusal
from .spout_participant import POSITION

_TIME_DIGITS: Final = 10


def restore(
    load: Callable[[str], Part],
    state_id: str,
    topology_id: str,
    savepoint_id: str,
    bundle_dir: str,
    stored: Checkpoint,
    tasks: Mapping[str, int],
) -> tuple[Checkpoint, Callable[[], None]]:
    """Write the states of the savepoint that a bundle carries. See MoveStates in _checkpoints/replacing.py.

    ``load``: makes a component. ``stored``: the stored checkpoint, whose place the savepoint takes.
    """
    found = load_carried(bundle_dir)
    if found is None or found[0].id != savepoint_id:
        raise UsageError(
            f"the topology begins with savepoint {savepoint_id!r} ({SAVEPOINT}), which its bundle does not have: kill "
            f"it, and submit it again with --from-savepoint"
        )
    manifest, folder = found
    layout = layout_of(topology_id)
    kept: dict[str, int] = {}
    removals: list[Callable[[], None]] = []
    for id in sorted(tasks):
        part = load(id)
        if id in stored.tasks and is_durable(part.context.conf):
            before = names_of(state_id, id, stored.tasks[id], stored.layouts.get(id, 0))
            removals += [partial(remove_state, name, part.context.conf, part.context) for name in before]
        saved = manifest.components.get(id)
        if saved is None:
            continue
        if not is_durable(part.context.conf):
            raise UsageError(f"component {id!r} keeps its state in its worker, where no savepoint can be restored")
        kept[id] = tasks[id]
        _write(part, saved, folder, manifest.checkpoint, names_of(state_id, id, tasks[id], layout))

    def remove_earlier() -> None:
        for remove in removals:
            remove()

    after = Checkpoint(
        manifest.checkpoint,
        Phase.COMMITTED,
        kept,
        stored.round,
        dict.fromkeys(tasks, layout),
        {id: one.state_version for id, one in manifest.components.items() if id in kept and one.state_version != 1},
        topology_id,
    )
    return after, remove_earlier


def layout_of(topology_id: str) -> int:
    """Return the layout of the states that a submission restores: no checkpoint, and no other submission, has it.

    A topology id ends with a counter of submissions and the time of this one in seconds.
    """
    _, counter, time_s = topology_id.rsplit("-", 2)
    return int(counter) * 10**_TIME_DIGITS + int(time_s) % 10**_TIME_DIGITS


def _write(part: Part, saved: Saved, folder: Path, txid: int, names: Sequence[str]) -> None:
    rows = _checked(part, read_rows(folder / saved.files), saved.tasks)
    with contents_of(part, names, txid) as contents:
        if saved.tasks == len(names):
            for task, key, value in rows:
                contents.put_encoded(task or 0, key, value)
        elif isinstance(part.component, Spout):
            contents.put_shared(_joined(part, part.component, rows, saved.tasks, len(names)))
        else:
            _divide(part, rows, saved.tasks, len(names), contents)
        contents.commit()


def _checked(part: Part, rows: Iterable[Row], tasks: int) -> Iterator[Row]:
    """Yield the rows of a component. Raises UsageError if one is not of its ``tasks``, unless these are 0."""
    for row in rows:
        if tasks and (row[0] is None or not 0 <= row[0] < tasks):
            raise UsageError(
                f"the savepoint has an entry of task {row[0]} of component {part.context.component_id!r}, which had "
                f"{tasks} tasks"
            )
        yield row


def _joined(part: Part, spout: Spout, rows: Iterable[Row], before: int, after: int) -> Mapping[str, Any]:
    positions = [decode_value(value) for _, key, value in rows if decode_value(key) == POSITION]
    if len(positions) == 1 and not before:
        return {POSITION: positions[0]}
    return joined_positions(part, spout, positions, before, after)


def _divide(part: Part, rows: Iterable[Row], before: int, after: int, contents: Contents) -> None:
    bolt = part.component
    assert isinstance(bolt, StatefulBolt)
    if not before and after == 1:
        for _, key, value in rows:
            contents.put_encoded(0, key, value)
        return
    if before and bolt.is_divisible is False:
        raise refusal(part.context.component_id, before, after, f"a {type(bolt).__name__} cannot divide it")
    divider = Divider(Division(bolt, part, before or 1, after, is_placed=before > 0), contents)
    for task, own in groupby(rows, key=itemgetter(0)):
        index = task if before and task is not None else 0
        divider.add_encoded(index, ((key, value) for _, key, value in own))
    divider.end()
