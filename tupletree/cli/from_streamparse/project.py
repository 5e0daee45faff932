"""A project of streamparse on disk: what it consists of, and the files that an import writes.

Topologies are read by importing them, as streamparse does, and not by looking at their text: a topology is a program,
whose specs may come from loops and functions. This needs streamparse, which is no requirement of this library; but the
components import it too, here and on the workers, so that it has to be installed anyhow.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from tupletree.cli.from_streamparse import options, report
from tupletree.cli.from_streamparse.rendering import PROCESS, Rendering, process_program
from tupletree.cli.from_streamparse.report import Imported
from tupletree.cli.from_streamparse.specs import Remark, TopologyRead, topology_of
from tupletree.errors import UsageError

CONFIG: Final = "config.json"
READ_S: Final = 120
HOOKS: Final = ("pre_submit", "post_submit")
_WITH_HOOKS: Final = ("tasks.py", "fabfile.py")
_OF_THE_JVM: Final = {".java", ".clj", ".class", ".jar"}


class ReadError(Exception):
    """A topology of the project cannot be imported."""


@dataclass(frozen=True)
class Project:
    """A project: its directory, and what its config.json says for the chosen environment."""

    directory: Path
    config: Mapping[str, Any]
    environment: str
    settings: Mapping[str, Any]

    @classmethod
    def find(cls, directory: Path, environment: str | None) -> Project:
        """Return the project in a directory. Raises UsageError if there is none, or several environments."""
        file = directory / CONFIG
        try:
            config = json.loads(file.read_text(encoding="utf-8"))
        except OSError:
            raise UsageError(f"{directory} is no project of streamparse: it has no readable {CONFIG}") from None
        except ValueError as error:
            raise UsageError(f"{file} is not JSON: {error}") from None
        if not isinstance(config, dict) or not isinstance(config.get("envs", {}), dict):
            raise UsageError(f"{file} must be an object, whose 'envs' is an object of environments")
        environments = config.get("envs", {})
        if environment is None and len(environments) > 1:
            names = ", ".join(sorted(environments))
            raise UsageError(f"{file} has several environments: choose one with --environment: {names}")
        name = next(iter(environments), "") if environment is None else environment
        if environment is not None and environment not in environments:
            names = ", ".join(sorted(environments)) or "none"
            raise UsageError(f"{file} has no environment {environment!r}; it has {names}")
        settings = environments.get(name, {})
        if not isinstance(settings, dict) or not isinstance(settings.get("options", {}), dict):
            raise UsageError(f"{file}: the environment {name!r} must be an object, and so must its 'options'")
        return cls(directory, config, name, settings)

    def topologies(self) -> list[Path]:
        """Return the files of topologies. Raises UsageError if there are none."""
        place = self.directory / str(self.config.get("topology_specs", "topologies/"))
        found = sorted(file for file in place.glob("*.py") if file.name != "__init__.py")
        if not found:
            raise UsageError(f"{place} has no topology: no file *.py")
        return found

    def requirements(self, name: str) -> Path | None:
        """Return the file of a topology's packages."""
        file = self.directory / str(self.config.get("virtualenv_specs", "virtualenvs/")) / f"{name}.txt"
        return file if file.is_file() else None

    def modules(self) -> list[Path]:
        """Return what lies in src, less what is for the JVM alone."""
        found = sorted((self.directory / "src").glob("[!.]*"))
        return [path for path in found if path.name not in ("__pycache__", "__init__.py") and _is_for_python(path)]

    def remarks(self) -> Iterator[Remark]:
        """Yield remarks on the project as a whole."""
        if not (self.directory / "src").is_dir():
            yield Remark("src", "the project has no such directory", "components are looked for beside the topology")
        if serializer := self.config.get("serializer"):
            yield Remark(f"{CONFIG}: serializer", f"{serializer} is not used: tuples are passed as they are")
        yield from options.of_environment(self.settings, f"{CONFIG}: {self.environment}")
        for name in _WITH_HOOKS:
            if _has_hook(self.directory / name):
                yield Remark(name, "its hooks do not run", "run what they do before and after 'tupletree submit'")
        if any(path.suffix == ".java" for path in (self.directory / "src").rglob("*")):
            yield Remark("src", "classes in Java are not used", "each of their components is named above")


def _has_hook(file: Path) -> bool:
    """Return whether a file has a hook of a submission that does anything."""
    try:
        tree = ast.parse(file.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return False
    hooks = [one for one in tree.body if isinstance(one, ast.FunctionDef) and one.name in HOOKS]
    return any(not _is_nothing(line) for hook in hooks for line in hook.body)


def _is_nothing(line: ast.stmt) -> bool:
    """Return whether a statement is ``pass`` or a docstring."""
    return isinstance(line, ast.Pass) or (isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant))


def _is_for_python(path: Path) -> bool:
    files = [path] if path.is_file() else [one for one in path.rglob("*") if one.is_file()]
    return any(one.suffix not in _OF_THE_JVM for one in files)


def read(project: Project, file: Path) -> TopologyRead:
    """Return the topology of a file, read in a process of its own.

    Raises:
        UsageError: streamparse is not installed.
        ReadError: the file cannot be imported.
    """
    if find_spec("streamparse") is None:
        raise UsageError(
            "topologies of streamparse are read by importing them, and streamparse is not installed: "
            "pip install streamparse"
        )
    with tempfile.TemporaryDirectory(prefix="tupletree-import-") as scratch:
        out = Path(scratch, "topology.json")
        command = [sys.executable, "-P", "-m", f"{__package__}.reader", str(file.resolve()), str(out)]
        try:
            ended = subprocess.run(
                command,
                cwd=project.directory,
                env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},  # the project stays as it is
                capture_output=True,
                text=True,
                timeout=READ_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise ReadError(f"importing it took longer than {READ_S} s") from None
        if not out.exists():
            raise ReadError((ended.stderr.strip().splitlines() or ["its process ended"])[-1])
        found = json.loads(out.read_text(encoding="utf-8"))
    if "error" in found:
        raise ReadError(found["error"])
    return topology_of(found)


@dataclass(frozen=True)
class Plan:
    """The files of an import, by paths in the target, and its report."""

    files: Mapping[str, bytes]
    topologies: list[Imported]
    remarks: list[Remark]


def plan(project: Project, is_elsewhere: bool) -> Plan:
    """Return what to write. ``is_elsewhere``: the target is another directory, so that it gets the modules too."""
    files: dict[str, bytes] = {}
    topologies: list[Imported] = []
    for file in project.topologies():
        try:
            found = read(project, file)
        except ReadError as error:
            topologies.append(_failed(project, file, str(error)))
            continue
        topologies.append(_imported(project, file, found, files))
        if is_elsewhere:
            files |= dict(_copies(project, file, found))
    remarks = list(project.remarks())
    if is_elsewhere:
        files |= {path: file.read_bytes() for path, file in _below(project.directory, project.directory / "src")}
    files[report.REPORT] = report.text(topologies, remarks).encode()
    return Plan(files, topologies, remarks)


def _failed(project: Project, file: Path, error: str) -> Imported:
    packages = project.requirements(file.stem)
    advice = f"; install {packages.relative_to(project.directory)} and import again" if packages else ""
    return Imported(file.stem, str(file.relative_to(project.directory)), error=f"{error}{advice}")


def _imported(project: Project, file: Path, found: TopologyRead, files: dict[str, bytes]) -> Imported:
    """Return the record of a topology, and add its files."""
    conf, remarks = options.taken(options.resolved(project.settings, found.config), "configuration")
    rendering = Rendering(file.stem, found, conf, project.environment)
    target = f"{file.stem}_topology.py" if found.is_shadowing else f"{file.stem}.py"
    files[target] = rendering.text.encode()
    include = [str(path.relative_to(project.directory)) for path in project.modules()]
    if any(one.module.partition(".")[0] == "src" for one in found.components):
        include.append("src")
    if rendering.needs_process:
        files[f"resources/{PROCESS}"] = process_program().encode()
        include.append("resources")
    if found.others:
        names = ", ".join(found.others)
        remarks.append(Remark(names, "streamparse runs the first topology of a file", "give others files of their own"))
    packages = project.requirements(file.stem)
    return Imported(
        file.stem,
        str(file.relative_to(project.directory)),
        target,
        include,
        str(packages.relative_to(project.directory)) if packages else "",
        len(found.components),
        conf,
        [*rendering.remarks, *remarks],
    )


def _copies(project: Project, file: Path, found: TopologyRead) -> Iterator[tuple[str, bytes]]:
    if (packages := project.requirements(file.stem)) is not None:
        yield str(packages.relative_to(project.directory)), packages.read_bytes()
    if found.uses_topologies:
        for path, one in _below(project.directory, file.parent):
            yield path, one.read_bytes()


def _below(root: Path, place: Path) -> Iterator[tuple[str, Path]]:
    for file in sorted(place.rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts and file.suffix not in _OF_THE_JVM:
            yield str(file.relative_to(root)), file


def write(files: Mapping[str, bytes], target: Path, is_forced: bool) -> list[str]:
    """Write files, less those that are there already. Return the paths of those written.

    Raises:
        UsageError: a file is there with other contents, and ``is_forced`` is false; or one cannot be written.
    """
    try:
        new = [path for path, content in files.items() if _content(target / path) != content]
        changed = [path for path in new if (target / path).exists()]
        if changed and not is_forced:
            raise UsageError(
                f"{', '.join(sorted(changed))} in {target} would be overwritten, and nothing was written: "
                f"--force overwrites, --to DIR writes elsewhere"
            )
        for path in new:
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            (target / path).write_bytes(files[path])
    except OSError as error:
        raise UsageError(f"{error.filename} cannot be written: {error.strerror}") from None
    return sorted(new)


def _content(file: Path) -> bytes | None:
    return file.read_bytes() if file.is_file() else None
