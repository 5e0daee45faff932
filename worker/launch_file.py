"""The launch file, by which a supervisor configures a worker."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tupletree.errors import UsageError


@dataclass(frozen=True, slots=True)
class LaunchFile:
    """The contents of launch.json. ``conf`` is the daemon's configuration, overridden by the topology's.

    ``tasks``: the name, the first and the last task id of each component. If empty, the ids of the submission hold.
    """

    topology_id: str
    worker_id: str
    supervisor_id: str
    supervisor_address: str
    host: str  # the host name at which other workers connect
    port: int  # of the slot and of the gRPC server
    bind_host: str
    http_port: int  # 0: any free port
    bundle_dir: str
    log_dir: str | None
    conf: Mapping[str, Any]
    announce: str | None = None
    tasks: Sequence[tuple[str, int, int]] = ()
    worker_dir: str = ""  # the worker's own directory, with the links to its blobs
    conf_digest: str = ""  # of the topology's configuration at the launch; "": unknown

    @classmethod
    def load(cls, path: str) -> LaunchFile:
        """Read a launch file.

        Raises:
            UsageError: the file cannot be read or is not a launch file.
        """
        try:
            facts = json.loads(Path(path).read_text(encoding="utf-8"))
            known = {name: facts[name] for name in cls.__dataclass_fields__ if name in facts}
            return cls(**known)
        except (OSError, ValueError, TypeError) as error:
            raise UsageError(f"{path} is not a launch file: {error}") from error

    @property
    def first_task(self) -> int:
        """The first task id of the topology at the launch. An update, or a change of tasks, gives all tasks new ids."""
        return min((first for _, first, _ in self.tasks), default=1)

    @property
    def slot(self) -> str:
        """The name of this worker's slot in the topology's assignment."""
        return slot_name(self.supervisor_id, self.port)


def slot_name(supervisor_id: str, port: int) -> str:
    """Return the name of a slot, unique in the cluster."""
    return f"{supervisor_id}:{port}"


def add_code_path(bundle_dir: str) -> None:
    """Make the topology's own modules importable, ahead of other modules of the same name."""
    sys.path.insert(0, str(Path(bundle_dir) / "code"))
