"""Announcement of a daemon's ports to its starter: a small JSON file, written once the daemon serves."""

from __future__ import annotations

import json
import os
from typing import Any


def announce(path: str | None, **facts: Any) -> None:
    """Write ``facts`` and this process' ``pid`` to ``path`` as JSON. Does nothing without a path.

    Daemons pass ``role``, ``id``, ``host``, ``grpc_port`` and ``http_port``. The file appears complete or not at all.
    """
    if path is None:
        return
    partial = f"{path}.{os.getpid()}.partial"
    with open(partial, "w", encoding="utf-8") as file:
        json.dump({"pid": os.getpid(), **facts}, file)
    os.replace(partial, path)
