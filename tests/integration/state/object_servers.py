"""A real S3 server for tests, over loopback. It ends with the process that started it."""

from __future__ import annotations

import http.client
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.integration.transactional.database_servers import Server
from tupletree._net import ReservedPorts

BUCKET = "states-of-tests"
KEY = {"access_key_id": "someone", "secret_access_key": "a secret"}


class S3Server(Server):
    """moto, which has one bucket. It has its objects again when it is started after a crash."""

    def __init__(self) -> None:
        super().__init__("s3")
        self._ports = ReservedPorts()
        [self.port] = self._ports.reserve(1)
        self._has_run = False

    @staticmethod
    def missing() -> str:
        return ""

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def options(self) -> dict[str, Any]:
        """For ``storage_options``."""
        return {"endpoint": self.endpoint, "region": "us-east-1", **KEY}

    @property
    def environment(self) -> dict[str, str]:
        """The same as variables, which every client of S3 knows."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": KEY["access_key_id"],
            "AWS_SECRET_ACCESS_KEY": KEY["secret_access_key"],
        }

    def command(self) -> Sequence[str]:
        recording = [f"MOTO_RECORDER_FILEPATH={self.directory}/recording", "MOTO_ENABLE_RECORDING=1"]
        program = str(Path(__file__).with_name("serve_s3.py"))
        return ["env", f"PATH={os.environ['PATH']}", *recording, sys.executable, program, str(self.port)]

    def answers(self) -> bool:
        with suppress(OSError, http.client.HTTPException):
            return self._ask("GET", "/") == 200
        return False

    def start(self) -> None:
        super().start()
        if self._has_run:
            assert self._ask("POST", "/moto-api/recorder/replay-recording") == 200
        else:
            assert self._ask("PUT", f"/{BUCKET}") == 200
        self._has_run = True

    def close(self) -> None:
        super().close()
        self._ports.release()

    def lose(self, method: str, part: str, count: int = 1) -> None:
        """Carry the next requests out, and cut their connections instead of an answer."""
        assert self._ask("PUT", f"/-/lose?method={method}&part={part}&count={count}") == 200

    def drop(self, method: str, part: str, count: int = 1) -> None:
        """Cut the connections of the next requests, which are not carried out."""
        assert self._ask("PUT", f"/-/drop?method={method}&part={part}&count={count}") == 200

    def forget_conditions(self) -> None:
        """Write objects also if their names are taken."""
        assert self._ask("PUT", "/-/forget") == 200

    def _ask(self, method: str, path: str) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path)
            return connection.getresponse().status
        finally:
            connection.close()
