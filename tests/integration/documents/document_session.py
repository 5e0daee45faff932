"""A document as its reader uses it: files are saved, commands pasted in order, outputs compared.

    ```python title="shop.py"      saved as shop.py
    ```shell                       pasted into a terminal, in the reader's directory
    ```text                        right after it: the output

A comment before a shell block says what differs from that:

    <!-- in another terminal -->   the command goes on; what it shows at first is compared
    <!-- repeated -->              the command is repeated until it shows this
    <!-- in any order -->          the lines of the output have no order
    <!-- numbers vary -->          only the text of the output is compared
    <!-- with other lines -->      other lines may stand between the shown ones

Times, ports, process ids and ids are masked in every output, and the numbers of tables with rates.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from document_blocks import Block, blocks_of, is_shown

from tupletree._net import ReservedPorts, bind
from tupletree.errors import UsageError
from tupletree.testing import wait_until

TIMEOUT_S: Final = 400
_SLOTS: Final = 4


def _is_free(port: int) -> bool:
    try:
        bind("127.0.0.1", port).close()
    except UsageError:
        return False
    return True


def _ports(reserved: ReservedPorts) -> dict[str, str]:
    """Return the environment that gives the reader's cluster ports which are free here."""
    zookeeper, nimbus, *others = mine = reserved.reserve(40)
    slots = next(
        port
        for port in others
        if port < 65_000 and all(port + n not in mine and _is_free(port + n) for n in range(1, _SLOTS))
    )
    http, supervisor, supervisor_http, acker, acker_http = [port for port in others if port != slots][:5]
    keys = {
        "ZOOKEEPER_SERVERS": f"[127.0.0.1:{zookeeper}]",
        "ZOOKEEPER_PORT": zookeeper,
        "NIMBUS_SEEDS": f"[127.0.0.1:{nimbus}]",
        "NIMBUS_PORT": nimbus,
        "NIMBUS_HTTP_PORT": http,
        "SUPERVISOR_PORT": supervisor,
        "SUPERVISOR_HTTP_PORT": supervisor_http,
        "SUPERVISOR_SLOTS_PORTS": f"[{slots}]",
        "ACKER_PORT": acker,
        "ACKER_HTTP_PORT": acker_http,
    }
    return {f"TUPLETREE_{name}": str(value) for name, value in keys.items()}


class Session:
    """A reader's terminals in a directory. What runs in other terminals is ended with Ctrl-C at the end."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._ports = ReservedPorts()
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        who = {"LOGNAME": "ada", "PYTHONUNBUFFERED": "1", "PATH": path}
        self.environment: Mapping[str, str] = {**os.environ, **_ports(self._ports), **who}
        self._others: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in reversed(self._others):
            os.killpg(process.pid, signal.SIGINT)
            process.wait(TIMEOUT_S)
        self._ports.release()

    def follow(self, document: Path, *, before: str = "") -> None:
        """Do what a document, or its part before a heading, says.

        Raises AssertionError for the first output that is not the shown one. A command without a shown output shows
        nothing.
        """
        blocks = list(blocks_of(document, before=before))
        self.save_files(document)
        for block, after in zip(blocks, [*blocks[1:], None], strict=True):
            if block.kind == "shell":
                shown = after.text if after is not None and after.kind == "text" else ""
                self._paste(block, shown, f"{document.name}:{block.line}")

    def save_files(self, document: Path) -> None:
        """Save the files of a document."""
        for block in blocks_of(document):
            if block.title:
                (self.directory / block.title).write_text(block.text)

    def _paste(self, block: Block, shown: str, where: str) -> None:
        read = self._start(block.text) if "in another terminal" in block.how else lambda: self._run(block.text)
        output = read()

        def is_as_shown() -> bool:
            nonlocal output
            if is_shown(output, shown, block.how, str(self.directory)):
                return True
            output = read()
            return False

        is_patient = bool(block.how & {"in another terminal", "repeated"})
        if is_patient:
            with suppress(TimeoutError):
                wait_until(is_as_shown, TIMEOUT_S)
        if not is_shown(output, shown, block.how, str(self.directory)):
            differs = f"{where}: {block.text.strip()!r} shows\n{output}"
            raise AssertionError(f"{differs}\ninstead of\n{shown}")

    def _run(self, commands: str) -> str:
        done = subprocess.run(
            ["bash", "-c", commands],
            cwd=self.directory,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        return done.stdout

    def _start(self, command: str) -> Callable[[], str]:
        path = self.directory / f".terminal-{len(self._others)}"
        with path.open("wb") as out:
            process = subprocess.Popen(
                ["bash", "-c", command],
                cwd=self.directory,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C reaches all processes of a terminal
            )
        self._others.append(process)
        return path.read_text
