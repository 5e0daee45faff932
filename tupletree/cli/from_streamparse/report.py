"""The report of an import: IMPORTED.md for people, a document for programs."""

from __future__ import annotations  # pure

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from tupletree.cli.from_streamparse.specs import Remark

REPORT: Final = "IMPORTED.md"


@dataclass(frozen=True)
class Imported:
    """A topology that was imported, or could not be: then ``error`` says why, and there is no file.

    ``source``: its file in the project of streamparse. ``include``: what a submission takes along.
    """

    name: str
    source: str
    file: str = ""
    include: Sequence[str] = ()
    requirements: str = ""
    components: int = 0
    conf: Mapping[str, Any] = field(default_factory=dict)
    remarks: Sequence[Remark] = ()
    error: str = ""

    @property
    def local(self) -> list[str]:
        """The command that runs the topology in one process."""
        return ["tupletree", "local", self.file, *self._named]

    @property
    def submit(self) -> list[str]:
        """The command that submits the topology."""
        more = [part for path in self.include for part in ("--include", path)]
        requirements = ["--requirements", self.requirements] if self.requirements else []
        return ["tupletree", "submit", self.file, *more, *requirements, *self._named]

    @property
    def _named(self) -> list[str]:
        return [] if self.file == f"{self.name}.py" else ["--name", self.name]


def document(topologies: Sequence[Imported], remarks: Sequence[Remark]) -> dict[str, Any]:
    """Return the report as JSON has it."""
    return {
        "topologies": [
            {**asdict(one), "local": one.local, "submit": one.submit} if one.file else asdict(one) for one in topologies
        ],
        "remarks": [asdict(one) for one in remarks],
    }


def text(topologies: Sequence[Imported], remarks: Sequence[Remark]) -> str:
    """Return the report as Markdown."""
    lines = [
        "# Imported from streamparse",
        "",
        "The components are unchanged, and run in the workers themselves. Install what they import, streamparse and",
        "the packages of the project, where you submit a topology; `--requirements` installs it for the workers.",
    ]
    for one in topologies:
        lines += ["", f"## {one.name}", "", *_of_topology(one)]
    if remarks:
        lines += ["", "## The project", "", *map(_item, remarks)]
    return "\n".join(lines) + "\n"


def _of_topology(one: Imported) -> Iterator[str]:
    if one.error:
        yield f"`{one.source}` could not be imported: {one.error}"
        return
    yield f"`{one.file}`, from `{one.source}`:"
    yield ""
    yield f"    {shlex.join(one.local)}"
    yield f"    {shlex.join(one.submit)}"
    left = [remark for remark in one.remarks if remark.is_open]
    others = [remark for remark in one.remarks if not remark.is_open]
    if left:
        yield from ["", "Left to you; until then the topology says so and does not run:", "", *map(_item, left)]
    if others:
        yield from ["", "Different here:", "", *map(_item, others)]


def _item(remark: Remark) -> str:
    return f"* **{remark.subject}**: {sentence(remark)}"


def sentence(remark: Remark) -> str:
    """Return what a remark says, on one line."""
    return (
        f"{remark.sentence}. {remark.advice[:1].upper()}{remark.advice[1:]}."
        if remark.advice
        else f"{remark.sentence}."
    )
