"""Savepoints over REST: the leader runs ``tupletree savepoint`` in a process of its own (docs/adr/0075).

    POST -> right of the caller -> address below nimbus.savepoints.address -> the command
    GET  -> running, done or failed

The command calls this nimbus as any client does, with a token of nimbus. Only the leader that began it knows what has
become of it. What a command leaves that was ended has no savepoint.json, and is no savepoint.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tupletree._log import event
from tupletree._security.current import current
from tupletree.errors import ConflictError, TupletreeError

from .savepoint_rules import Attempt, address_of, ended, failed

MAX_S: Final = 1500.0
"""The longest time of a savepoint: the token of nimbus is valid for longer."""
MAX_RUNNING: Final = 2
MAX_KEPT: Final = 1_000

_TOKEN: Final = "TUPLETREE_SECURITY_TOKEN"
_FILES: Final = frozenset({"tls.ca", "tls.cert", "tls.key"})

log = logging.getLogger("tupletree.nimbus")


class Savepoints:
    """The commands of this nimbus that are running, and the last attempt of each topology."""

    def __init__(self, root: str | None, conf: Mapping[str, Any]) -> None:
        self._root = root
        self._conf = conf
        self._attempts: dict[str, Attempt] = {}  # by topology id, the last one last
        self._running: set[asyncio.Task[None]] = set()

    @property
    def are_configured(self) -> bool:
        """True if the cluster says where savepoints go."""
        return self._root is not None

    def last(self, topology_id: str) -> Attempt | None:
        """Return the last attempt of a topology that this nimbus has begun."""
        return self._attempts.get(topology_id)

    def begin(self, topology_id: str, name: str, to: object, wait_s: float, nimbus: str) -> Attempt:
        """Begin a savepoint. ``nimbus``: the address of this nimbus, which leads. Checks no rights.

        Raises:
            UsageError: the cluster does not say where savepoints go, or ``to`` is no name.
            ConflictError: a savepoint of the topology is running, or too many of others are.
        """
        now_unix_s = time.time()
        attempt = Attempt(address_of(self._root, name, to, now_unix_s), now_unix_s)
        before = self._attempts.get(topology_id)
        if before is not None and before.state == "running":
            raise ConflictError(f"a savepoint of topology '{name}' is being written to {before.address}: wait for it")
        if len(self._running) >= MAX_RUNNING:
            raise ConflictError(f"nimbus is writing {MAX_RUNNING} savepoints of other topologies: try again later")
        self._keep(topology_id, attempt)
        task = asyncio.get_running_loop().create_task(self._run(topology_id, name, attempt, wait_s, nimbus))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return attempt

    async def close(self) -> None:
        """End all commands that are running."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    def _keep(self, topology_id: str, attempt: Attempt) -> None:
        self._attempts.pop(topology_id, None)
        self._attempts[topology_id] = attempt
        while len(self._attempts) > MAX_KEPT:
            del self._attempts[next(iter(self._attempts))]

    async def _run(self, topology_id: str, name: str, attempt: Attempt, wait_s: float, nimbus: str) -> None:
        event(log, "savepoint.begun", topology=topology_id, address=attempt.address)
        over = failed(attempt, "nimbus has ended", time.time())
        try:
            status, out, err = await self._command(name, attempt.address, wait_s, nimbus)
            over = ended(attempt, status, out, err, time.time())
        except TimeoutError:
            over = failed(attempt, f"it took longer than {MAX_S:.0f} s: run 'tupletree savepoint {name}'", time.time())
        except (OSError, TupletreeError) as error:
            over = failed(attempt, f"the command cannot be run: {error}", time.time())
        finally:
            self._keep(topology_id, over)
            event(log, f"savepoint.{over.state}", topology=topology_id, address=over.address, cause=over.error)

    async def _command(self, name: str, address: str, wait_s: float, nimbus: str) -> tuple[int, str, str]:
        """Run the command; return its exit status and output. It never outlives this call."""
        with tempfile.TemporaryDirectory(prefix="tupletree-savepoint-") as folder:
            conf = Path(folder, "tupletree.yaml")
            conf.write_text(json.dumps(self._client_conf(nimbus)))
            arguments = ["--to", address, "--wait", f"{wait_s:g}", "--json", "--conf", str(conf), "--", name]
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "tupletree.cli.main",
                "savepoint",
                *arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=self._environment(),
                cwd=folder,
            )
            try:
                out, err = await asyncio.wait_for(process.communicate(), MAX_S)
            finally:
                if process.returncode is None:
                    with contextlib.suppress(ProcessLookupError):
                        process.kill()
                    await process.wait()
        return process.returncode or 0, out.decode(errors="replace"), err.decode(errors="replace")

    def _client_conf(self, nimbus: str) -> dict[str, Any]:
        """Return the configuration of a client of this nimbus, without its token."""
        found = {key: value for key, value in self._conf.items() if key.startswith("tls.")}
        for key in _FILES & found.keys():  # those of nimbus's working directory, which is not that of the command
            found[key] = found[key] and str(Path(found[key]).expanduser().absolute())
        return {**found, "nimbus.seeds": [nimbus]}

    def _environment(self) -> dict[str, str]:
        """Return the environment of the command, with a token of nimbus, which a file would let outlive both."""
        found = {key: value for key, value in os.environ.items() if not key.startswith("TUPLETREE_")}
        token = current().token
        return found if token is None else {**found, _TOKEN: token()}
