"""Objects of a Flux file: instances of Python classes, with arguments, properties and method calls."""

from __future__ import annotations

import copy
import importlib
import inspect
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tupletree.errors import TupletreeError
from tupletree.flux.items import Item

OBJECT_KEYS: Final = ("className", "constructorArgs", "factory", "factoryArgs", "properties", "configMethods")


class Objects:
    """Makes the objects of one file, each of ``components`` once and when it is first asked for.

    ``directory``: of the file, where its modules lie.
    """

    def __init__(self, components: Mapping[str, Item], directory: Path) -> None:
        self._components = components
        self._directory = directory
        self._made: dict[str, Any] = {}
        self._making: list[str] = []

    def check_all(self) -> None:
        """Make every component, also those that nothing refers to: their faults are told too."""
        for id, item in self._components.items():
            self._component(id, item)

    def make(self, what: str, item: Item, entry: Mapping[str, Item]) -> Any:
        """Return the object that an entry of the file describes. ``what``: names it in errors. Raises UsageError."""
        if "className" not in entry:
            raise item.fault(f"{what} lacks 'className'")
        found = self._named(what, entry["className"])
        for unused, used in (("constructorArgs", "factory" in entry), ("factoryArgs", "factory" not in entry)):
            if unused in entry and used:
                why = "a factory has factoryArgs" if unused == "constructorArgs" else "there is no factory"
                raise entry[unused].fault(f"{what}: {unused} has no effect: {why}")
        if "factory" in entry:
            maker = self.attribute(what, entry["factory"], found, entry["factory"].text("factory"))
            made = self._call(what, entry["factory"], maker, entry.get("factoryArgs"))
        elif isinstance(found, type) or inspect.isroutine(found):
            made = self._call(what, item, found, entry.get("constructorArgs"))
        elif "constructorArgs" in entry:
            raise entry["constructorArgs"].fault(f"{what}: {entry['className'].value()} is an object, not a class")
        else:
            made = copy.copy(found)  # the module's own object stays as it is
        for one in entry["properties"].sequence("properties") if "properties" in entry else ():
            self._set(what, one, made)
        for one in entry["configMethods"].sequence("configMethods") if "configMethods" in entry else ():
            method = one.mapping("a config method", ["name"], ["args"])
            call = self.attribute(what, method["name"], made, method["name"].text("name"))
            self._call(what, one, call, method.get("args"))
        return made

    def value(self, item: Item) -> Any:
        """Return a value in which ``{ref: id}`` and ``{reflist: [id, …]}`` stand for components."""
        if item.is_sequence:
            return [self.value(one) for one in item.sequence("a list")]
        if not item.is_mapping:
            return item.value()
        entry = item.mapping("a value", optional=None)
        for name in ("ref", "reflist"):
            if name in entry:
                if others := entry.keys() - {name}:
                    raise item.fault(f"beside {name} there is {', '.join(sorted(others))}: {name} stands alone")
                return self._given(name, entry[name])
        return {name: self.value(one) for name, one in entry.items()}

    def _given(self, key: str, item: Item) -> Any:
        """Return what stands under ``value``, ``ref`` or ``reflist``."""
        if key == "reflist":
            return [self._referred(one) for one in item.sequence(key)]
        return self._referred(item) if key == "ref" else self.value(item)

    def _referred(self, item: Item) -> Any:
        id = item.text("ref")
        if id not in self._components:
            raise item.fault(f"there is no component '{id}'")
        if id in self._making:
            raise item.fault(f"component '{id}' refers to itself: {' -> '.join([*self._making, id])}")
        return self._component(id, self._components[id])

    def _component(self, id: str, item: Item) -> Any:
        if id not in self._made:
            self._making.append(id)
            what = f"component '{id}'"
            self._made[id] = self.make(what, item, item.mapping(what, ["id", "className"], OBJECT_KEYS))
            self._making.pop()
        return self._made[id]

    def _set(self, what: str, item: Item, made: Any) -> None:
        entry = item.mapping("a property", ["name"], ["value", "ref", "reflist"])
        given = [name for name in ("value", "ref", "reflist") if name in entry]
        if len(given) != 1:
            raise item.fault("a property has one of value, ref and reflist")
        name, value = entry["name"].text("name"), self._given(given[0], entry[given[0]])
        self.attribute(what, entry["name"], made, name)  # a typing error would be an attribute that nobody reads
        try:
            setattr(made, name, value)
        except (Exception, SystemExit) as error:
            raise entry["name"].fault(f"{what}: {name} cannot be set: {_explained(error)}") from error

    def attribute(self, what: str, item: Item, owner: Any, name: str) -> Any:
        """Return an attribute of an object. Raises UsageError, with the place in the file, if there is none."""
        try:
            return getattr(owner, name)
        except AttributeError:
            kind = owner.__name__ if isinstance(owner, type) else type(owner).__name__
            raise item.fault(f"{what}: {kind} has no '{name}'") from None
        except (Exception, SystemExit) as error:
            raise item.fault(f"{what}: {name} raised {_explained(error)}") from error

    def _call(self, what: str, item: Item, maker: Callable[..., Any], arguments: Item | None) -> Any:
        positional: list[Any] = []
        named: dict[str, Any] = {}
        if arguments is not None and arguments.is_mapping:
            named = {name: self.value(one) for name, one in arguments.mapping("arguments", optional=None).items()}
            if named.keys() in ({"ref"}, {"reflist"}):
                raise arguments.fault(f"{what}: arguments are a list: write '- {next(iter(named))}: …'")
        elif arguments is not None:
            positional = [self.value(one) for one in arguments.sequence("arguments")]
        return self.called(what, item, maker, *positional, **named)

    def called(self, what: str, item: Item, maker: Callable[..., Any], /, *positional: Any, **named: Any) -> Any:
        """Call the user's code. Raises UsageError, with the place in the file and in the code, if it raises."""
        try:
            return maker(*positional, **named)
        except TupletreeError as error:
            raise item.fault(f"{what}: {error}") from error
        except (Exception, SystemExit) as error:
            name = getattr(maker, "__name__", type(maker).__name__)
            raise item.fault(f"{what}: {name} raised {_explained(error)}") from error

    def _named(self, what: str, item: Item) -> Any:
        """Return the class, function or object of a dotted name. Raises UsageError."""
        name = item.text("className")
        if name.startswith("org.apache.storm.flux.wrappers."):
            kind = "ShellSpout" if name.endswith("Spout") else "ShellBolt"
            raise item.fault(f"{what}: {name} is a Java class; tupletree.multilang.{kind} does the same")
        if name.startswith(("org.apache.", "backtype.", "java.")):
            raise item.fault(f"{what}: {name} is a Java class; name a Python class, such as 'my_module.Count'")
        parts = name.split(".")
        if len(parts) < 2 or not all(part.isidentifier() for part in parts):
            raise item.fault(f"{what}: className is {name!r}; a name such as 'my_module.Count' was expected")
        found, rest = self._imported(what, item, parts)
        self._check_place(what, item, parts[0])
        for at, part in enumerate(rest):
            kind = f"module {found.__name__}" if at == 0 else getattr(found, "__name__", type(found).__name__)
            try:
                found = getattr(found, part)
            except AttributeError:
                raise item.fault(f"{what}: {kind} has no '{part}'") from None
        return found

    def _imported(self, what: str, item: Item, parts: Sequence[str]) -> tuple[Any, Sequence[str]]:
        """Import as much of a dotted name as is a module, and return the module and the rest."""
        for end in range(len(parts) - 1, 0, -1):
            module = ".".join(parts[:end])
            try:
                return importlib.import_module(module), parts[end:]
            except ModuleNotFoundError as error:
                if end > 1 and error.name == module:  # a class within a class
                    continue
                raise item.fault(f"{what}: {module} cannot be imported: {error}{_place(error)}") from error
            except (Exception, SystemExit) as error:
                raise item.fault(f"{what}: {module} cannot be imported: {_explained(error)}") from error
        raise AssertionError(parts)

    def _check_place(self, what: str, item: Item, root: str) -> None:
        """Refuse a module that is another one than that beside the file."""
        own = [self._directory / f"{root}.py", self._directory / root / "__init__.py"]
        here = next((one for one in own if one.is_file()), None)
        file = getattr(sys.modules.get(root), "__file__", None)
        if here is not None and (file is None or Path(file).resolve() != here.resolve()):
            raise item.fault(f"{what}: module {root} is {file or 'built in'}, not {here}: rename it")


def _explained(error: BaseException) -> str:
    """Return the error with the place in the user's code that raised it: ``ValueError: no (app.py, line 3)``."""
    return f"{type(error).__name__}: {error}{'' if isinstance(error, SyntaxError) else _place(error)}"


def _place(error: BaseException) -> str:
    frames = [one for one in traceback.extract_tb(error.__traceback__)[1:] if not one.filename.startswith("<frozen ")]
    frames = [one for one in frames if one.filename != importlib.__file__]
    return f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
