"""The topology file that an import writes: explicit, and for a person to go on with."""

from __future__ import annotations  # pure

import keyword
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tupletree.cli.from_streamparse.options import taken
from tupletree.cli.from_streamparse.specs import JAVA, PROGRAM, PYTHON, Component, Input, Remark, TopologyRead

PROCESS: Final = "run_component.py"
"""The program, in ``resources``, that runs a class of streamparse in a process of its own."""


class Rendering:
    """A topology file in the making. ``text`` is the file, ``remarks`` what it does not have, ``conf`` its options.

    ``environment``: the name of the environment whose parallelism counts; "" if the project has none.
    """

    def __init__(self, name: str, read: TopologyRead, conf: Mapping[str, Any], environment: str) -> None:
        self.remarks: list[Remark] = []
        self.needs_process = False
        self._read = read
        self._conf = conf
        self._environment = environment
        self._names = _imported_names(read.components)
        self._own: list[str] = []  # functions that are left to the user
        self._of_library: set[str] = set()
        self._uses_error = False
        body = [line for component in read.components for line in self._component(component)]
        self.text = "\n".join([*self._head(name), *self._own, *self._functions(body)]) + "\n"

    def _head(self, name: str) -> Iterator[str]:
        yield f'"""Topology {name}, imported from the class {self._read.cls}. IMPORTED.md says what differs."""'
        yield ""
        yield "import sys"
        yield "from pathlib import Path"
        yield ""
        for place in ("topologies", "src") if self._read.uses_topologies else ("src",):
            yield f'sys.path.insert(0, str(Path(__file__).resolve().parent / "{place}"))'
        yield ""
        yield from self._imports()
        yield ""
        yield "CONF = {" + ("" if self._conf else "}")
        if self._conf:
            yield from (f"    {literal(key)}: {literal(value)}," for key, value in sorted(self._conf.items()))
            yield "}"
        yield ""
        yield ""

    def _imports(self) -> Iterator[str]:
        yield "from tupletree import TopologyBuilder"
        if self._uses_error:
            yield "from tupletree.errors import UsageError"
        if self._of_library:
            yield f"from tupletree.multilang import {', '.join(sorted(self._of_library))}"
        if self._names:
            yield ""
        by_module: dict[str, list[str]] = {}
        for (module, cls), local in sorted(self._names.items()):
            by_module.setdefault(module, []).append(cls if local == cls else f"{cls} as {local}")
        yield from (f"from {module} import {', '.join(names)}" for module, names in by_module.items())

    def _functions(self, body: Sequence[str]) -> Iterator[str]:
        yield "def build():"
        yield '    """Return the builder, for tests and further components."""'
        yield "    builder = TopologyBuilder()"
        yield from (f"    {line}" for line in body)
        yield "    return builder"
        yield ""
        yield ""
        yield "def topology():"
        yield '    """Return the topology and its configuration."""'
        yield "    return build().create_topology(), CONF"

    def _component(self, component: Component) -> Iterator[str]:
        variable = _identifier(component.name)
        if variable in _OWN_NAMES or variable in self._names.values():  # local in build(), it would hide these
            variable += "_"
        config, remarks = taken(component.config, component.name, is_component=True)
        self.remarks += remarks
        made = f"{self._made(component, config)}{self._executors(component)}"
        is_extra = bool(config) and not self._is_hosted(component)
        if component.is_spout:
            declared = f"builder.set_spout({literal(component.name)}, {made})"
            yield f"{declared}.add_configurations({literal(config)})" if is_extra else declared
            return
        yield f"{variable} = builder.set_bolt({literal(component.name)}, {made})"
        if is_extra:
            yield f"{variable}.add_configurations({literal(config)})"
        for source in component.inputs:
            yield f"{variable}.{self._grouping(component, source)}"

    @staticmethod
    def _is_hosted(component: Component) -> bool:
        return component.kind == PYTHON and not component.refused

    def _executors(self, component: Component) -> str:
        parallelism = component.parallelism
        if isinstance(parallelism, Mapping):
            if self._environment not in parallelism:
                sentence = f"it has a parallelism for {', '.join(sorted(parallelism))} alone, and gets 1"
                self.remarks.append(Remark(component.name, sentence, "choose an --environment, or set the number"))
            parallelism = parallelism.get(self._environment, 1)
        return f", {parallelism}" if parallelism != 1 else ""

    def _made(self, component: Component, config: Mapping[str, Any]) -> str:
        """Return the expression that makes a component."""
        kind = "Spout" if component.is_spout else "Bolt"
        if component.kind == JAVA:
            return self._left_to_you(component)
        if component.kind == PROGRAM:
            return self._program(component, literal(component.command))
        if component.refused:
            self.needs_process = True
            sentence = f"it stays a process, which costs more: {component.refused}"
            self.remarks.append(Remark(component.name, sentence, f"then use Pystorm{kind}({component.cls})"))
            self._of_library.add("PYTHON")
            program = literal([PROCESS, f"{component.module}.{component.cls}"])
            return self._program(component, f"[PYTHON, {program[1:]}")
        self._of_library.add(f"Pystorm{kind}")
        own = f", config={literal(config)}" if config != component.own_config else ""
        return f"Pystorm{kind}({self._names[component.module, component.cls]}{own})"

    def _program(self, component: Component, command: str) -> str:
        kind = "ShellSpout" if component.is_spout else "ShellBolt"
        self._of_library.add(kind)
        plain = {name: one["fields"] for name, one in component.outputs.items() if not one["is_direct"]}
        direct = {name: one["fields"] for name, one in component.outputs.items() if one["is_direct"]}
        outputs: Any = plain["default"] if list(plain) == ["default"] else plain
        more = f", direct={literal(direct)}" if direct else ""
        return f"{kind}({command}, {literal(outputs)}{more})"

    def _left_to_you(self, component: Component) -> str:
        kind = "spout" if component.is_spout else "bolt"
        streams = "; ".join(f"{name}: {', '.join(one['fields'])}" for name, one in component.outputs.items())
        arguments = f" with {', '.join(map(repr, component.arguments))}" if component.arguments else ""
        sentence = (
            f"the {kind} {component.name} is Java ({component.java}{arguments}); its outputs are {streams or 'none'}"
        )
        advice = f"return a {kind} in Python from {_identifier(component.name)}_in_python(), or one of the connectors"
        self._leave(f"{_identifier(component.name)}_in_python", component.name, sentence, advice)
        return f"{_identifier(component.name)}_in_python()"

    def _leave(self, function: str, subject: str, sentence: str, advice: str) -> None:
        self._uses_error = True
        self.remarks.append(Remark(subject, sentence, advice, is_open=True))
        lines = [f"        {literal(f'{sentence}; ')}", f"        {literal(advice)}"]
        self._own += [f"def {function}():", "    raise UsageError(", *lines, "    )", "", ""]

    def _grouping(self, component: Component, source: Input) -> str:
        stream = [] if source.stream == "default" else [literal(source.stream)]
        if source.grouping == "custom":
            function = f"grouping_of_{_identifier(component.name)}_by_{_identifier(source.component)}"
            sentence = f"{component.name} gets {source.component} by a grouping in Java ({source.java})"
            advice = f"return a CustomGrouping from {function}(), or use another grouping"
            self._leave(function, component.name, sentence, advice)
            return f"custom_grouping({', '.join([literal(source.component), f'{function}()', *stream])})"
        fields: list[str] = []
        if source.grouping == "fields":
            fields = [literal(source.fields[0] if len(source.fields) == 1 else source.fields)]
        return f"{source.grouping}_grouping({', '.join([literal(source.component), *fields, *stream])})"


_OWN_NAMES: Final = frozenset(
    ("CONF", "Path", "PystormBolt", "PystormSpout", "ShellBolt", "ShellSpout", "TopologyBuilder", "UsageError")
)
"""The names that a file uses in build()."""


def literal(value: Any) -> str:
    """Return a value of JSON as Python writes it, texts in double quotes."""
    match value:
        case str() if not set(value) & set('"\\') and value.isprintable():
            return f'"{value}"'
        case Mapping():
            return "{" + ", ".join(f"{literal(key)}: {literal(one)}" for key, one in value.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(literal, value)) + "]"
        case _:
            return repr(value)


def _identifier(name: str) -> str:
    found = re.sub(r"\W|^(?=\d)", "_", name)
    return f"{found}_" if keyword.iskeyword(found) or found in ("builder", "sys") else found


def _imported_names(components: Sequence[Component]) -> dict[tuple[str, str], str]:
    """Return the local name of each class, by module and name: with the module's, where two classes share one."""
    classes = {(one.module, one.cls) for one in components if one.kind == PYTHON and not one.refused}
    names = [cls for _, cls in classes]
    return {
        (module, cls): cls if names.count(cls) == 1 else f"{module.replace('.', '_')}_{cls}" for module, cls in classes
    }


def process_program() -> str:
    """Return the program that runs a class of streamparse in a process of its own."""
    return f'''"""{PROCESS} MODULE.CLASS: a component of streamparse as a process, for ShellSpout and ShellBolt."""

import sys
from pathlib import Path

PLACE = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(PLACE), str(PLACE / "src")]

from streamparse.run import main

main()
'''
