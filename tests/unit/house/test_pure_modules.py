"""A pure module imports nothing that does I/O, reads the clock or draws random numbers. It begins with this line:

    from __future__ import annotations  # pure

At run time it imports no module of ``IMPURE``, and no module of ours that imports one. Imports for types do not count.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
MARK = "\nfrom __future__ import annotations  # pure\n"
IMPURE = {"asyncio", "grpc", "kazoo", "logging", "os", "random", "socket", "threading", "time"}
CHOOSER = "tupletree._compiled"  # only chooses between a compiled module and its source


def sources() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each module of the library and the daemons."""
    for folder in ("tupletree", "nimbus", "supervisor", "worker", "acker", "drpc_server"):
        for path in (ROOT / folder).rglob("*.py"):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            yield name if folder == "tupletree" else f"tupletree.{name}", path.read_text()


def imports(node: ast.AST, name: str) -> Iterator[str]:
    """Yield the imports of module ``name`` at run time, also those within functions."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        package = name.split(".")[: -node.level] if node.level else []
        base = ".".join([*package, node.module] if node.module else package)
        yield from (base, *(f"{base}.{alias.name}" for alias in node.names))
    elif not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.expr):  # nothing is imported within an expression
                yield from imports(child, name)


def faults(modules: dict[str, str]) -> list[str]:
    """Return the forbidden imports of the pure modules among ``modules``, which are texts by name."""
    found = {name: set(imports(ast.parse(text), name)) for name, text in modules.items()}
    io = {name.removesuffix(".__init__") for name, names in found.items() if names & IMPURE} - {CHOOSER}
    pure = [name for name, text in modules.items() if MARK in text]
    return [f"{name} imports {other}" for name in sorted(pure) for other in sorted(found[name] & (IMPURE | io))]


@pytest.mark.long
def test_pure_modules_import_nothing_that_does_io() -> None:
    modules = dict(sources())
    assert MARK in modules["tupletree.acker.ledger"]
    assert faults(modules) == []


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("import time", ["time"]),
        ("def later():\n    from asyncio import sleep", ["asyncio"]),
        ("from .shell import act", ["tupletree.worker.shell"]),
        ("from tupletree.worker import shell", ["tupletree.worker.shell"]),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import grpc", []),
        ("from .core import decide", []),
    ],
)
def test_a_forbidden_import_is_named(statement: str, named: list[str]) -> None:
    modules = {
        "tupletree.worker.planted": f'"""Pure."""\n{MARK}\n{statement}\n',
        "tupletree.worker.shell": "import os\n",
        "tupletree.worker.core": "import math\n",
    }
    assert faults(modules) == [f"tupletree.worker.planted imports {name}" for name in named]
