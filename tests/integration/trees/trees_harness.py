"""Real acker processes with namespaces of trees, which can be killed and started again at their port."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import yaml

from tupletree._devcluster.zookeeper import EmbeddedZooKeeper
from tupletree.testing.wait import wait_until

NAMESPACES: dict[str, dict[str, Any]] = {
    "orders": {"timeout_s": 60},
    "small": {"max_open_trees": 2, "timeout_s": 30},
    "slow": {"max_updates_per_s": 20},
    "brief": {"timeout_s": 0.5},
    "eu-2024-11": {},
}


class TreesAcker:
    """One `python -m tupletree.acker`, ready when constructed."""

    def __init__(
        self,
        directory: Path,
        zookeeper: EmbeddedZooKeeper,
        root: str,
        namespaces: Mapping[str, Any],
        conf: Mapping[str, Any] | None = None,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._conf: dict[str, Any] = {
            "zookeeper.servers": [zookeeper.connect_string],
            "zookeeper.root": root,
            "local.dir": str(directory),
            "acker.port": 0,
            "acker.http.port": 0,
            "acker.trees.namespaces": dict(namespaces),
            **(conf or {}),
        }
        self.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the process; after the first time at the same port."""
        told, file = self._directory / "announce.json", self._directory / "tupletree.yaml"
        told.unlink(missing_ok=True)
        file.write_text(yaml.safe_dump(self._conf))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tupletree.acker", "--conf", str(file), "--announce", str(told)],
            cwd=self._directory,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        wait_until(lambda: told.exists() or self.process.poll() is not None, 20, what="the acker serves")
        assert self.process.poll() is None, self.stderr()
        facts = json.loads(told.read_text())
        self.id: str = facts["id"]
        self.port: int = facts["grpc_port"]
        self.http_port: int = facts["http_port"]
        self._conf["acker.port"] = self.port

    def stderr(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.read().decode()

    def namespace(self, name: str) -> dict[str, Any]:
        """Return what /ledger tells of a namespace."""
        [found] = [one for one in json.loads(self.page("/ledger"))["namespaces"] if one["name"] == name]
        return dict(found)

    def page(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http_port}{path}", timeout=5) as response:
            return str(response.read().decode())

    def kill(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        if self.process.stderr is not None:
            self.process.stderr.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
