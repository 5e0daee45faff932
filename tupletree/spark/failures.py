"""Failures in Spark, explained to the author of the user code: one sentence, and the user's part of the traceback.

Spark raises an exception with hundreds of lines of Java for a typing error in a lambda. The important part is among
these lines. For an exception in a Python worker it is the worker's own traceback; for an exception of Spark it is the
line with its condition (``[DIVIDE_BY_ZERO] …``), sometimes behind the last ``Caused by:``.
"""

from __future__ import annotations  # pure

import re
import traceback
from collections.abc import Sequence
from pathlib import PurePath
from types import TracebackType
from typing import Any

from tupletree.attempt import TransactionAttempt
from tupletree.errors import FailedException, ReportedFailedException, UnavailableError

LONGEST = 600
"""Maximum number of characters of a sentence."""

FRAMES = 30
"""Maximum number of traceback frames shown. The last frames are shown."""

_PYTHON = "Traceback (most recent call last):"
_FRAME = re.compile(r'  File "(?P<file>[^"]*)", line \d+')
_OURS = re.compile(  # includes a checkout, in a directory of any name
    r"[/\\](pyspark|py4j|tupletree[/\\](spark|worker|_\w+)|concurrent[/\\]futures)[/\\]"
    r"|[/\\](threading|socket|runpy)\.py$"
    rf"|^{re.escape(str(PurePath(__file__).parents[1]))}[/\\]"
)
_SPARKS = re.compile(r"[/\\](pyspark|py4j)[/\\]")
_SOCKETS = re.compile(r"[/\\](socket|ssl)\.py$")
_CAUSE = re.compile(r"^Caused by: (?:[\w.$]+: )?(.*)$", re.MULTILINE)
_AWAY = re.compile(r"tupletree\.errors\.(UnavailableError|FailedException|ReportedFailedException)\b")
_CALLED_WRONGLY = ". Trace:\n"  # py4j's text when the JVM answered that a method does not exist
_JAVA_NOISE = re.compile(r"^(An error occurred while calling \S+\.(?:\n: | Trace:\n)|[\w.$]+(?:Exception|Error): )+")
_LOST = re.compile(
    r"^(?:: |Caused by: )?(?:\([\w.$]+\) )?(?:[\w.$]+: )*(?:\[SPARK_JOB_CANCELLED\] )?"
    r"(?:(?:(?:Job \d+|Stage) cancelled because )?SparkContext was shut down"
    r"|Cannot call methods on a stopped SparkContext"
    r"|SparkSession has been stopped"
    r"|Answer from Java side is empty"
    r"|\[NO_ACTIVE_SESSION\]"
    r"|\[INVALID_HANDLE\.SESSION)",
    re.MULTILINE,
)
"""Matches at the beginning of a message, or of a cause in it: elsewhere, the same text can be quoted from a row."""


class BatchFailedError(ReportedFailedException):
    """A batch failed in Spark, in the user's code or in a sink. The exception's notes hold the traceback."""


class SparkLostError(Exception):
    """The Spark session of this process is lost, and the worker must be restarted."""


def batch_failed(attempt: TransactionAttempt, splits: Sequence[Any], doing: str, error: BaseException) -> Exception:
    """Return the error to report for a batch that failed while ``doing`` something."""
    sentence, lines = explain(error)
    failed = BatchFailedError(f"{attempt}, {doing}: {sentence}; the batch is {shorten(splits)}")
    if lines:
        failed.add_note(lines)
    return failed


def is_own_fault(error: BaseException) -> bool:
    """True if the error can be the batch's own fault, rather than a temporary unavailability.

    A reader in a Python worker raises the same types, but only their names come through Spark.
    """
    return not isinstance(error, UnavailableError | FailedException) and not _AWAY.match(explain(error)[0])


def is_session_lost(error: BaseException) -> bool:
    """True if this session can no longer be used."""
    module = type(error).__module__
    text = str(error)
    if module.startswith("py4j") and getattr(error, "java_exception", None) is None:
        # An error raised by Java carries a Java exception. Without that, the JVM did not answer.
        return _CALLED_WRONGLY not in text
    if isinstance(error, ConnectionError):  # from a sink or from user code, the error says nothing about Spark
        files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
        used_by = next((file for file in reversed(files) if not _SOCKETS.search(file)), "")
        return _SPARKS.search(used_by) is not None  # outer frames can be Spark's too, where Spark calls user code
    # An error of a Python worker is about the rows or the user's code.
    return module.startswith(("py4j", "pyspark")) and _PYTHON not in text and _LOST.search(text) is not None


def explain(error: BaseException) -> tuple[str, str]:
    """Return one sentence, and the user's part of the traceback (empty if there is none)."""
    text = str(error)
    if _PYTHON in text:  # from a Python worker: Spark's message is the traceback, Java lines can follow
        lines = _python_part(text[text.rindex(_PYTHON) :])
        return _cut(lines[-1]), "\n".join(_users(lines))
    module = type(error).__module__
    if module.startswith(("pyspark", "py4j")):
        return _cut(_sentence(text)), "\n".join(_frames(error.__traceback__))
    return _cut(f"{type(error).__name__}: {text}"), "\n".join(_frames(error.__traceback__))


def shorten(splits: Sequence[Any]) -> str:
    """Return a short description of a batch: its first splits."""
    shown = ", ".join(map(repr, splits[:5]))
    return _cut(f"[{shown}{f', and {len(splits) - 5} more' if len(splits) > 5 else ''}]")


def _sentence(text: str) -> str:
    """Return the innermost cause of a Java exception, without its class."""
    causes = _CAUSE.findall(text)
    line = causes[-1] if causes else _JAVA_NOISE.sub("", text.strip())
    return (line.strip().partition("\n")[0].strip() or text.strip().partition("\n")[0]).rstrip(";")


def _python_part(text: str) -> list[str]:
    """The lines of a Python traceback, up to its exception, without the Java lines that may follow."""
    lines = text.splitlines()
    end = next((i for i, line in enumerate(lines[1:], 1) if line and not line.startswith((" ", "\t"))), len(lines) - 1)
    return [line.rstrip() for line in lines[: end + 1]]


def _users(lines: list[str]) -> list[str]:
    """Remove the frames of Spark and Tupletree from a traceback. If no frame would be left, keep them all."""
    kept, keeps = [], True
    for line in lines[1:-1]:
        frame = _FRAME.match(line)
        if frame:
            keeps = not _OURS.search(frame["file"])
        if keeps:
            kept.append(line)
    return [lines[0], *(kept or lines[1:-1])[-3 * FRAMES :], lines[-1]]


def _frames(trace: TracebackType | None) -> list[str]:
    """The user's frames of an exception that was raised in this process."""
    found = [frame for frame in traceback.extract_tb(trace) if not _OURS.search(str(PurePath(frame.filename)))]
    if not found:
        return []
    return [_PYTHON, *(line.rstrip("\n") for line in traceback.format_list(found[-FRAMES:]))]


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
