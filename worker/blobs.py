"""The blobs that the components of a worker open by local name (TopologyContext.blob), and the news of new versions.

    supervisor replaces a link --> LinkedBlobs --> BlobPaths --> component.blob_updated, on each task's own thread

A path leads to one version, which is complete and stays as it is. So whoever has a path reads a whole version, whatever
comes meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from tupletree._blobs import uses_of
from tupletree._log import event
from tupletree.component import Component
from tupletree.errors import UsageError

from .core.basic_bolt_task import BasicBoltTask
from .core.bolt_task import BoltTask
from .core.spout_task import SpoutTask
from .core.task import Task

log = logging.getLogger(__name__)

LOOK_S: Final = 0.2


class BlobPaths:
    """The path of the newest version of each blob, by local name. Thread-safe."""

    def __init__(self, paths: Mapping[str, str] | None = None) -> None:
        self._lock = threading.Lock()
        self._paths = dict(paths or {})

    def find(self, name: str) -> str:
        """Return the path of a blob. Raises UsageError for a name that topology.blobstore.map does not have."""
        with self._lock:
            if name in self._paths:
                return self._paths[name]
            known = ", ".join(f"'{one}'" for one in sorted(self._paths)) or "none"
        raise UsageError(f"there is no blob with the local name {name!r}; topology.blobstore.map has {known}")

    def update(self, paths: Mapping[str, str]) -> dict[str, str]:
        """Adopt newer paths; return those that have changed."""
        with self._lock:
            changed = {name: path for name, path in paths.items() if self._paths.get(name) != path}
            self._paths.update(changed)
        return changed


class LinkedBlobs:
    """The blobs whose links the supervisor keeps in the directory of a worker. ``conf``: the topology's."""

    def __init__(self, directory: str, conf: Mapping[str, Any]) -> None:
        self._directory = Path(directory)
        self._names = [use.local_name for use in uses_of(conf)]
        self.paths = BlobPaths(self._read())

    async def follow(self, tell_of: Callable[[Mapping[str, str]], None]) -> None:
        """Report new versions, by local name, as soon as they are linked. Reading the links takes microseconds."""
        while self._names:
            await asyncio.sleep(LOOK_S)
            if changed := self.paths.update(self._read()):
                event(log, "blobs.changed", names=",".join(sorted(changed)))
                tell_of(changed)

    def _read(self) -> dict[str, str]:
        """Return the path that each local name leads to now."""
        found = {}
        for name in self._names:
            with contextlib.suppress(OSError):  # a component has put something else there
                found[name] = str(self._directory / os.readlink(self._directory / name))
        return found


def tell(task: Task, name: str, path: str) -> None:
    """Have ``blob_updated`` called on a task's own thread, between tuples, and before those that wait.

    A component that is not open yet finds the new version when it is. An exception of the component is reported, and
    the task goes on with what it has.
    """

    def call() -> None:
        component = component_of(task)
        if not task.is_open or component is None:
            return
        try:
            task.refuse(component, "blob_updated", component.blob_updated(name, path))  # type: ignore[func-returns-value]
        except (Exception, SystemExit) as error:
            task.report_error(error)

    if listens(task) and task.ask_soon is not None:
        task.ask_soon(True, None, call)


def listens(task: Task) -> bool:
    """True if the component of a task has a ``blob_updated`` of its own."""
    component = component_of(task)
    return component is not None and (
        type(component).blob_updated is not Component.blob_updated or "blob_updated" in vars(component)
    )


def component_of(task: Task) -> Component | None:
    """Return the component that a task has at present; another one after a rollback."""
    if isinstance(task, SpoutTask):
        return task.spout
    return task.bolt if isinstance(task, BasicBoltTask | BoltTask) else None
