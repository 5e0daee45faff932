"""Items of a YAML file: values that know the line where they stand, so that a fault is told with it."""

from __future__ import annotations  # pure

import difflib
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

import yaml

from tupletree.errors import UsageError

_YAML: Final = "tag:yaml.org,2002:"
_MAP, _SEQ, _MERGE = f"{_YAML}map", f"{_YAML}seq", f"{_YAML}merge"


@dataclass(frozen=True, slots=True)
class Item:
    """A value in a file. Every method that reads it raises UsageError with file and line if it is of another kind."""

    node: yaml.Node
    file: str

    @property
    def line(self) -> int:
        return int(self.node.start_mark.line) + 1

    def fault(self, text: str) -> UsageError:
        """Return the error that names the place of this value."""
        return UsageError(f"{self.file}:{self.line}: {text}")

    @property
    def is_mapping(self) -> bool:
        return isinstance(self.node, yaml.MappingNode)

    @property
    def is_sequence(self) -> bool:
        return isinstance(self.node, yaml.SequenceNode)

    def mapping(
        self,
        what: str,
        required: Collection[str] = (),
        optional: Collection[str] | None = (),
        example: str = "id: count",
    ) -> dict[str, Item]:
        """Return the values by key. ``optional``: the keys that there may be beside the required ones; None: any.

        ``what``: names the value in errors. ``example``: shown in them. The keys of ``<<`` are those of the mapping,
        where it has none of the same name.
        """
        if not isinstance(self.node, yaml.MappingNode):
            raise self.fault(f"{what} is {self._kind}; a mapping such as '{example}' was expected")
        self._check_tag(_MAP)
        found: dict[str, Item] = {}
        merged: dict[str, Item] = {}
        known = None if optional is None else {*required, *optional}
        for key, value in self.node.value:
            place, item = Item(key, self.file), Item(value, self.file)
            if key.tag == _MERGE:
                for one in item.sequence("<<") if item.is_sequence else [item]:
                    merged = {**one.mapping(what, optional=None), **merged}
                continue
            name = place.text(f"a key of {what}")
            if name in found:
                raise place.fault(f"{what} has '{name}' twice")
            if known is not None and name not in known:
                raise place.fault(f"{what} has no '{name}'{_meant(name, known)}")
            found[name] = item
        found = {**{name: item for name, item in merged.items() if known is None or name in known}, **found}
        for name in required:
            if name not in found:
                raise self.fault(f"{what} lacks '{name}'")
        return found

    def _check_tag(self, tag: str) -> None:
        if self.node.tag != tag:
            raise self.fault(f"{self.node.tag.replace(_YAML, '!!')} is no tag that a topology file may have")

    @property
    def is_empty(self) -> bool:
        return isinstance(self.node, yaml.ScalarNode) and self.node.tag == f"{_YAML}null"

    @property
    def is_nothing(self) -> bool:
        """True for an empty value, and for a list or mapping without elements."""
        return self.is_empty or (isinstance(self.node, yaml.CollectionNode) and not self.node.value)

    def sequence(self, what: str) -> list[Item]:
        """Return the elements of a list; no elements for an empty value."""
        if isinstance(self.node, yaml.SequenceNode):
            self._check_tag(_SEQ)
            return [Item(one, self.file) for one in self.node.value]
        if self.is_empty:
            return []
        raise self.fault(f"{what} is {self._kind}; a list was expected, each element after '- '")

    def text(self, what: str) -> str:
        value = self.value() if isinstance(self.node, yaml.ScalarNode) else None
        if not isinstance(value, str) or not value:
            hint = "" if self.is_mapping or self.is_sequence or self.is_empty else ": put it in quotes"
            raise self.fault(f"{what} is {self._kind}; a text was expected{hint}")
        return value

    def whole(self, what: str) -> int:
        value = self.value()
        if type(value) is not int or value < 1:
            raise self.fault(f"{what} is {self._kind}; a number from 1 on was expected")
        return value

    def flag(self, what: str) -> bool:
        value = self.value()
        if type(value) is not bool:
            raise self.fault(f"{what} is {self._kind}; true or false was expected")
        return value

    def value(self) -> Any:
        """Return the plain value: text, number, bool, None, date, list or dict."""
        if isinstance(self.node, yaml.MappingNode):
            return {name: item.value() for name, item in self.mapping("a value", optional=None).items()}
        if isinstance(self.node, yaml.SequenceNode):
            return [item.value() for item in self.sequence("a list")]
        loader = yaml.SafeLoader("")
        try:
            return loader.construct_document(self.node)
        except (yaml.YAMLError, ValueError, TypeError) as error:
            text = error.problem if isinstance(error, yaml.MarkedYAMLError) else str(error)
            raise self.fault(f"not a value: {text}") from None
        finally:
            loader.dispose()

    @property
    def _kind(self) -> str:
        if isinstance(self.node, yaml.MappingNode):
            return "a mapping"
        if isinstance(self.node, yaml.SequenceNode):
            return "a list"
        return "empty" if self.value() is None else repr(self.value())


def _meant(name: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(name, known, 1)
    return f"; '{near[0]}' was meant?" if near else f"; it can have {', '.join(sorted(known))}"
