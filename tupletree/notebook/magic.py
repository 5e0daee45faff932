"""The cell magic ``%%tupletree``."""

from __future__ import annotations

import argparse
import ast
import shlex
from typing import Any, Final, NoReturn

from IPython.core.error import UsageError as MagicUsageError
from IPython.core.interactiveshell import InteractiveShell

from tupletree.errors import TopologyError, UsageError
from tupletree.notebook.programs import Program
from tupletree.notebook.running import Running

_PROGRAMS: Final = Program.__args__


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise MagicUsageError(f"%%tupletree: {message}; usage: %%tupletree [NAME] [--seconds N] [--background]")


_PARSER: Final = _Parser("%%tupletree", add_help=False, allow_abbrev=False)
_PARSER.add_argument("name", nargs="?", metavar="NAME")
_PARSER.add_argument("--seconds", type=float, default=0.0)
_PARSER.add_argument("--background", action="store_true")


class CellMagic:
    """The magic of one shell."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell

    def run(self, line: str, cell: str) -> None:
        """Run the program that this cell makes, with a live graph and a live table.

            %%tupletree [NAME] [--seconds N] [--background]

        The program is the value of the last line, or else the one StreamBuilder, TopologyBuilder or Topology that the
        cell has put into a variable. It runs until its sources are at their end, for --seconds, or until it is
        interrupted. With --background the cell ends at once, and the program goes on.

        NAME is the variable that gets the running program: NAME.stop(), NAME.counts, NAME.errors. A program that
        already runs under this name is stopped first.
        """
        options = _PARSER.parse_args(shlex.split(line))
        if options.background and options.name is None:
            raise MagicUsageError("%%tupletree --background needs a NAME, by which the program is stopped")
        before = self._shell.user_ns.get(options.name)
        if isinstance(before, Running):
            before.stop()
        program = self._program(cell)
        try:
            running = Running(program, seconds=options.seconds)
            running.show()
        except (UsageError, TopologyError) as error:
            raise MagicUsageError(str(error)) from error
        if options.name is not None:
            self._shell.user_ns[options.name] = running
        try:
            running.start()
            if not options.background:
                running.wait()
        except KeyboardInterrupt:  # before the program was waited for
            running.stop()

    def _program(self, cell: str) -> Any:
        """Run the cell, and return the program that it makes. Exceptions of the cell propagate."""
        names = self._shell.user_ns
        before = {name: id(value) for name, value in names.items()}
        last = self._execute(cell)
        if isinstance(last, _PROGRAMS):
            return last
        made = {name: value for name, value in names.items() if isinstance(value, _PROGRAMS) and name[0] != "_"}
        new = {name: value for name, value in made.items() if before.get(name) != id(value)}
        if len({id(value) for value in new.values()}) == 1:
            return next(iter(new.values()))
        found = f"several programs ({', '.join(new)})" if new else "no StreamBuilder, TopologyBuilder or Topology"
        raise MagicUsageError(f"the cell makes {found}: write the program to run as its last line")

    def _execute(self, cell: str) -> Any:
        """Run the cell in the namespace of the notebook; return the value of its last line if this is an expression."""
        source = self._shell.transform_cell(cell)
        name = self._shell.compile.cache(source)
        body = ast.parse(source, name)
        last = body.body.pop() if body.body and isinstance(body.body[-1], ast.Expr) else None
        exec(compile(body, name, "exec"), self._shell.user_ns)
        if not isinstance(last, ast.Expr):
            return None
        return eval(compile(ast.Expression(last.value), name, "eval"), self._shell.user_ns)
