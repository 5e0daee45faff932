"""The modules on the path of every tuple, compiled if a C compiler was available at installation.

Each module has one source, a .py file, with a .pxd file that declares its C types. The compiled modules are in this
directory, with a digest of all sources; a finder replaces the sources with the compiled modules on import. Either all
compiled modules are used or none, as they depend on the layout of each other's objects. None is used if

*   ``TUPLETREE_PURE`` is set in the environment (and neither empty nor 0), for this process and its children;
*   this directory has no modules for this interpreter, because there was no compiler;
*   a source has changed since compilation, until ``make setup`` or pip compiles again.

setup.py compiles; docs/adr/0016-a-compiled-hot-path.md gives the reasons for this design.
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
    "tupletree._replay",
    "tupletree.state.value_buffer",
    "tupletree.connectors.messages",
    "tupletree.worker.core.ids",
    "tupletree.worker.core.id_columns",
    "tupletree.worker.core.ack_updates",
    "tupletree.worker.core.batches",
    "tupletree.worker.core.key_hash",
    "tupletree.worker.core.routing",
    "tupletree.worker.core.output_streams",
    "tupletree.worker.core.counts",
    "tupletree.worker.core.tree_tracker",
    "tupletree.worker.core.collectors",
    "tupletree.worker.core.basic_collector",
    "tupletree.worker.core.chained_collector",
    "tupletree.worker.core.task",
    "tupletree.worker.core.basic_bolt_task",
    "tupletree.worker.core.bolt_task",
    "tupletree.worker.core.pending_trees",
    "tupletree.worker.core.spout_task",
    "tupletree.worker.core.trace_filter",
    "tupletree.acker.root_hash",
    "tupletree.acker.hash_table",
    "tupletree.acker.entries",
    "tupletree.acker.scalar_ops",
)
DIRECTORY = Path(__file__).parent
DIGEST = f"SOURCES-{sys.implementation.cache_tag}"
"""One file per interpreter, since the compiled modules of several interpreters lie side by side."""


def source_of(module: str) -> Path:
    """Return the .py file of a module, installed or in a checkout with the daemons at the root (docs/adr/0001)."""
    inside = DIRECTORY.parents[1] / f"{module.replace('.', '/')}.py"
    return inside if inside.exists() else DIRECTORY.parents[1] / f"{module.replace('.', '/').partition('/')[2]}.py"


def digest() -> str:
    """Return the digest of the current sources."""
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
        """Return the spec of a compiled module; None for all other modules."""
        file = self._files.get(name)
        if file is None:
            return None
        return spec_from_file_location(name, file, loader=ExtensionFileLoader(name, str(file)))


_IS_PURE_WANTED = os.environ.get("TUPLETREE_PURE", "0") not in ("", "0")


def _choose() -> tuple[dict[str, Path], str]:
    """Return the compiled modules to use, and a description of the choice."""
    if _IS_PURE_WANTED:
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
    """Install the finder if the compiled modules are usable. Return a description of the choice."""
    files, choice = _choose()
    if files:
        sys.meta_path.insert(0, CompiledFinder(files))
    return choice


CHOICE = install()
"""A description of the modules that this process uses."""
IS_COMPILED = CHOICE == "compiled"
NOT_COMPILED = "" if IS_COMPILED or _IS_PURE_WANTED else CHOICE
"""The description again if nobody asked for plain Python; else ""."""


def cost_of(not_compiled: str) -> str:
    """Return a sentence on the cost of an installation that is not compiled, for ``NOT_COMPILED`` of a process."""
    return (
        f"the installation runs {not_compiled}: each tuple takes about three times as much processor time as compiled; "
        "install a wheel for this platform, or a C compiler before Tupletree"
    )
