"""A child process that speaks the multilang protocol: started, written to, read from and ended.

Two threads serve it, so that neither side waits for the other: the child may write while it is written to.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final

from tupletree._log import event
from tupletree.errors import ProtocolError, TupletreeError
from tupletree.multilang.messages import MAX_BYTES, Log, Message, Pid, decode, encode, split

log = logging.getLogger(__name__)

RESOURCES: Final = "resources"
"""Storm's name of the directory with the programs of a topology."""
_END_S: Final = 3.0
"""The time that a child has to end when its input does."""


class ChildError(TupletreeError):
    """The process of a component in another language has ended, does not answer, or sends what is no message."""


class Child:
    """A running child. ``received`` is called, on a thread of its own, with each message and with the error at its end.

    Raises ChildError if the command cannot be started.
    """

    def __init__(
        self,
        title: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        received: Callable[[Message | ChildError], None],
    ) -> None:
        self.title = title
        self.heard_s = time.monotonic()
        self._received = received
        self._outgoing: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._is_closing = False
        self._logger = logging.getLogger(f"multilang.{title.replace(' ', '.')}")
        self._pid_dir = tempfile.mkdtemp(prefix="tupletree-child-")
        directory = _directory_of(command)
        try:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=directory,
                env={**os.environ, **environment},
                start_new_session=True,  # its own children end with it
            )
        except OSError as error:
            shutil.rmtree(self._pid_dir, ignore_errors=True)
            raise ChildError(f"{title}: {command[0]!r} cannot be started: {error.strerror or error}") from error
        event(log, "child.started", title=title, pid=self._process.pid, directory=directory)
        for run in (self._write_all, self._read_all, self._read_errors):
            threading.Thread(target=run, name=f"{title}: {run.__name__}", daemon=True).start()

    def greet(self, conf: Mapping[str, Any], context: Mapping[str, Any]) -> None:
        """Send the first message: configuration, context, and a directory for a file named as the process id."""
        plain = {key: value for key, value in conf.items() if _is_plain(value)}
        self.send({"conf": plain, "pidDir": self._pid_dir, "context": context})

    def send(self, message: Any) -> None:
        """Queue a message. Raises UnregisteredTypeError for what JSON has no form for."""
        self._outgoing.put(encode(message))

    def close(self) -> None:
        """End the child's input, and the child if that does not end it."""
        self._is_closing = True
        self._outgoing.put(None)
        for number in (None, signal.SIGTERM, signal.SIGKILL):
            if number is not None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._process.pid, number)  # what it has started, too
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_END_S)
                break
        shutil.rmtree(self._pid_dir, ignore_errors=True)

    def _write_all(self) -> None:
        stream = self._process.stdin
        assert stream is not None
        with contextlib.suppress(OSError, ValueError):  # the child has ended, as its output tells
            while (data := self._outgoing.get()) is not None:
                stream.write(data)
                if self._outgoing.empty():
                    stream.flush()
        with contextlib.suppress(OSError, ValueError):
            stream.close()

    def _read_all(self) -> None:
        assert self._process.stdout is not None
        try:
            for text in split(_lines(self._process.stdout)):
                message = decode(text)
                self.heard_s = time.monotonic()
                if isinstance(message, Log):
                    self._logger.log(message.level, "%s", message.text)
                elif not isinstance(message, Pid):
                    self._received(message)
        except ProtocolError as error:
            self._received(ChildError(f"{self.title}: {error}"))
            return
        except ValueError:  # closed
            pass
        if not self._is_closing:
            status = self._process.wait()
            how = f"was ended by signal {-status}" if status < 0 else f"has ended with status {status}"
            self._received(ChildError(f"{self.title}: its process {how}; what it said is in the worker's log"))

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        with contextlib.suppress(ValueError):
            for line in _lines(self._process.stderr):
                self._logger.warning("%s", line.decode(errors="replace").rstrip())


def _lines(stream: IO[bytes]) -> Any:
    """Iterate over the lines of a stream, of which none is endless."""
    while line := stream.readline(MAX_BYTES + 1):
        yield line


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float | bool | list | dict)


def _directory_of(command: Sequence[str]) -> str | None:
    """Return the directory to run a command in: where its program or script lies; None: anywhere.

    These travel with the topology's code, in a directory ``resources`` as with Storm, or beside the modules.
    """
    for entry in sys.path:
        for directory in (Path(entry or ".", RESOURCES), Path(entry or ".")):
            if any((directory / part).is_file() for part in command if not os.path.isabs(part)):
                return str(directory.resolve())
    return None
