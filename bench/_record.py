"""Recorded measurements, each with its machine, commit and configuration.

    record("word_count", config={"workers": 2}, result={"words_per_s": 412_000})

writes bench/results/word_count-20260102T030405Z-1a2b3c4.json and returns the record. A result can be compared only with
its machine and commit, so a benchmark prints and keeps all of them together. ``hot_path`` says whether tuples pass
through compiled modules or plain Python, unless a case says otherwise. ``niceness`` is the priority of the run: on a
shared machine, a negative one keeps other users' processes out of the way.
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
    """Combine a result with its origin, and write it to ``directory`` unless that is None.

    ``rounds``: the results of the single runs, if the result combines several.
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
    """Return the current commit, and True if the files differ from it. The id is "unknown" outside a git checkout."""
    commit = _output("git", "rev-parse", "HEAD")
    changed = _output("git", "status", "--porcelain", "--untracked-files=no", "--", ".", ":!bench/results")
    return {"id": commit or "unknown", "is_changed": bool(changed)}


def describe_machine() -> dict[str, Any]:
    """Return the properties of the machine that affect speed, without the name of the machine or its user."""
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
