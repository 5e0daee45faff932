"""Flux files: values put into the text, included files, and the definitions of all of them.

``${name}`` stands for a property, ``${ENV-NAME}`` for an environment variable. As in Flux they are replaced in the
text, before it is YAML, so a value may be any part of a line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import yaml

from tupletree.errors import UsageError
from tupletree.flux.items import Item

MAX_BYTES: Final = 1_000_000
"""The largest file that is read."""
MAX_NODES: Final = 100_000
"""The most values of one file, those behind aliases counted each time."""

_PLACEHOLDER: Final = re.compile(r"\$\{([^{}]*)\}?")
_ENVIRONMENT: Final = "ENV-"
_SECTIONS: Final = ("name", "config", "includes", "components", "spouts", "bolts", "streams", "topologySource")


@dataclass(frozen=True)
class Values:
    """The values of placeholders. ``environment``: None if environment variables are not to be read."""

    properties: Mapping[str, str] | None = None
    environment: Mapping[str, str] | None = None

    def of(self, name: str) -> str | None:
        """Return the value of a placeholder, or None."""
        if name.startswith(_ENVIRONMENT) and self.environment is not None:
            return self.environment.get(name.removeprefix(_ENVIRONMENT))
        return None if self.properties is None else self.properties.get(name)

    def missing(self, name: str) -> str:
        """Return why a placeholder has no value, and what to do."""
        if name.startswith(_ENVIRONMENT):
            if self.environment is None:
                return "stands for an environment variable: give --env-filter"
            return f"has no value: the environment has no {name.removeprefix(_ENVIRONMENT)}"
        if self.properties is None:
            return "has no value: give a file with a line for it as --filter FILE"
        return f"has no value: the file of --filter has no {name}"


@dataclass
class Document:
    """The definitions of a file and of those that it includes, by id. ``path``: of the file itself."""

    path: Path
    name: Item | None = None
    source: Item | None = None
    config: dict[str, Item] = field(default_factory=dict)
    components: dict[str, Item] = field(default_factory=dict)
    spouts: dict[str, Item] = field(default_factory=dict)
    bolts: dict[str, Item] = field(default_factory=dict)
    streams: list[Item] = field(default_factory=list)

    def include(self, other: Document, overrides: bool) -> None:
        """Add another file's definitions. ``overrides``: they take the place of those that have the same id."""
        for mine, theirs in (
            (self.config, other.config),
            (self.components, other.components),
            (self.spouts, other.spouts),
            (self.bolts, other.bolts),
        ):
            for key, item in theirs.items():
                if overrides or key not in mine:
                    mine[key] = item
        self.streams += other.streams
        if overrides or self.name is None:
            self.name = other.name or self.name
        if overrides or self.source is None:
            self.source = other.source or self.source


def read_document(
    path: Path, values: Values, including: tuple[Path, ...] = (), known: set[Path] | None = None
) -> Document:
    """Read a file and all that it includes, each once. Raises UsageError with file and line.

    ``including``: the files on the way to this one. ``known``: those that have been read.
    """
    known = set() if known is None else known
    known.add(path.resolve())
    root = _root(path, values)
    sections = root.mapping("the file", optional=_SECTIONS)
    document = Document(path, sections.get("name"), sections.get("topologySource"))
    if "config" in sections and not sections["config"].is_empty:
        document.config = sections["config"].mapping("config", optional=None)
    for name in ("components", "spouts", "bolts"):
        if name in sections:
            _add(sections[name], name, getattr(document, name))
    if "streams" in sections:
        document.streams = sections["streams"].sequence("streams")
    for item in sections["includes"].sequence("includes") if "includes" in sections else ():
        _include(document, item, values, (*including, path.resolve()), known)
    return document


def _add(section: Item, name: str, found: dict[str, Item]) -> None:
    for item in section.sequence(name):
        singular = name.removesuffix("s")
        id = item.mapping(f"a {singular}", ["id"], None)["id"]
        if id.text("id") in found:
            raise id.fault(f"{singular} '{id.value()}' is there twice")
        found[id.text("id")] = item


def _include(document: Document, item: Item, values: Values, including: tuple[Path, ...], known: set[Path]) -> None:
    entry = item.mapping("an include", ["file"], ["resource", "override"], "file: more.yaml")
    path = document.path.parent / entry["file"].text("file")
    if path.resolve() in including:
        way = [*including[including.index(path.resolve()) :], path.resolve()]
        raise item.fault(f"a file includes itself: {' -> '.join(one.name for one in way)}")
    if not path.is_file():
        raise entry["file"].fault(f"there is no file {path}")
    if path.resolve() in known:
        return
    included = read_document(path, values, including, known)
    document.include(included, "override" in entry and entry["override"].flag("override"))


def _root(path: Path, values: Values) -> Item:
    try:
        data = path.read_bytes()
        if len(data) > MAX_BYTES:
            raise UsageError(f"{path} has {len(data):,} bytes; a topology file has at most {MAX_BYTES:,}")
        text = _filled(data.decode("utf-8-sig"), str(path), values)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from None
    try:
        node = yaml.compose(text, yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark is not None else 1
        raise UsageError(f"{path}:{line}: not YAML: {error.problem}") from None
    except (yaml.YAMLError, RecursionError) as error:
        raise UsageError(f"{path} is not YAML: {error}") from None
    if node is None:
        raise UsageError(f"{path} is empty")
    if not _is_small(node):
        raise UsageError(f"{path} has more than {MAX_NODES:,} values, or a value within itself")
    return Item(node, str(path))


def _filled(text: str, file: str, values: Values) -> str:
    """Return the text with the values of all placeholders. Comments stay as they are."""
    lines = text.split("\n")
    for at, line in enumerate(lines):
        if "${" not in line or line.lstrip().startswith("#"):
            continue

        def value(found: re.Match[str], number: int = at + 1) -> str:
            name = found[1].strip()
            if not found[0].endswith("}") or not name:
                raise UsageError(f"{file}:{number}: {found[0]!r} is no placeholder such as ${{kafka.hosts}}")
            if (text := values.of(name)) is None:
                raise UsageError(f"{file}:{number}: ${{{name}}} {values.missing(name)}")
            return " ".join(text.splitlines())

        lines[at] = _PLACEHOLDER.sub(value, line)
    return "\n".join(lines)


def _is_small(root: yaml.Node) -> bool:
    """True if a file's values are not too many, aliases followed: they can make a few lines endless."""
    count, waiting = 0, [root]
    while waiting:
        node = waiting.pop()
        count += 1
        if count > MAX_NODES:
            return False
        if isinstance(node, yaml.MappingNode):
            waiting += [one for pair in node.value for one in pair]
        elif isinstance(node, yaml.SequenceNode):
            waiting += node.value
    return True


def read_properties(path: str | Path) -> dict[str, str]:
    """Read a file of lines ``name = value`` or ``name: value``. Lines that begin with # or ! are comments.

    Raises UsageError if the file cannot be read, or has another line.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from None
    found: dict[str, str] = {}
    for number, line in enumerate(map(str.strip, lines), 1):
        if not line or line[0] in "#!":
            continue
        parts = re.split(r"\s*[=:]\s*", line, maxsplit=1)
        if len(parts) < 2 or not parts[0]:
            raise UsageError(f"{path}:{number}: {line!r} is not a line such as 'kafka.hosts = localhost:9092'")
        found[parts[0]] = parts[1]
    return found
