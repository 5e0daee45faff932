"""The peers' own virtual environments, made by ``python -m bench.peers setup`` outside the repository."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

REQUIREMENTS: Final = Path(__file__).parent / "requirements"
DEFAULT: Final = Path("~/.cache/tupletree-peers")
STORM: Final = Path(__file__).parent / "storm"
NEED: Final = {"flink": ("java",), "spark": ("java",), "storm": ("java", "javac", "mvn")}
INSTALL_S: Final = 1800


class UnavailableError(Exception):
    """A peer cannot be run here. The message is the reason."""


def set_up(directory: Path, peer: str) -> None:
    """Make or renew the environment of a peer. An environment with the right versions is left as it is.

    Raises:
        UnavailableError: the peer cannot be installed here; the reason is kept for ``find``.
    """
    try:
        find(directory, peer)
        return
    except UnavailableError:
        pass
    place = directory / peer
    shutil.rmtree(place, ignore_errors=True)
    directory.mkdir(parents=True, exist_ok=True)
    requirements = REQUIREMENTS / f"{peer}.txt"
    try:
        _need_programs(peer)
        _run(sys.executable, "-m", "venv", str(place))
        _run(str(place / "bin" / "python"), "-m", "pip", "install", "--quiet", "-r", str(requirements))
        if peer == "storm":
            _build_storm(place)
    except UnavailableError as error:
        place.mkdir(parents=True, exist_ok=True)
        (place / "reason").write_text(str(error))
        raise
    (place / "installed").write_text(_wanted(peer))


def find(directory: Path, peer: str) -> Path:
    """Return the folder of a peer's environment.

    Raises:
        UnavailableError: the environment is not set up, has other versions, or could not be installed.
    """
    place = directory / peer
    if (place / "reason").exists():
        raise UnavailableError((place / "reason").read_text())
    installed = place / "installed"
    if not installed.exists() or installed.read_text() != _wanted(peer):
        raise UnavailableError(
            f"the environment of {peer} is not set up or has other versions: "
            f"run python -m bench.peers setup --only {peer}"
        )
    _need_programs(peer)
    return place


def _wanted(peer: str) -> str:
    files = [REQUIREMENTS / f"{peer}.txt", *(sorted(STORM.iterdir()) if peer == "storm" else [])]
    return "".join(file.read_text() for file in files)


def _need_programs(peer: str) -> None:
    missing = [program for program in NEED.get(peer, ()) if shutil.which(program) is None]
    if missing:
        raise UnavailableError(f"it needs programs that are not on the path: {', '.join(missing)}")


def _build_storm(place: Path) -> None:
    """Download Storm's jars from the user's configured Maven repository, and compile the topology."""
    jars, pom = place / "jars", str(STORM / "pom.xml")
    _run("mvn", "-B", "-q", "-f", pom, "dependency:copy-dependencies", f"-DoutputDirectory={jars.resolve()}")
    _run("javac", "-nowarn", "-cp", f"{jars}/*", "-d", str(place / "classes"), str(STORM / "StormWords.java"))


def _run(*command: str) -> None:
    try:
        ended = subprocess.run(
            command, capture_output=True, text=True, timeout=INSTALL_S, stdin=subprocess.DEVNULL, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnavailableError(f"{Path(command[0]).name}: {error}") from None
    if ended.returncode:
        lines = (ended.stderr + ended.stdout).strip().splitlines()
        raise UnavailableError(f"it could not be installed: {' | '.join(lines[-3:])[:600]}")
