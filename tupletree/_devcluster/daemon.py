"""One daemon process of a cluster on this machine: start, readiness check and end."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any, Final

import yaml

from tupletree._address import address_of
from tupletree._devcluster.plan import DaemonPlan
from tupletree._security.tls import Tls
from tupletree.errors import TupletreeError, UnavailableError, UsageError

_EXIT_USAGE: Final = 2
_TAIL_BYTES: Final = 4096


Run = Callable[[Callable[[], Any]], Any]


def here(call: Callable[[], Any]) -> Any:
    """Return ``call()``: the process runs on this machine itself."""
    return call()


class DaemonProcess:
    """The process of one plan. After its end, it can be started again on the same ports and data."""

    def __init__(self, plan: DaemonPlan, tls: Tls | None = None, run: Run = here) -> None:
        """``run`` calls a function on the machine of the daemon."""
        context = None if tls is None else tls.client_context()
        self._scheme = "http" if context is None else "https"
        self._opener = urllib.request.build_opener(  # without the environment's proxies, which are meant for the web
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )
        self._run = run
        self.plan = plan
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def pid(self) -> int:
        return self.process.pid if self.process is not None else 0

    def launch(self) -> None:
        """Start the process without waiting for it. No effect if it is running."""
        if self.running:
            return
        plan = self.plan
        os.makedirs(plan.directory, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            os.remove(plan.announce_path)
        with open(plan.conf_path, "w", encoding="utf-8") as file:
            yaml.safe_dump(dict(plan.conf), file)
        command = [sys.executable, "-m", plan.module]
        command += ["--conf", plan.conf_path, "--announce", plan.announce_path]
        with open(plan.output_path, "ab") as output:
            self.process = self._run(
                lambda: subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    cwd=plan.directory,
                    env=_environment(),
                    start_new_session=True,
                )
            )

    def announced(self) -> dict[str, Any] | None:
        """Return the announcement of the running process; None before it. Raises the ``failure`` if it has ended."""
        try:
            with open(self.plan.announce_path, encoding="utf-8") as file:
                facts: dict[str, Any] = json.load(file)
        except (OSError, ValueError):
            facts = {}
        if facts.get("pid") == self.pid:
            return facts
        if not self.running:
            raise self.failure()
        return None

    def ready(self) -> bool:
        """True if the process serves and reports ready. Raises the ``failure`` if the process ended."""
        return self.announced() is not None and self.not_ready() == []

    def not_ready(self) -> list[str]:
        """Return the process's own reasons for not being ready; empty if ready."""
        url = f"{self._scheme}://{address_of(self.plan.host, self.plan.http_port)}/readyz"
        try:
            with self._opener.open(url, timeout=2) as reply:
                reply.read()
        except urllib.error.HTTPError as error:
            with error, contextlib.suppress(ValueError):
                return list(json.load(error)["reasons"])
            return ["not ready"]
        except OSError:
            return ["it does not answer"]
        return []

    def failure(self) -> TupletreeError:
        """Return the error of a process that is not running, in one sentence with the end of its output."""
        kind = UsageError if self.process is not None and self.process.poll() == _EXIT_USAGE else UnavailableError
        return kind(f"{self.plan.name} {self.ending()}")

    def ending(self) -> str:
        """Return how the process ended, with its last output and the path of its log."""
        status = self.process.poll() if self.process is not None else None
        if status is not None and status < 0:
            return f"was ended by {signal.Signals(-status).name}"
        log = self.plan.log_path if os.path.exists(self.plan.log_path) else self.plan.output_path
        said = last_line(self.plan.output_path) or last_line(log) or "it printed nothing"
        return f"ended with status {status}: {said} (see {log})"

    def signal(self, number: int) -> None:
        """Send a signal; after SIGKILL, wait until the process is gone. No effect if it is not running."""
        if self.process is None or not self.running:
            return
        self.process.send_signal(number)
        if number == signal.SIGKILL:
            self.process.wait()

    def stop(self, timeout_s: float) -> None:
        """Send SIGTERM, and SIGKILL after ``timeout_s`` seconds; wait for the end. No effect if not running."""
        if self.process is None:
            return
        self.signal(signal.SIGTERM)
        try:
            self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGKILL)


def _environment() -> dict[str, str]:
    """Return our environment without the variables that would override the plan. TUPLETREE_PURE is kept."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("TUPLETREE_") or name == "TUPLETREE_PURE"
    }


def last_line(path: str) -> str:
    """Return the last non-empty line of a file; "" if there is none."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.path.getsize(path) - _TAIL_BYTES))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
