"""A child process that speaks the multilang protocol: started, written to, read from and ended.

Two threads serve it, so that neither side waits for the other: the child may write while it is written to.
"""

from __future__ import annotations

import contextlib
import fcntl
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
_END_S: Final = 0.5
"""The time that a child has to end when its input does, and again when it is told to. A worker ends in two seconds."""
_LAST_S: Final = 0.05
"""The time from the end of a child's output to its own."""
_PIPE_BYTES: Final = 4096
"""The size of the pipe to a child, where it can be chosen: what lies there is out of our hands."""


class ChildError(TupletreeError):
    """The process of a component in another language has ended, does not answer, or sends what is no message."""


class Child:
    """A running child. ``received`` is called, on a thread of its own, with each message and with the error at its end.

    ``written`` is called with the tag of each message that has left, on another thread.

    Raises ChildError if the command cannot be started.
    """

    def __init__(
        self,
        title: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        received: Callable[[Message | ChildError], None],
        written: Callable[[str | None], None] = lambda tag: None,
    ) -> None:
        self.title = title
        self.heard_s = time.monotonic()
        self._received = received
        self._written = written
        self._outgoing: queue.SimpleQueue[tuple[bytes, str | None] | None] = queue.SimpleQueue()
        self._is_closing = False
        self._ending = threading.Lock()
        self._has_said_all = threading.Event()  # its output has ended
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
                process_group=0,  # its own children end with it, and it ends with the worker's session
            )
        except (OSError, ValueError) as error:
            shutil.rmtree(self._pid_dir, ignore_errors=True)
            text = error.strerror if isinstance(error, OSError) else str(error)
            raise ChildError(f"{title}: {command[0]!r} cannot be started: {text}") from error
        _shorten(self._process.stdin)
        event(log, "child.started", title=title, pid=self._process.pid, directory=directory)
        for run in (self._write_all, self._read_all, self._read_errors):
            threading.Thread(target=run, name=f"{title}: {run.__name__}", daemon=True).start()

    def greet(self, conf: Mapping[str, Any], context: Mapping[str, Any]) -> None:
        """Send the first message: configuration, context, and a directory for a file named as the process id."""
        plain = {key: value for key, value in conf.items() if _is_plain(value)}
        self.send({"conf": plain, "pidDir": self._pid_dir, "context": context})

    def send(self, message: Any, tag: str | None = None) -> None:
        """Queue a message. Raises UnregisteredTypeError for what JSON has no form for."""
        self._outgoing.put((encode(message), tag))

    def close(self) -> None:
        """End the child's input, and then the child and all that it has started."""
        with self._ending:
            if self._is_closing:
                return
            self._is_closing = True
        self._outgoing.put(None)
        if not self._has_said_all.wait(_END_S):
            self._signal(signal.SIGTERM)
            self._has_said_all.wait(_END_S)
        self._end()

    def _end(self) -> None:
        """Kill the child's group, if something of it is left. Nothing else has its id: the child was not waited for."""
        self._signal(signal.SIGKILL)
        self._process.wait()
        shutil.rmtree(self._pid_dir, ignore_errors=True)

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def fail(self, fault: str = "") -> None:
        """End the child, and tell of its fault, or of how it has ended. Does nothing once it is closed. Any thread."""
        with self._ending:
            if self._is_closing:
                return
            self._is_closing = True
        self._outgoing.put(None)
        self._end()
        self._received(ChildError(f"{self.title}: {fault or self._how_it_ended()}"))

    def _how_it_ended(self) -> str:
        status = self._process.returncode
        if status == -signal.SIGKILL:
            how = "was killed, or has closed its standard output"
        else:
            how = f"was ended by signal {-status}" if status < 0 else f"has ended with status {status}"
        return f"its process {how}; what it said is in the worker's log"

    def _write_all(self) -> None:
        stream = self._process.stdin
        assert stream is not None
        with contextlib.suppress(OSError, ValueError):  # the child has ended, as its output tells
            while (queued := self._outgoing.get()) is not None:
                data, tag = queued
                stream.write(data)
                if self._outgoing.empty():
                    stream.flush()
                self._written(tag)
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
                elif isinstance(message, Pid):
                    shutil.rmtree(self._pid_dir, ignore_errors=True)  # its file was written before
                else:
                    self._received(message)
        except ProtocolError as error:
            self.fail(str(error))
            return
        except ValueError:  # closed
            return
        finally:
            self._has_said_all.set()
        time.sleep(_LAST_S)
        self.fail()

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


def _shorten(pipe: IO[bytes] | None) -> None:
    """Make a pipe hold little, where the system permits it."""
    number = getattr(fcntl, "F_SETPIPE_SZ", None)
    if number is not None and pipe is not None:
        with contextlib.suppress(OSError):
            fcntl.fcntl(pipe, number, _PIPE_BYTES)


def _directory_of(command: Sequence[str]) -> str | None:
    """Return the directory to run a command in: where its program or script lies; None: anywhere.

    These travel with the topology's code, in a directory ``resources`` as with Storm, or beside the modules.
    """
    places = [Path(entry or ".") for entry in sys.path]
    for place in places:
        for directory in (place / RESOURCES, place):
            if any((directory / part).is_file() for part in command if not os.path.isabs(part)):
                return str(directory.resolve())
    found = next((place / RESOURCES for place in places if (place / RESOURCES).is_dir()), None)
    return None if found is None else str(found.resolve())
