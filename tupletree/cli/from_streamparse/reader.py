"""Reads the topology of one file of a streamparse project, by importing it as streamparse does.

    python -m tupletree.cli.from_streamparse.reader FILE OUT

Runs in a process of its own, in the project's directory: the project's modules have names such as ``bolts``, print,
and stay imported. ``OUT`` gets the topology as JSON (specs.py), or ``{"error": …}``.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tupletree.cli.from_streamparse.specs import JAVA, PROGRAM, PYTHON
from tupletree.errors import UsageError
from tupletree.multilang import PystormBolt, PystormSpout

_RUN: Final = "streamparse_run"
_GROUPINGS: Final = ("shuffle", "all", "none", "direct", "local_or_shuffle")


def main(argv: list[str]) -> int:
    """Read a topology; return the exit status."""
    file, out = Path(argv[0]), Path(argv[1])
    with contextlib.redirect_stdout(sys.stderr):
        try:
            found = read(file)
        except (Exception, SystemExit) as error:
            found = {"error": f"{type(error).__name__}: {error}{_line_in(error, file)}"}
    out.write_text(json.dumps(found), encoding="utf-8")
    return 0


def _line_in(error: BaseException, file: Path) -> str:
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == file]
    return f" (line {lines[-1]})" if lines else ""


def read(file: Path) -> dict[str, Any]:
    """Return the first topology of a file, which is the one that streamparse runs."""
    from streamparse import Topology
    from streamparse.dsl.topology import TopologyType

    sys.path.append(str(file.parent.parent / "src"))
    is_shadowing = importlib.util.find_spec(file.stem) is not None
    sys.path += [str(file.parent), str(file.parent.parent)]
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None, "a file whose name ends in .py has a loader"
    module = importlib.util.module_from_spec(spec)
    if not is_shadowing:
        sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    topologies = [one for one in vars(module).values() if isinstance(one, TopologyType) and one is not Topology]
    if not topologies:
        raise UsageError(f"{file.name} has no subclass of streamparse.Topology")
    first = topologies[0]
    components = [component_of(one) for one in first.specs]
    beside = [one for one in components if one["kind"] == PYTHON and _is_beside(one["module"], file)]
    return {
        "cls": first.__name__,
        "config": dict(first.config),
        "components": components,
        "others": [one.__name__ for one in topologies[1:] if one.__module__ == file.stem],
        "is_shadowing": is_shadowing or any(one["module"] == file.stem for one in beside),
        "uses_topologies": bool(beside),
    }


def _is_beside(module: str, file: Path) -> bool:
    found = getattr(sys.modules.get(module), "__file__", None)
    return found is not None and Path(found).resolve().parent == file.resolve().parent


def component_of(spec: Any) -> dict[str, Any]:
    """Return a component as plain values."""
    from streamparse.dsl.bolt import JavaBoltSpec, ShellBoltSpec

    found: dict[str, Any] = {
        "name": spec.name,
        "is_spout": not isinstance(spec, JavaBoltSpec | ShellBoltSpec),
        "parallelism": spec.par,
        "config": json.loads(spec.config),
        "outputs": {
            stream: {"fields": list(info.output_fields), "is_direct": bool(info.direct)}
            for stream, info in spec.outputs.items()
        },
        "inputs": [input_of(source, grouping) for source, grouping in spec.inputs.items()],
    }
    program = spec.component_object.shell
    if program is None:
        return {**found, "kind": JAVA, **_java_of(spec.component_object)}
    if program.execution_command != _RUN:
        return {**found, "kind": PROGRAM, "command": [program.execution_command, *program.script.split()]}
    cls = spec.component_cls
    own_config: Mapping[str, Any] = cls.config or {}
    named = {"module": cls.__module__, "cls": cls.__name__, "own_config": dict(own_config)}
    return {**found, "kind": PYTHON, **named, "refused": _refusal(cls, found["is_spout"])}


def _refusal(cls: Any, is_spout: bool) -> str:
    try:
        (PystormSpout if is_spout else PystormBolt)(cls)
    except UsageError as error:
        return str(error)
    return ""


def input_of(source: Any, grouping: Any) -> dict[str, Any]:
    """Return an input as plain values. A fields grouping without fields is the global one."""
    found = {"component": source.componentId, "stream": source.streamId}
    if grouping.fields is not None:
        fields = list(grouping.fields)
        return {**found, "grouping": "fields", "fields": fields} if fields else {**found, "grouping": "global"}
    kind = next((name for name in _GROUPINGS if getattr(grouping, name, None) is not None), "custom")
    if kind != "custom":
        return {**found, "grouping": kind}
    custom = grouping.custom_object
    return {**found, "grouping": kind, "java": custom.full_class_name if custom else "a serialized object"}


def _java_of(component: Any) -> dict[str, Any]:
    from streamparse.dsl.util import to_python_arg_list

    found = component.java_object
    if found is None:
        return {"java": "a serialized object"}
    arguments = [one.hex() if isinstance(one, bytes) else one for one in to_python_arg_list(found.args_list)]
    return {"java": found.full_class_name, "arguments": arguments}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
