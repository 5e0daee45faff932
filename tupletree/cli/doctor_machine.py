"""Checks of ``tupletree doctor`` on this machine: the installation, the configuration, disks and limits."""

from __future__ import annotations

import os
import platform
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Final, Literal

from tupletree import _compiled
from tupletree._devcluster.java import find_java, java_version
from tupletree.config import KEYS, faults, load, load_explicit, read_file
from tupletree.errors import ConfigError, UsageError

MIN_FREE_BYTES: Final = 100 * 1024**2
FEW_FREE_BYTES: Final = 1024**3
FEW_OPEN_FILES: Final = 1024
SPARK_PACKAGES: Final = frozenset({"pandas", "pyarrow", "pyspark"})

_FILES: Final = re.compile(r"^tls\.(ca|cert|key)$|\.file$")
_HIDDEN_EXTRAS: Final = frozenset({"dev", "docs", "all"})


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: what was looked at, what was found, and what to do about it if it is not right."""

    subject: str
    level: Literal["ok", "warning", "problem"]
    sentence: str
    advice: str = ""


def check_installation() -> list[Finding]:
    """Check Python, the required packages, the extras, the compiled modules and Java."""
    return [*_packages(), _hot_path(), *_java()]


def _packages() -> Iterator[Finding]:
    place = Path(_compiled.__file__).parents[1]
    yield Finding("tupletree", "ok", f"{metadata.version('tupletree')} in {place}, Python {platform.python_version()}")
    required, extras = requirements(metadata.requires("tupletree") or [])
    yield package_finding({name: _version(name) for name in sorted(required)})
    lacking = {extra for extra, names in extras.items() if not all(map(_version, names))}
    there, away = sorted(extras.keys() - lacking), sorted(lacking)
    absent = f"; not installed: {', '.join(away)} (pip install 'tupletree[NAME]')" if away else ""
    yield Finding("extras", "ok", f"installed: {', '.join(there) or 'none'}{absent}")


def package_finding(versions: Mapping[str, str]) -> Finding:
    """Return the finding on required packages; ``versions``: "" for one that is not installed.

    Without the packages of Spark, all else works: an installation may do without them on purpose.
    """
    missing = [name for name, version in versions.items() if not version]
    if not missing:
        return Finding("packages", "ok", ", ".join(f"{name} {version}" for name, version in versions.items()))
    level: Literal["warning", "problem"] = "warning" if SPARK_PACKAGES.issuperset(missing) else "problem"
    needs = "; Spark cannot run, nor the ZooKeeper of `tupletree dev`" if level == "warning" else ""
    return Finding("packages", level, f"not installed: {', '.join(missing)}{needs}", f"pip install {' '.join(missing)}")


def requirements(lines: list[str]) -> tuple[set[str], dict[str, set[str]]]:
    """Return the names of required packages, and those of each extra, from the metadata of a package.

    Requirements that hold under other conditions than an extra, such as a platform, are left out.
    """
    required: set[str] = set()
    extras: dict[str, set[str]] = {}
    for line in lines:
        name = re.match(r"[\w.-]+", line)
        condition = line.partition(";")[2].strip()
        extra = re.fullmatch(r"extra == ['\"]([\w.-]+)['\"]", condition)
        if name is None or name[0] == "tupletree" or (condition and not extra):
            continue
        (extras.setdefault(extra[1], set()) if extra else required).add(name[0])
    return required, {extra: names for extra, names in extras.items() if extra not in _HIDDEN_EXTRAS}


def _version(package: str) -> str:
    """Return the version of an installed package, or ""."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _hot_path() -> Finding:
    if _compiled.IS_COMPILED:
        return Finding("hot path", "ok", "compiled")
    if "TUPLETREE_PURE" in _compiled.CHOICE:
        advice = "unset TUPLETREE_PURE to run the compiled modules"
    elif (_compiled.DIRECTORY.parents[1] / "Makefile").exists():
        advice = "run `make setup`, which compiles them if there is a C compiler: on Debian, gcc and libc6-dev"
    else:
        advice = (
            "install a C compiler (on Debian, gcc and libc6-dev), then run "
            "`pip install --force-reinstall --no-deps --no-binary tupletree tupletree`"
        )
    return Finding(
        "hot path", "warning", f"{_compiled.CHOICE}: everything works, at about a third of the speed", advice
    )


def _java() -> Iterator[Finding]:
    try:
        java = find_java()
    except UsageError as error:
        sentence = "no Java: Spark cannot run, nor the ZooKeeper of `tupletree dev`; all else does without"
        yield Finding("java", "warning", sentence, str(error))
    else:
        yield Finding("java", "ok", f"Java {java_version(java)} at {java}")


def check_configuration(
    conf_path: str | None, overrides: tuple[str, ...]
) -> tuple[list[Finding], dict[str, Any] | None]:
    """Check tupletree.yaml, the environment and the options; return the configuration too, None if it is faulty."""
    try:
        found, content = read_file(conf_path)
    except ConfigError as error:
        return [_fault(str(error))], None
    where = f" (in {found})"
    if mistakes := [_fault(fault + where) for fault in faults(content)]:
        return mistakes, None
    try:
        explicit, conf = load_explicit(conf_path, overrides), load(conf_path, overrides)
    except ConfigError as error:
        return [_fault(str(error))], None
    names = sorted(explicit.keys() - content.keys())
    also = f"; the environment or -c sets {', '.join(names)}" if names else ""
    keys = f"{len(content)} key{'' if len(content) == 1 else 's'}"
    sentence = (f"{keys} set in {found}" if found else "no tupletree.yaml, which need not be") + also
    return [Finding("configuration", "ok", sentence), *_named_files(conf)], conf


def _fault(sentence: str) -> Finding:
    return Finding("configuration", "problem", sentence, "correct it; `tupletree config list` explains all keys")


def _named_files(conf: Mapping[str, Any]) -> Iterator[Finding]:
    for name in KEYS:
        if _FILES.search(name) and conf[name] is not None and not os.access(conf[name], os.R_OK):
            sentence = f"{name} is {conf[name]}, which cannot be read"
            yield Finding("configuration", "problem", sentence, "correct the path, or the rights of the file")


def check_machine(conf: Mapping[str, Any]) -> list[Finding]:
    """Check free disk space and the limit of open files."""
    return [*_disks([Path(conf["local.dir"]), Path(tempfile.gettempdir())]), *_open_files()]


def _disks(directories: list[Path]) -> Iterator[Finding]:
    """Check the file systems of directories, or of the first of their parents that exists."""
    seen: set[int] = set()
    for directory in directories:
        there = next(path for path in (directory.absolute(), *directory.absolute().parents) if os.path.exists(path))
        if there.stat().st_dev in seen:
            continue
        seen.add(there.stat().st_dev)
        free = shutil.disk_usage(there).free
        sentence = f"{free / 1024**3:,.1f} GiB free for {directory}"
        if free >= FEW_FREE_BYTES:
            yield Finding("disk", "ok", sentence)
        else:
            level: Literal["warning", "problem"] = "warning" if free >= MIN_FREE_BYTES else "problem"
            yield Finding("disk", level, sentence, "free some space, or set local.dir to another disk")


def _open_files() -> Iterator[Finding]:
    try:
        import resource
    except ImportError:  # not on Windows
        return
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= FEW_OPEN_FILES:
        shown = "any number of" if soft == resource.RLIM_INFINITY else f"{soft:,}"
        yield Finding("open files", "ok", f"{shown} open files per process")
    else:
        sentence = f"{soft:,} open files per process: few for a daemon with many connections"
        yield Finding(
            "open files", "warning", sentence, "run `ulimit -n 65536` before the daemons, as deploy/systemd has it"
        )
