"""Programs in notebooks, in threads of the kernel, with a live graph and a live table.

See docs/guides/streams.md#notebooks.

    from tupletree.notebook import start

    running = start(builder)        # a StreamBuilder, a TopologyBuilder or a Topology; returns at once
    running.stop()

``%load_ext tupletree.notebook`` adds the cell magic ``%%tupletree``, which runs the program that its cell makes.

Needs IPython: ``pip install 'tupletree[notebook]'``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tupletree.notebook.programs import Program
from tupletree.notebook.running import Running, start

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

__all__ = ["Program", "Running", "load_ipython_extension", "start"]


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Add the cell magic ``%%tupletree`` to a shell: what ``%load_ext tupletree.notebook`` calls."""
    from tupletree.notebook.magic import CellMagic

    shell.magics_manager.register_function(CellMagic(shell).run, magic_kind="cell", magic_name="tupletree")
