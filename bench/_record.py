"""Recorded measurements: what was measured, on which machine, of which commit, with which configuration.

    record("word_count", config={"workers": 2}, result={"words_per_s": 412_000})

writes bench/results/word_count-20260102T030405Z-1a2b3c4.json and returns what it wrote. A figure without the machine
and the commit it comes from cannot be compared with anything; so a benchmark prints and keeps all of them together.
``hot_path`` says whether tuples pass through compiled modules or plain Python, where a case does not say otherwise;
``niceness`` with which priority everything ran: on a machine that others use, a negative one keeps them out of the way.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from tupletree import _compiled

RESULTS = Path(__file__).resolve().parent / "results"
LIBRARIES = ("grpcio", "protobuf", "msgpack", "kazoo", "cloudpickle", "pyspark")


def record(
    benchmark: str,
    config: Mapping[str, Any],
    result: Mapping[str, Any],
    directory: Path | None = RESULTS,
    rounds: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
) -> dict[str, Any]:
    """Put a result together with where it comes from; also write it to ``directory`` unless that is None.

    ``rounds``: where the result is of several runs, what each of them was.
    """
    now = datetime.datetime.now(datetime.UTC)
    commit = describe_commit()
    entry = {
        "benchmark": benchmark,
        "at": now.isoformat(timespec="seconds"),
        "commit": commit,
        "hot_path": _compiled.CHOICE,
        "niceness": os.getpriority(os.PRIO_PROCESS, 0),
        "machine": describe_machine(),
        "config": dict(config),
        "result": dict(result),
        **({"rounds": dict(rounds)} if rounds is not None else {}),
    }
    if directory is not None:
        directory.mkdir(parents=True, exist_ok=True)
        name = f"{benchmark}-{now:%Y%m%dT%H%M%SZ}-{str(commit['id'])[:7]}.json"
        (directory / name).write_text(json.dumps(entry, indent=2) + "\n")
    return entry


def describe_commit() -> dict[str, Any]:
    """The commit checked out, and whether the files differ from it. The id is "unknown" outside a git checkout."""
    commit = _output("git", "rev-parse", "HEAD")
    changed = _output("git", "status", "--porcelain", "--untracked-files=no", "--", ".", ":!bench/results")
    return {"id": commit or "unknown", "is_changed": bool(changed)}


def describe_machine() -> dict[str, Any]:
    """What bears on speed. Names neither the machine nor its user."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_mb": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 1024**2,
        "system": f"{platform.system()} {'.'.join(platform.release().split('.')[:2])} {platform.machine()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "libraries": {name: _version(name) for name in LIBRARIES},
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown"


def _version(library: str) -> str | None:
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return None


def _output(*command: str) -> str:
    try:
        run = subprocess.run(
            command, cwd=RESULTS.parent.parent, capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return run.stdout.strip() if run.returncode == 0 else ""
