"""The modules that every tuple passes through, compiled where there was a C compiler at installation.

Each has one source, a .py file, and beside it a .pxd file that says which of it is C. What was compiled of them lies in
this directory, with a digest of all the sources; a finder puts it in place of the sources when they are imported. It is
all of them or none, as they know the layout of each other's objects:

*   ``TUPLETREE_PURE`` is set in the environment (to anything but nothing or 0): none, in this process and in those it
    starts;
*   nothing is here for this interpreter, because there was no compiler: none;
*   a source is not what was compiled: none, until ``make setup`` or pip has compiled again.

setup.py compiles; docs/adr/0016-a-compiled-hot-path.md says why it is done so.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Sequence
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

MODULES = (
    "tupletree.tuples",
    "tupletree.collector",
    "tupletree.worker.core.ids",
    "tupletree.worker.core.id_columns",
    "tupletree.worker.core.ack_updates",
    "tupletree.worker.core.batches",
    "tupletree.worker.core.key_hash",
    "tupletree.worker.core.routing",
    "tupletree.worker.core.output_streams",
    "tupletree.worker.core.collectors",
    "tupletree.worker.core.counts",
    "tupletree.worker.core.tasks",
    "tupletree.worker.core.pending_trees",
    "tupletree.worker.core.spout_task",
    "tupletree.worker.core.trace_filter",
    "tupletree.acker.root_hash",
    "tupletree.acker.hash_table",
    "tupletree.acker.entries",
    "tupletree.acker.scalar_ops",
)
DIRECTORY = Path(__file__).parent
DIGEST = "SOURCES"


def source_of(module: str) -> Path:
    """The .py file of a module, installed or in a checkout, where the daemons stand at the root (docs/adr/0001)."""
    inside = DIRECTORY.parents[1] / f"{module.replace('.', '/')}.py"
    return inside if inside.exists() else DIRECTORY.parents[1] / f"{module.replace('.', '/').partition('/')[2]}.py"


def digest() -> str:
    """What the sources are now."""
    hashed = hashlib.sha256()
    for module in MODULES:
        source = source_of(module)
        hashed.update(source.read_bytes() + b"\0" + source.with_suffix(".pxd").read_bytes() + b"\0")
    return hashed.hexdigest()


class CompiledFinder:
    """Finds the compiled modules."""

    def __init__(self, files: dict[str, Path]) -> None:
        self._files = files

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Where a compiled module is to be loaded from; None for all others."""
        file = self._files.get(name)
        if file is None:
            return None
        return spec_from_file_location(name, file, loader=ExtensionFileLoader(name, str(file)))


def _choose() -> tuple[dict[str, Path], str]:
    """The compiled modules to use, and in words what was chosen."""
    if os.environ.get("TUPLETREE_PURE", "0") not in ("", "0"):
        return {}, "plain Python (TUPLETREE_PURE is set)"
    files = {module: DIRECTORY / (module.rpartition(".")[2] + EXTENSION_SUFFIXES[0]) for module in MODULES}
    try:
        compiled = (DIRECTORY / DIGEST).read_text()
        if not all(file.exists() for file in files.values()):
            return {}, "plain Python (nothing was compiled for this interpreter)"
        if compiled != digest():
            return {}, "plain Python (sources have changed since they were compiled)"
    except OSError:
        return {}, "plain Python (nothing was compiled)"
    return files, "compiled"


def install() -> str:
    """Let the compiled modules be imported where they fit, and return in words which are used."""
    files, choice = _choose()
    if files:
        sys.meta_path.insert(0, CompiledFinder(files))
    return choice


CHOICE = install()
"""What this process runs, in words."""
IS_COMPILED = CHOICE == "compiled"
