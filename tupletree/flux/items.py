"""Items of a YAML file: values that know the line where they stand, so that a fault is told with it."""

from __future__ import annotations  # pure

import difflib
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import yaml

from tupletree.errors import UsageError


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
        self, what: str, required: Collection[str] = (), optional: Collection[str] | None = ()
    ) -> dict[str, Item]:
        """Return the values by key. ``optional``: the keys that there may be beside the required ones; None: any.

        ``what``: names the value in errors.
        """
        if not isinstance(self.node, yaml.MappingNode):
            raise self.fault(f"{what} is {self._kind}; a mapping such as 'id: count' was expected")
        found: dict[str, Item] = {}
        for key, value in self.node.value:
            name = Item(key, self.file).text(f"a key of {what}")
            if name in found:
                raise Item(key, self.file).fault(f"{what} has '{name}' twice")
            if optional is not None and name not in {*required, *optional}:
                raise Item(key, self.file).fault(f"{what} has no '{name}'{_meant(name, [*required, *optional])}")
            found[name] = Item(value, self.file)
        for name in required:
            if name not in found:
                raise self.fault(f"{what} lacks '{name}'")
        return found

    def sequence(self, what: str) -> list[Item]:
        """Return the elements of a list; no elements for an empty value."""
        if isinstance(self.node, yaml.SequenceNode):
            return [Item(one, self.file) for one in self.node.value]
        if self.value() is None:
            return []
        raise self.fault(f"{what} is {self._kind}; a list was expected, each element after '- '")

    def text(self, what: str) -> str:
        value = self.value() if isinstance(self.node, yaml.ScalarNode) else None
        if not isinstance(value, str) or not value:
            raise self.fault(f"{what} is {self._kind}; a text was expected")
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
        loader = yaml.SafeLoader("")
        try:
            return loader.construct_document(self.node)
        except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
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
