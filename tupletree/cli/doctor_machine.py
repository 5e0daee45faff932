"""Checks of ``tupletree doctor`` on this machine: the installation, the configuration, disks and limits."""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
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
    yield package_finding({name: _version(name) for name in sorted(required)}, required)
    yield from extra_findings(
        {extra: {name: _version(name) for name in names} for extra, names in extras.items()}, extras
    )


def extra_findings(
    versions: Mapping[str, Mapping[str, str]], extras: Mapping[str, Mapping[str, str]]
) -> Iterator[Finding]:
    """Yield which extras are installed, and a warning for each with versions out of range; arguments by extra."""
    lacking = {extra for extra, found in versions.items() if not all(found.values())}
    there, away = sorted(extras.keys() - lacking), sorted(lacking)
    absent = f"; not installed: {', '.join(away)} (pip install 'tupletree[NAME]')" if away else ""
    yield Finding("extras", "ok", f"installed: {', '.join(there) or 'none'}{absent}")
    for extra in there:
        if unfit := _unfit(versions[extra], extras[extra]):
            sentence = f"{extra}: {_shown(unfit, versions[extra], extras[extra])}"
            yield Finding("extras", "warning", sentence, _install(unfit, extras[extra]))


def package_finding(versions: Mapping[str, str], required: Mapping[str, str]) -> Finding:
    """Return the finding on required packages; ``versions``: "" for one that is not installed.

    ``required``: the requirement of each, by name. A version out of its range may still work: that is a warning.
    Without the packages of Spark, all else works: an installation may do without them on purpose.
    """
    missing = [name for name, version in versions.items() if not version]
    unfit = _unfit(versions, required)
    if not missing and not unfit:
        unchecked = "" if can_compare() else "; their ranges were not checked, since packaging is not installed"
        shown = ", ".join(f"{name} {version}" for name, version in versions.items())
        return Finding("packages", "ok", shown + unchecked)
    level: Literal["warning", "problem"] = "warning" if SPARK_PACKAGES.issuperset(missing) else "problem"
    sentences = []
    if missing:
        sentences.append(f"not installed: {', '.join(missing)}{_lost(missing) if level == 'warning' else ''}")
    if unfit:
        sentences.append(_shown(unfit, versions, required))
    return Finding("packages", level, "; ".join(sentences), _install([*missing, *unfit], required))


def _lost(missing: Collection[str]) -> str:
    """Return what does not work without packages of Spark."""
    lost = ["Spark cannot run"]
    if "pyspark" in missing:
        lost.append("nor the ZooKeeper of `tupletree dev`")
    if "pyarrow" in missing:
        lost.append("nor sinks with typed columns, nor log searches by pattern")
    return f"; {', '.join(lost)}"


def can_compare() -> bool:
    """Return True if versions can be compared with ranges, by the package ``packaging``, which is no requirement."""
    return find_spec("packaging") is not None


def _unfit(versions: Mapping[str, str], required: Mapping[str, str]) -> list[str]:
    """Return the names of installed packages whose versions are out of the required ranges, as far as can be said."""
    if not can_compare():
        return []
    from packaging.requirements import Requirement
    from packaging.version import InvalidVersion, Version

    unfit = []
    for name, version in versions.items():
        with suppress(InvalidVersion):
            if version and not Requirement(required[name]).specifier.contains(Version(version), prereleases=True):
                unfit.append(name)
    return unfit


def _shown(unfit: Iterable[str], versions: Mapping[str, str], required: Mapping[str, str]) -> str:
    return "out of range: " + ", ".join(f"{name} {versions[name]}, required is {required[name]}" for name in unfit)


def _install(names: Iterable[str], required: Mapping[str, str]) -> str:
    return f"pip install {' '.join(shlex.quote(required[name]) for name in names)}"


def requirements(lines: list[str]) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """Return the required packages, and those of each extra, from the metadata of a package: requirements by name.

    Requirements that hold under other conditions than an extra, such as a platform, are left out.
    """
    required: dict[str, str] = {}
    extras: dict[str, dict[str, str]] = {}
    for line in lines:
        name = re.match(r"[\w.-]+", line)
        requirement, _, condition = map(str.strip, line.partition(";"))
        extra = re.fullmatch(r"extra == ['\"]([\w.-]+)['\"]", condition)
        if name is None or name[0] == "tupletree" or (condition and not extra):
            continue
        (extras.setdefault(extra[1], {}) if extra else required)[name[0]] = requirement
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
