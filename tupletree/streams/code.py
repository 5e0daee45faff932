"""Turns narrow operators into the source text of one Python function, and compiles it.

``flat_map(str.split)``, ``filter(p)`` and ``key_by(f)``, followed by an output, become

    def run(k0, t0, v0, a):
        for v1 in f0(v0):
            if f1(v1):
                k1 = f2(v1)
                if type(k1) is not str and type(k1) not in plain:
                    checked_key(k1)
                emit((k1, v1), a)

so that an element costs the calls of the user's functions and nothing else: the ``try`` around a loop that explains
what is not iterable costs nothing until something is raised. The functions of the user are arguments of an enclosing
function; no text of the user gets into the source. A function such as ``lambda word: word`` is not called.
"""

from __future__ import annotations  # pure

import contextlib
import linecache
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import getattr_static
from types import FunctionType, MethodType
from typing import Any, Final

from tupletree.keyed.progress import PLAIN
from tupletree.keyed.settings import MAX_EVENT_TIME_MS
from tupletree.streams.elements import check_record, check_results, checked_key, milliseconds
from tupletree.streams.graph import Kind
from tupletree.streams.layout import Layout
from tupletree.streams.steps import Combine, Emit, Fold, Next, Step, emits_of, gives_other_times

MAX_DEPTH: Final = 15
"""Blocks that are nested in one function. CPython allows 20 loops in each other; what is deeper becomes a function."""

INDENT: Final = "    "
_SAME: Final = (lambda element: element).__code__.co_code
_TEXTS: Final = (str.split, str.rsplit, str.splitlines)
"""Functions that return lists of str, which need no check as keys, and raise no FailedException."""


@dataclass(frozen=True, slots=True)
class At:
    """The names of the variables that hold the present element, its key and its event time."""

    key: str
    time: str
    value: str
    is_text: bool = False  # the element is a str for certain


ARGUMENTS: Final = At("k", "t", "v")


class Code:
    """The text of functions, and the objects that they use by name.

    ``emits``: the text of a call that emits ``{row}``, by stream. ``names``: objects that these texts use.

    Attributes:
        emits_rows: the text of a call that emits ``{rows}``, by stream; with it, what the results of one element of a
            flat_map emit is emitted by one call.
        partials: the partial values by stream of the aggregations whose elements the functions combine.
        newest: a list of one event time, which the functions raise to the newest that they give; None: they do not.
    """

    def __init__(self, emits: Mapping[str, str], **names: Any) -> None:
        self.emits = emits
        self.emits_rows: Mapping[str, str] = {}
        self.names: dict[str, Any] = {
            "plain": PLAIN,
            "checked_key": checked_key,
            "check_record": check_record,
            "check_results": check_results,
            "ms": milliseconds,
            **names,
        }
        self.partials: dict[str, dict[Any, Any]] = {}
        self.newest: list[int] | None = None
        self.lines: list[str] = []
        self._waiting: list[tuple[str, Sequence[Next]]] = []
        self._count = 0

    def name(self, prefix: str, value: Any) -> str:
        """Return a name by which the code finds an object."""
        name = self.variable(prefix)
        self.names[name] = value
        return name

    def function(self, function: Any) -> str:
        """Return a name by which the code calls an object: Python calls a method faster than an object that has it."""
        method = getattr_static(type(function), "__call__", None)
        return self.name("f", MethodType(method, function) if isinstance(method, FunctionType) else function)

    def variable(self, prefix: str) -> str:
        """Return a new name."""
        self._count += 1
        return f"{prefix}{self._count}"

    def add(self, depth: int, line: str) -> None:
        """Add a line at an indentation."""
        self.lines.append(INDENT * depth + line)

    def then(self, steps: Sequence[Next], at: At, depth: int) -> None:
        """Write what follows an element. Writes at least one line."""
        if depth > MAX_DEPTH:
            name = self.variable("rest")
            self._waiting.append((name, steps))
            self.add(depth, f"{name}({at.key}, {at.time}, {at.value}, a)")
            return
        for one in steps:
            if isinstance(one, Emit):
                if one.layout.has_value and one.layout.is_dataclass:
                    record = self.name("r", one.layout.record)
                    self.add(depth, f"if type({at.value}) is not {record}:")
                    self.add(depth + 1, f"check_record({record}, {at.value})")
                self.add(depth, self.emits[one.stream].format(row=row_text(one.layout, at)))
            elif isinstance(one, Combine):
                self._combine(one, at, depth)
            else:
                _WRITERS[one.kind](self, one, at, depth)
        if not steps:
            self.add(depth, "pass")

    def _combine(self, one: Combine, at: At, depth: int) -> None:
        fold = one.fold
        partials = self.partials.setdefault(one.stream, defaultdict(int))
        name = self.name("p", partials)
        if fold.is_sum:
            self.add(depth, f"{name}[{at.key}] += {1 if fold.is_count else at.value}")
            return
        self.add(
            depth, f"{name}[{at.key}] = " + folded_text(self, fold, f"{name}[{at.key}]", f"{at.key} in {name}", at)
        )

    @contextlib.contextmanager
    def collecting(self, steps: Sequence[Next], depth: int) -> Iterator[None]:
        """Write a loop: what ``steps`` in it emit is emitted after the loop."""
        before, after = self.emits, self.emits_rows
        rows = {stream: self.variable("rows") for stream in emits_of(steps) if stream in after}
        if not rows:
            yield
            return
        for name in rows.values():
            self.add(depth, f"{name} = []")
        self.emits = {**before, **{stream: f"{name}.append({{row}})" for stream, name in rows.items()}}
        self.emits_rows = {}
        yield
        self.emits, self.emits_rows = before, after
        for stream, name in rows.items():
            self.add(depth, after[stream].format(rows=name))

    def compiled(self, title: str) -> Any:
        """Compile what was written; return the function ``run``. ``title``: what the code is of, for tracebacks."""
        body = self.lines
        while self._waiting:
            name, steps = self._waiting.pop()
            self.lines = []
            self.add(0, f"def {name}(k, t, v, a):")
            self.then(steps, ARGUMENTS, 1)
            body = self.lines + body
        lines = [f"def make({', '.join(self.names)}):", *(INDENT + line for line in body), INDENT + "return run"]
        text = "\n".join([*lines, ""])
        file = f"<operators of {title}, {zlib.crc32(text.encode()):08x}>"  # the same in each life of a task
        space: dict[str, Any] = {}
        exec(compile(text, file, "exec"), space)
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)  # for tracebacks
        return space["make"](*self.names.values())


def folded_text(code: Code, fold: Fold, value: str, exists: str, at: At) -> str:
    """Return the text of a value with an element added. ``value``, ``exists``: texts of the old value, if any."""
    if fold.initial is None:
        add = code.function(fold.add)
        return f"{add}({value}, {at.value}) if {exists} else {at.value}"
    add, initial = code.function(fold.add), code.function(fold.initial)
    return f"{add}({value} if {exists} else {initial}(), {at.value})"


def row_text(layout: Layout, at: At) -> str:
    """Return the text of the row of values in which an element travels."""
    parts = ([at.key] if layout.has_key else []) + ([at.time] if layout.has_time else [])
    if not layout.has_value:
        pass
    elif layout.record is None:
        parts.append(at.value)
    elif layout.is_dataclass:
        parts += [f"{at.value}.{name}" for name in layout.value_fields]
    else:
        parts.append(f"*{at.value}")
    return f"({', '.join(parts)},)"


def called(code: Code, function: Any, argument: str) -> str:
    """Return the text of a call of a function with one argument."""
    return argument if is_identity(function) else f"{code.function(function)}({argument})"


def is_identity(function: Any) -> bool:
    """Return True for a function such as ``lambda element: element``."""
    if not isinstance(function, FunctionType):
        return False
    return function.__code__.co_code == _SAME and function.__code__.co_argcount > 0


def counted_texts(then: Sequence[Next]) -> Any:
    """Return the function of a ``flat_map`` into texts that are counted as they are; None if the steps are others."""
    match then:
        case [Step(Kind.FLAT_MAP, splits, (Step(Kind.KEY_BY, key, (Combine(_, fold),)),))]:
            return splits if splits in _TEXTS and is_identity(key) and fold.is_count else None
    return None


def read(code: Code, layout: Layout, depth: int) -> At:
    """Write the lines that take an element from the tuple ``a``; return the names of its parts."""
    if layout.has_key:
        code.add(depth, f"k = a[{layout.key_field!r}]")
    if layout.has_time:
        code.add(depth, f"t = a[{layout.time_field!r}]")
    if not layout.has_value:
        pass
    elif layout.record is None:
        code.add(depth, f"v = a[{layout.value_fields[0]!r}]")
    else:
        record = code.name("r", layout.record)
        code.add(depth, f"v = {record}({', '.join(f'{name}=a[{name!r}]' for name in layout.value_fields)})")
    return At("k" if layout.has_key else "None", "t" if layout.has_time else "None", "v")


def read_row(code: Code, layout: Layout, depth: int) -> At:
    """Write the line that takes an element from the row ``a`` of a source; return the names of its parts."""
    if layout.record is None:
        code.add(depth, "v = a[0]")
    else:
        record = code.name("r", layout.record)
        fields = ", ".join(f"{name}=a[{index}]" for index, name in enumerate(layout.value_fields))
        code.add(depth, f"v = {record}({fields})")
    return At("None", "None", "v")


def _map(code: Code, step: Step, at: At, depth: int) -> None:
    value = code.variable("v")
    code.add(depth, f"{value} = {called(code, step.argument, at.value)}")
    code.then(step.then, At(at.key, at.time, value), depth)


def _flat_map(code: Code, step: Step, at: At, depth: int) -> None:
    value = code.variable("v")
    is_text = step.argument in _TEXTS
    with code.collecting(step.then, depth):
        function = code.function(step.argument)
        if is_text:
            code.add(depth, f"for {value} in {function}({at.value}):")
            code.then(step.then, At(at.key, at.time, value, is_text=True), depth + 1)
            return
        results = code.variable("i")
        code.add(depth, f"{results} = {function}({at.value})")
        code.add(depth, "try:")  # costs nothing until something is raised
        code.add(depth + 1, f"for {value} in {results}:")
        code.then(step.then, At(at.key, at.time, value), depth + 2)
        code.add(depth, "except TypeError:")
        code.add(depth + 1, f"check_results({code.name('f', step.argument)}, {results})")
        code.add(depth + 1, "raise")


def _filter(code: Code, step: Step, at: At, depth: int) -> None:
    code.add(depth, f"if {code.function(step.argument)}({at.value}):")
    code.then(step.then, at, depth + 1)


def _peek(code: Code, step: Step, at: At, depth: int) -> None:
    code.add(depth, f"{code.function(step.argument)}({at.value})")
    if step.then:
        code.then(step.then, at, depth)


def _print(code: Code, step: Step, at: At, depth: int) -> None:
    code.add(depth, f"{code.function(step.argument)}({at.key}, {at.value})")
    if step.then:
        code.then(step.then, at, depth)


def _branch(code: Code, step: Step, at: At, depth: int) -> None:
    for index, (predicate, case) in enumerate(zip(step.argument, step.then, strict=True)):
        word = "elif" if index else "if"
        code.add(depth, f"{word} {code.function(predicate)}({at.value}):")
        assert isinstance(case, Step)
        code.then(case.then, at, depth + 1)


def _through(code: Code, step: Step, at: At, depth: int) -> None:
    code.then(step.then, at, depth)


def _key_by(code: Code, step: Step, at: At, depth: int) -> None:
    if at.is_text and is_identity(step.argument):
        code.then(step.then, At(at.value, at.time, at.value, is_text=True), depth)
        return
    key = code.variable("k")
    code.add(depth, f"{key} = {called(code, step.argument, at.value)}")
    code.add(depth, f"if type({key}) is not str and type({key}) not in plain:")
    code.add(depth + 1, f"checked_key({key})")
    if step.then:
        code.then(step.then, At(key, at.time, at.value), depth)


def _items(code: Code, step: Step, at: At, depth: int) -> None:
    value = code.variable("v")
    code.add(depth, f"{value} = ({at.key}, {at.value})")
    if step.then:
        code.then(step.then, At("None", at.time, value), depth)


def _values(code: Code, step: Step, at: At, depth: int) -> None:
    code.then(step.then, At("None", at.time, at.value), depth)


def _event_time(code: Code, step: Step, at: At, depth: int) -> None:
    time = code.variable("t")
    code.add(depth, f"{time} = {code.function(step.argument)}({at.value})")
    code.add(depth, f"if type({time}) is not int or not -{MAX_EVENT_TIME_MS} <= {time} <= {MAX_EVENT_TIME_MS}:")
    code.add(depth + 1, f"{time} = ms({time})")
    if code.newest is not None and not gives_other_times(step.then):
        newest = code.name("n", code.newest)
        code.add(depth, f"if {time} > {newest}[0]:")
        code.add(depth + 1, f"{newest}[0] = {time}")
    if step.then:
        code.then(step.then, At(at.key, time, at.value), depth)


_WRITERS: Final[Mapping[Kind, Callable[[Code, Step, At, int], None]]] = {
    Kind.MAP: _map,
    Kind.FLAT_MAP: _flat_map,
    Kind.FILTER: _filter,
    Kind.PEEK: _peek,
    Kind.PRINT: _print,
    Kind.BRANCH: _branch,
    Kind.CASE: _through,
    Kind.MERGE: _through,
    Kind.KEY_BY: _key_by,
    Kind.ITEMS: _items,
    Kind.VALUES: _values,
    Kind.EVENT_TIME: _event_time,
}
