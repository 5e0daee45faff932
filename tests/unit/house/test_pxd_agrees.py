"""Each .pxd declares exactly the attributes of its classes, and only classes and functions that there are."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tupletree import _compiled

SOURCES = [_compiled.source_of(module) for module in _compiled.MODULES]
CLASS = re.compile(r"^cdef class (\w+)")
ATTRIBUTES = re.compile(
    r"^    cdef (?:public |readonly )?(?:unsigned )?(?:long long|[\w.]+)(?:\[[^]]*\])? (\w[\w, ]*?)\s*(?:#.*)?$"
)
METHOD = re.compile(r"^    cp?def (?:inline )?(?:[\w.\[\]:]+ )*?(\w+)\(")
FUNCTION = re.compile(r"^cp?def (?:inline )?(?:[\w.\[\]: ]+ )?(\w+)\(")


def declared(pxd: Path) -> tuple[dict[str, set[str]], dict[str, set[str]], set[str]]:
    """Attributes and methods by class, and functions, as a .pxd declares them."""
    attributes, methods, functions, inside = dict[str, set[str]](), dict[str, set[str]](), set[str](), ""
    for line in pxd.read_text().splitlines():
        if match := CLASS.match(line):
            inside = match[1]
            attributes[inside], methods[inside] = set(), set()
        elif match := METHOD.match(line):
            methods[inside].add(match[1])
        elif match := ATTRIBUTES.match(line):
            attributes[inside] |= {name.strip() for name in match[1].split(",")}
        elif match := FUNCTION.match(line):
            functions.add(match[1])
    return attributes, methods, functions


def slots_of(node: ast.ClassDef) -> set[str] | None:
    """The names in ``__slots__``; None if the class has none."""
    for statement in node.body:
        if isinstance(statement, ast.Assign) and getattr(statement.targets[0], "id", "") == "__slots__":
            found = ast.literal_eval(statement.value)
            return {found} if isinstance(found, str) else set(found)
    return None


def assigned(node: ast.ClassDef) -> set[str]:
    """The attributes that the methods of a class assign to self."""
    return {
        one.attr
        for one in ast.walk(node)
        if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store) and getattr(one.value, "id", "") == "self"
    }


EVERYWHERE = {name for one in SOURCES for names in declared(one.with_suffix(".pxd"))[0].values() for name in names}


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_a_pxd_declares_what_its_module_has(source: Path) -> None:
    attributes, methods, functions = declared(source.with_suffix(".pxd"))
    tree = ast.parse(source.read_text())
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    assert attributes.keys() <= classes.keys()
    assert functions <= {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    for name, own in attributes.items():
        node = classes[name]
        assert methods[name] <= {one.name for one in node.body if isinstance(one, ast.FunctionDef)}, name
        slots = slots_of(node)
        if slots is not None:
            assert own == slots, name
        else:
            assert own <= assigned(node), name
            assert assigned(node) - own <= EVERYWHERE, name  # of a base class
