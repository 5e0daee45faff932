"""Topology files: modules with a topology, its builder or pipeline, or a callable that returns one; YAML of Flux."""

from __future__ import annotations

import importlib.util
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from tupletree.errors import TupletreeError, UsageError
from tupletree.topology import Topology

DEFAULT_CALLABLE: Final = "topology"
YAML: Final = (".yaml", ".yml")


def load_topology(
    argument: str, filter_file: str | None = None, env_filter: bool = False
) -> tuple[Topology, dict[str, Any], str]:
    """The topology of ``FILE[:CALLABLE]``, the configuration it brings, and its default name.

    ``filter_file``, ``env_filter``: whether the placeholders of a YAML file stand for the properties of a file, and for
    environment variables.

    If the callable returns an object with a method ``topology``, as a pipeline has, that method is called in turn.

    Raises:
        UsageError: the file is missing or cannot be imported; its callable is missing, fails or returns something else.
    """
    path, name = _split(argument)
    if path.suffix.lower() in YAML:
        if name != DEFAULT_CALLABLE:
            raise UsageError(f"{path} is YAML, without functions: leave ':{name}' out")
        return _of_yaml(path, filter_file, env_filter)
    if filter_file is not None or env_filter:
        raise UsageError(f"--filter and --env-filter are for topologies in YAML, and {path} is none")
    if not path.is_file():
        meant = path.with_name(path.name + ".py")
        hint = f"; did you mean {meant}?" if meant.is_file() else ""
        raise UsageError(f"there is no topology file {path}{hint}")
    made = _call(_callable(_import(path), name, path), name, path)
    conf: Any = {}
    if isinstance(made, tuple) and len(made) == 2:
        made, conf = made
    if _makes_topology(made) and not isinstance(made, type):
        name = f"{type(made).__name__}.topology"
        made = _call(made.topology, name, path)
    if hasattr(made, "create_topology") and not isinstance(made, type):
        made = made.create_topology()
    if not isinstance(made, Topology):
        raise UsageError(f"{name}() in {path} must return a Topology, not {type(made).__name__}")
    if not isinstance(conf, dict):
        raise UsageError(f"{name}() in {path} must return a dict after the Topology, not {type(conf).__name__}")
    return made, dict(conf), path.stem


def _of_yaml(path: Path, filter_file: str | None, env_filter: bool) -> tuple[Topology, dict[str, Any], str]:
    from tupletree.flux import load_flux, read_properties

    properties = None if filter_file is None else read_properties(filter_file)
    made = load_flux(path, properties, os.environ if env_filter else None)
    return made.topology, made.conf, made.name


def _split(argument: str) -> tuple[Path, str]:
    file, colon, name = argument.rpartition(":")
    if colon and name.isidentifier() and not Path(argument).exists():
        return Path(file), name
    return Path(argument.removesuffix(":")), DEFAULT_CALLABLE


def _import(path: Path) -> ModuleType:
    """Import the file as ``python FILE`` would: its directory is first on sys.path, its stem the module's name."""
    path = path.resolve()
    name = path.stem
    if not name.isidentifier() or name in sys.modules or name in sys.stdlib_module_names:
        name = "_topology_" + "".join(c if c.isalnum() else "_" for c in path.stem)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is not a Python file")
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        sys.modules.pop(name, None)
        raise UsageError(f"{path} cannot be imported: {_explain(error, path)}") from error
    return module


def _callable(module: ModuleType, name: str, path: Path) -> Callable[[], Any]:
    found = getattr(module, name, None)
    if callable(found):
        return found  # type: ignore[no-any-return]
    if isinstance(found, Topology) or hasattr(found, "create_topology") or _makes_topology(found):
        return lambda: found
    if name == DEFAULT_CALLABLE and (written := _line_to_write(module, name)):
        what = f"has no '{name}'" if found is None else f"has a {type(found).__name__} as '{name}'"
        raise UsageError(f"{path} {what}: write {written} at its end")
    others = sorted(n for n, v in vars(module).items() if n[0] != "_" and _may_be_meant(v, module))
    hint = f"; it defines {', '.join(others)}" if others else ""
    raise UsageError(f"{path} has no '{name}' that is a topology or a function that returns one{hint}")


def _may_be_meant(value: Any, module: ModuleType) -> bool:
    """True for a topology, for what makes one, and for a function of the module."""
    if isinstance(value, Topology) or _makes_topology(value) or hasattr(value, "create_topology"):
        return not isinstance(value, type) or value.__module__ == module.__name__
    return callable(value) and not isinstance(value, type) and getattr(value, "__module__", "") == module.__name__


def _line_to_write(module: ModuleType, name: str) -> str:
    """Return the line that makes a topology of the first builder in a module; "" without a builder."""
    for variable, value in vars(module).items():
        if hasattr(value, "create_topology") and not isinstance(value, type):
            return f"{name} = {variable}"
        if _makes_topology(value) and not isinstance(value, type):
            return f"{name} = {variable}.topology()"
    return ""


def _makes_topology(value: Any) -> bool:
    """True for an object with a method ``topology``, or the class of such objects."""
    return callable(getattr(value, "topology", None))


def _call(make: Callable[[], Any], name: str, path: Path) -> Any:
    try:
        return make()
    except TupletreeError:
        raise
    except (Exception, SystemExit) as error:
        raise UsageError(f"{name}() in {path} raised {_explain(error, path.resolve())}") from error


def _explain(error: BaseException, path: Path) -> str:
    """``ImportError: no module x (line 3)``: the last line of the user's file that was running."""
    line = error.lineno if isinstance(error, SyntaxError) and error.filename == str(path) else None
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename == str(path):
            line = frame.lineno
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{type(error).__name__}: {text}" + (f" (line {line})" if line else "")
