"""The files that describe a cluster on Spark in its directory, and its process.

<directory>/spec.json           what was asked for; only its owner may read it, since it can hold passwords
<directory>/application.json    what runs: written by the application, see ``Record``
<directory>/application.log     the output of the application and of Spark
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from tupletree._daemon.announce import announce
from tupletree._process_table import command_lines
from tupletree._sparkcluster.plan import ClusterSpec
from tupletree.errors import UsageError

MODULE: Final = "tupletree._sparkcluster"

Phase = Literal["starting", "up", "failed"]


@dataclass(frozen=True, slots=True)
class Record:
    """The state of an application. ``failures`` are the newest ends of machines, each a sentence with its time.

    ``error`` and ``is_usage`` are those of a start that failed.
    """

    pid: int
    phase: Phase
    master: str
    machines: int
    ackers: int
    application: str = ""
    web_ui: str = ""
    zookeeper: tuple[str, ...] = ()
    nimbus_seeds: tuple[str, ...] = ()
    is_embedded: bool = False
    failures: tuple[str, ...] = ()
    error: str = ""
    is_usage: bool = False


class ClusterDirectory:
    """The directory of one cluster on Spark."""

    def __init__(self, path: str) -> None:
        self.path = os.path.realpath(path)
        self.spec_path = os.path.join(self.path, "spec.json")
        self.log_path = os.path.join(self.path, "application.log")
        self._record_path = os.path.join(self.path, "application.json")

    def save_spec(self, spec: ClusterSpec) -> None:
        """Write what is asked for. UsageError if the directory cannot be written."""
        try:
            os.makedirs(self.path, exist_ok=True)
            with open(os.open(self.spec_path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w") as file:
                json.dump(asdict(spec), file)
        except OSError as error:
            raise UsageError(f"cannot write the cluster's directory {self.path}: {error.strerror}") from error

    def load_spec(self) -> ClusterSpec:
        with open(self.spec_path, encoding="utf-8") as file:
            return ClusterSpec(**json.load(file))

    def save(self, record: Record) -> None:
        announce(self._record_path, **asdict(record))

    def load(self) -> Record | None:
        """Return the last record, whose process need not run; None if there is none."""
        try:
            with open(self._record_path, encoding="utf-8") as file:
                facts: dict[str, Any] = json.load(file)
        except (OSError, ValueError):
            return None
        lists = {key: tuple(value) for key, value in facts.items() if isinstance(value, list)}
        return Record(**{**facts, **lists})

    def forget(self) -> None:
        """Remove the record of an application that has ended."""
        with contextlib.suppress(FileNotFoundError):
            os.remove(self._record_path)

    def process(self) -> int | None:
        """Return the process id of the application of this directory; None if none runs."""
        for pid, arguments in command_lines():
            if MODULE in arguments and self.path in arguments:
                return pid
        return None
