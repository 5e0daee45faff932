"""The manifest of a savepoint: ``savepoint.json``, written last, which says what the other files are.

    NAME/savepoint.json          this
    NAME/count@1f3ac09b.parquet  the entries of component count: a file, or a directory of files as Spark writes it

Two attempts can write to one directory: each has names of its own, and the first that writes the manifest completes it.

Only ``tupletree_savepoint`` and ``components``, with ``files`` for each, are required: another program can write one by
hand (docs/guides/savepoints.md).
"""

from __future__ import annotations  # pure

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import PurePosixPath
from typing import Any, Final

from tupletree._limits import shown
from tupletree.errors import UsageError

FILE: Final = "savepoint.json"
FORMAT: Final = 1
ENCODED, PLAIN = "encoded", "plain"
"""Rows with the columns task, key and value as bytes; or with key and value of Parquet's own types."""


@dataclass(frozen=True, slots=True)
class Part:
    """The files of one component in a savepoint, and what is known of its state.

    ``files``: a file or directory beside the manifest. ``tasks``: the number of tasks whose states these are; 0: the
    rows belong to no task yet. ``kind``, ``state_form``: as in the topology; "": whatever the program has.
    ``fields``: of each fields grouping; None: those of the program. ``entries``: their number; None: unknown.
    """

    files: str
    rows: str = PLAIN
    kind: str = ""
    state_form: str = ""
    state_version: int = 1
    tasks: int = 0
    fields: Sequence[Sequence[str]] | None = None
    entries: int | None = None


@dataclass(frozen=True, slots=True)
class Manifest:
    """A savepoint. ``checkpoint``: of which all states and positions are.

    ``aligned``: as ``topology.state.checkpoint.aligned`` of the topology; None: it is of no topology. ``positions``:
    of each spout the position of each task, for people: the files have what is read.
    """

    components: Mapping[str, Part]
    id: str = ""
    topology: str = ""
    topology_id: str = ""
    version: int = 0
    checkpoint: int = 1
    aligned: bool | None = None
    bundle_sha256: str = ""
    taken_unix_s: float = 0.0
    tupletree: str = ""
    positions: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def encoded(self) -> str:
        """Return the text of the file."""
        return json.dumps({"tupletree_savepoint": FORMAT, **asdict(self)}, indent=1, ensure_ascii=False) + "\n"


def decoded(text: str, place: str) -> Manifest:
    """Return the manifest in a file. Raises UsageError, which names the place and what is wrong with it."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{place}: {FILE} is not JSON: {error}") from None
    number = found.pop("tupletree_savepoint", None) if isinstance(found, dict) else None
    if type(number) is not int:
        raise UsageError(f"{place}: {FILE} is not the manifest of a savepoint: it has no number tupletree_savepoint")
    if number > FORMAT:
        raise UsageError(
            f"{place}: the savepoint has format {number}, and this version of Tupletree reads formats up to {FORMAT}"
        )
    parts = found.pop("components", None)
    if not isinstance(parts, dict) or not all(isinstance(one, dict) for one in parts.values()):
        raise UsageError(f"{place}: components in {FILE} is an object with an object for each component")
    components = {id: _part(id, one, place) for id, one in parts.items()}
    return Manifest(components, **_checked(found, _FIELDS, place))


_Kinds = Mapping[str, tuple[type, ...]]
_FIELDS: Final[_Kinds] = {
    "id": (str,),
    "topology": (str,),
    "topology_id": (str,),
    "version": (int,),
    "checkpoint": (int,),
    "aligned": (bool, type(None)),
    "bundle_sha256": (str,),
    "taken_unix_s": (int, float),
    "tupletree": (str,),
    "positions": (dict,),
}
_PART_FIELDS: Final[_Kinds] = {
    "files": (str,),
    "rows": (str,),
    "kind": (str,),
    "state_form": (str,),
    "state_version": (int,),
    "tasks": (int,),
    "fields": (list, type(None)),
    "entries": (int, type(None)),
}


def _part(id: str, found: dict[str, Any], place: str) -> Part:
    where = f"{place}: component {shown(id)}"
    part = Part(**{"files": "", **_checked(found, _PART_FIELDS, where)})
    path = PurePosixPath(part.files)
    if not part.files or path.is_absolute() or ".." in path.parts or "\\" in part.files:
        raise UsageError(f"{where} in {FILE} names its files below the savepoint, not {shown(part.files)}")
    if part.rows not in (ENCODED, PLAIN):
        raise UsageError(f"{where} in {FILE}: rows are '{ENCODED}' or '{PLAIN}', not {shown(part.rows)}")
    if part.tasks < 0 or part.state_version < 1:
        raise UsageError(f"{where} in {FILE}: tasks are 0 or more, and a state_version is 1 or more")
    if part.fields is not None and not all(_are_names(one) for one in part.fields):
        raise UsageError(f"{where} in {FILE}: fields is a list of lists of names")
    return part


def _are_names(found: Any) -> bool:
    return isinstance(found, list) and all(isinstance(one, str) for one in found)


def _checked(found: Mapping[str, Any], kinds: _Kinds, where: str) -> dict[str, Any]:
    """Return the known fields. Unknown ones are left to later versions. Raises UsageError for a wrong type."""
    for name, value in found.items():
        if name in kinds and type(value) not in kinds[name]:
            raise UsageError(f"{where}: {name} in {FILE} cannot be {shown(value)}")
    if found.get("checkpoint", 1) < 1:
        raise UsageError(f"{where}: checkpoint in {FILE} is 1 or more, not {found['checkpoint']}")
    return {name: value for name, value in found.items() if name in kinds}
