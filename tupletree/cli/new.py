"""``tupletree new``: a project from a template.

The templates are files of this package, in ``templates/common`` and in a directory for each face of the library. In
names and contents of files, ``project_name`` is the project's module and ``project-name`` the project.
"""

from __future__ import annotations

import keyword
import re
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import click

from tupletree.cli.options import json_option
from tupletree.cli.output import print_json
from tupletree.errors import UsageError

TEMPLATES: Final = Path(__file__).parent / "templates"
FACES: Final = ("streams", "bolts")
SCHEMA: Final = "tupletree.schema.json"
COMMON: Final = {
    ".dockerignore": "dockerignore",
    ".github/workflows/test.yml": "workflow.yml",
    ".gitignore": "gitignore",
    "Dockerfile": "Dockerfile",
    "README.md": "README.md",
    "lines.txt": "lines.txt",
    "pyproject.toml": "project.toml",
    "tupletree.yaml": "tupletree.yaml",
}
"""The files that all projects have, and their templates."""
OF_FACE: Final = ("project_name.py", "tests/test_project_name.py")

MAX_NAME: Final = 100

_NAME: Final = re.compile(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*")


@click.command("new")
@click.argument("name")
@click.option(
    "--face",
    type=click.Choice(FACES),
    default="streams",
    show_default=True,
    help="Write the topology as a program of streams, or by spouts and bolts.",
)
@json_option
def command(name: str, face: str, as_json: bool) -> None:
    """Create a directory NAME with a project: a topology, its tests, and what surrounds them.

    The project has a configuration with a schema for editors, a Dockerfile, a workflow of GitHub Actions, a
    pyproject.toml and a README. Its tests pass and its topology runs as they are. NAME may be a path, whose last part
    is the name of the project. An existing directory is left alone.

    \b
    Examples:
      tupletree new word-counts
      tupletree new projects/word-counts --face bolts
    """
    directory = Path(name)
    module = module_of(directory.name)
    files = create(directory, face, module)
    if as_json:
        print_json({"directory": str(directory), "face": face, "module": module, "files": files})
        return
    click.echo(f"created {directory} with {', '.join(files)}\n\nNow:\n  cd {directory}")
    click.echo(f"  tupletree local {module}.py\n  pip install pytest && python -m pytest")


def module_of(name: str) -> str:
    """Return the name of a project's module. Raises UsageError if the project cannot have this name."""
    if not _NAME.fullmatch(name) or len(name) > MAX_NAME:
        raise UsageError(
            f"a project's name has up to {MAX_NAME} lower-case letters and digits, a letter first, with '-' or '_' "
            f"between words, unlike {name!r}"
        )
    module = name.replace("-", "_")
    if keyword.iskeyword(module) or module == "tests" or find_spec(module) is not None:
        raise UsageError(f"a project cannot be named {name!r}: Python has this word, or a module of this name")
    return module


def create(directory: Path, face: str, module: str) -> list[str]:
    """Write the files of a project and return their paths in it. On failure nothing is left behind.

    Raises:
        UsageError: the directory exists, or it or its files cannot be written.
    """
    try:
        directory.mkdir()
    except FileExistsError:
        raise UsageError(f"{directory} exists already and is left as it is: choose another name") from None
    except OSError as error:
        raise UsageError(f"the directory {directory} cannot be created: {error.strerror}") from None
    try:
        return sorted(_write(directory, face, module))
    except BaseException as error:
        shutil.rmtree(directory, ignore_errors=True)
        if isinstance(error, OSError):
            message = f"the project's files cannot be written to {directory}: {error.strerror}"
            raise UsageError(message) from None
        raise


def _write(directory: Path, face: str, module: str) -> Iterator[str]:
    from tupletree.config import render_schema

    templates = {path: TEMPLATES / "common" / name for path, name in COMMON.items()}
    templates |= {path: TEMPLATES / face / path for path in OF_FACE}
    texts = {path: template.read_text(encoding="utf-8") for path, template in templates.items()}
    for path, text in {SCHEMA: render_schema(), **texts}.items():
        name = _filled(path, directory.name, module)
        target = directory / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(_filled(text, directory.name, module), encoding="utf-8")
        yield name


def _filled(text: str, project: str, module: str) -> str:
    return text.replace("project_name", module).replace("project-name", project)
