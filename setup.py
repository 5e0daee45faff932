"""Compiles the hot path (tupletree/_compiled), if Cython and a C compiler are there, and makes the long description.

All else is in pyproject.toml. The long description is README.md with absolute links, since a package index shows it.

Without Cython or a compiler, or if compiling goes wrong, the build says so in one line and installs plain Python, which
does the same. TUPLETREE_BUILD in the environment changes that: "compiled" ends the build if anything goes wrong;
"plain" compiles nothing, and the wheel is for every platform (py3-none-any).
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
import tempfile
import tomllib
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
WANTED = os.environ.get("TUPLETREE_BUILD", "")
if WANTED not in ("", "compiled", "plain"):
    sys.exit(f"tupletree: TUPLETREE_BUILD is 'compiled' or 'plain', not {WANTED!r}")
BRANCH = "main"
# Fenced blocks and code in lines are matched first, and stay as they are.
LINK = re.compile(r"```.*?```|`[^`\n]*`|(!?\[[^\[\]]*\])\(([^)\s]+)\)", re.DOTALL)
ABSOLUTE = re.compile(r"[a-z][a-z0-9+.-]*:|#")
DIRECTIVES = {
    "annotation_typing": False,  # what is C is said in the .pxd files, and nowhere else
    "initializedcheck": False,
    "language_level": 3,
    "nonecheck": True,  # None where an object is expected raises, as it does in Python
    "wraparound": False,
}


def with_absolute_links(text, repository):
    """Return Markdown whose links to files of the repository, and pictures in it, have addresses at the file host."""

    def absolute(match):
        shown, target = match[1], match[2]
        if target is None or ABSOLUTE.match(target):
            return match[0]
        kind = "raw" if shown.startswith("!") else "tree" if target.endswith("/") else "blob"
        return f"{shown}({repository.rstrip('/')}/{kind}/{BRANCH}/{target.removeprefix('./')})"

    return LINK.sub(absolute, text)


def long_description():
    """Return README.md as a package index shows it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return with_absolute_links((ROOT / "README.md").read_text(encoding="utf-8"), project["urls"]["Source"])


def described():
    """tupletree._compiled, without importing tupletree, whose dependencies are not here yet."""
    os.environ["TUPLETREE_PURE"] = "1"
    spec = importlib.util.spec_from_file_location("_compiled", ROOT / "tupletree" / "_compiled" / "__init__.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Compile(build_ext):
    """``build_ext`` that leaves out what it cannot build, which is then all of it."""

    def run(self):
        compiled = described()
        target = Path(self.get_ext_fullpath(self.extensions[0].name)).parent
        made = [Path(self.get_ext_fullpath(extension.name)) for extension in self.extensions]
        noted = target / compiled.DIGEST
        if all(map(Path.exists, [*made, noted])) and noted.read_text() == compiled.digest():
            return
        noted.unlink(missing_ok=True)
        self.parallel = self.parallel or os.cpu_count()
        try:
            with tempfile.TemporaryDirectory() as directory:
                translate(compiled, Path(directory), self.extensions)
                super().run()
        except Exception as error:  # whatever it is, plain Python does the same
            if WANTED == "compiled":
                raise
            reason = " ".join(str(error).split()) or type(error).__name__
            print(f"tupletree: not compiled, plain Python will run instead, more slowly: {reason}", file=sys.stderr)
            return
        noted.write_text(compiled.digest())


def translate(compiled, directory, extensions):
    """Write C for each module and make it the extension's source."""
    from Cython.Compiler.Main import CompilationOptions, compile, default_options

    for module in compiled.MODULES:  # the tree as it is installed: Cython looks for .pxd files there
        source = compiled.source_of(module)
        place = directory / f"{module.replace('.', '/')}.py"
        place.parent.mkdir(parents=True, exist_ok=True)
        (place.parent / "__init__.py").touch()
        for suffix in (".py", ".pxd"):
            shutil.copy(source.with_suffix(suffix), place.with_suffix(suffix))
    for extension, module in zip(extensions, compiled.MODULES, strict=True):
        place = directory / f"{module.replace('.', '/')}.py"
        options = CompilationOptions(
            default_options,
            include_path=[str(directory)],
            compiler_directives=DIRECTIVES,
            output_file=str(place.with_suffix(".c")),
        )
        if compile(str(place), options, full_module_name=module).num_errors:
            raise RuntimeError(f"Cython refused {module}")
        extension.sources = [str(place.with_suffix(".c"))]


if __name__ == "__main__":  # tests import this file
    setup(
        long_description=long_description(),
        long_description_content_type="text/markdown",
        ext_modules=[
            Extension(f"tupletree._compiled.{module.rpartition('.')[2]}", [], extra_compile_args=["-O2", "-g0"])
            for module in (described().MODULES if WANTED != "plain" else ())
        ],
        cmdclass={"build_ext": Compile},
    )
