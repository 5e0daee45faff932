"""Every error that Tupletree raises, classified by the reaction expected of the caller.

=================  ==========================================================
type               meaning and reaction
=================  ==========================================================
UsageError         the request is wrong; never retried
ConflictError      another writer was first; reload and decide again
AuthorityError     the caller is not the leader, or no longer; stand down
UnavailableError   the peer is unavailable; retry with backoff
ProtocolError      the peer violates the protocol; drop it
ForbiddenError     the caller may not do this; ask for the right
InternalError      a bug or a broken machine; crash
=================  ==========================================================

The mapping to gRPC status codes is in ``tupletree._rpc.status``.
"""

from __future__ import annotations  # pure

import builtins
import difflib
import traceback


class TupletreeError(Exception):
    """The base of all errors below. ``str(error)`` is one human-readable sentence."""


class UsageError(TupletreeError):
    """A mistake in the user's request. The message names the faulty part and the expectation."""


class ConfigError(UsageError):
    """A configuration key is unknown, or its value is invalid for the key."""


class NotFoundError(UsageError):
    """There is no topology, component, log, blob or namespace of trees with that name, or no longer."""


class NameInUseError(UsageError):
    """A topology with that name is already alive."""


def named(error: BaseException) -> str:
    """Return the type and the text of any exception. Never raises, even if a user's ``__str__`` does."""
    try:
        text = str(error)
    except Exception as cause:
        text = f"(its text cannot be shown: str raised {type(cause).__name__})"
    return f"{type(error).__name__}: {text}"


_OF_ITS_THREAD = "can only be used in that same thread"
_MOVED = (
    "A worker moves components to another thread if one beside them blocks: set blocking = True on the class, whose "
    "tasks then stay on threads of their own, or pass check_same_thread=False to sqlite3.connect"
)


def with_suggestion(error: BaseException) -> str:
    """Return the type and the text of any exception and, for a misspelt name, the nearest one that is there.

    Python itself prints such names, and has them in no text before 3.12. An object of sqlite3 that has come to another
    thread with its component gets the remedy.
    """
    text = named(error)
    if _OF_ITS_THREAD in text:
        return f"{text} {_MOVED}"
    if not isinstance(error, AttributeError | NameError) or not isinstance(error.name, str):
        return text
    try:
        meant = _meant(error, error.name)
    except Exception:  # of a user's __dir__ or __contains__
        return text
    return f"{text} (did you mean {meant}?)" if meant else text


def _meant(error: AttributeError | NameError, name: str) -> str:
    """Return what could have been meant: a key, a name of the object, or one that the failed line could have used."""
    if isinstance(error, AttributeError):
        if isinstance(error.obj, dict) and name in error.obj:
            return f"[{name!r}]"
        names = dir(error.obj)
    else:
        frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
        names = [*frames[-1].f_locals, *frames[-1].f_globals, *dir(builtins)] if frames else []
    return "".join(map(repr, difflib.get_close_matches(name, names, n=1, cutoff=0.75)))


class TopologyError(UsageError):
    """A mistake in a topology. Names the component and, if known, the faulty field."""

    def __init__(self, message: str, *, component: str = "", field: str = "") -> None:
        super().__init__(message)
        self.component = component
        self.field = field


class EmitError(UsageError):
    """An emit does not match the declaration: an unknown stream, a wrong number of values, or a wrong target."""


class TupleTooLargeError(EmitError):
    """A tuple larger than ``topology.tuple.max.bytes`` was about to leave its worker."""


class UnregisteredTypeError(UsageError):
    """A value of an unregistered type that msgpack cannot encode was about to leave its worker."""


class UnwritableValueError(UnregisteredTypeError):
    """A value of an encodable type that itself cannot be encoded, for example too deeply nested, was about to leave."""


class ConflictError(TupletreeError):
    """The stored version differs from the version that the decision was based on."""


class AuthorityError(TupletreeError):
    """A command carried an epoch older than the newest seen, or was sent to a nimbus that does not lead."""


class UnavailableError(TupletreeError):
    """The peer cannot be reached, or cannot serve at the moment."""


class NoNimbusError(UnavailableError):
    """None of the addresses of nimbuses answers: there is no cluster, or the addresses are those of another."""


class OverloadedError(UnavailableError):
    """The peer has as many requests or open trees as it accepts, and has refused this one; call again later."""


class DRPCError(TupletreeError):
    """A DRPC request has ended without an answer. It was possibly processed, in part or as a whole.

    ``kind``: "failed" (a bolt failed it, or there was no result), "timeout", "lost" (with a worker, an acker or the
    DRPC server), or "shutdown" (of the DRPC server).
    """

    def __init__(self, message: str, kind: str = "failed") -> None:
        super().__init__(message)
        self.kind = kind


class DRPCTimeoutError(DRPCError, TimeoutError):
    """A DRPC request was not answered in time."""


class ProtocolError(TupletreeError):
    """The peer sent a message that no correct peer sends."""


class ForbiddenError(TupletreeError):
    """The caller is known, but may not do this. Never retried."""


class UnauthenticatedError(ForbiddenError):
    """The caller presented no token, or an invalid token."""


class InternalError(TupletreeError):
    """An invariant does not hold."""


class GivenUpError(TupletreeError):
    """A message failed as often as its spout's retries allow, or its failure is final. It is not emitted again.

    ``reason``: the last failure, without the message: the same for messages that fail in the same way.
    """

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


class TaskFailedError(TupletreeError):
    """A component raised an exception, so its worker must end. ``__cause__`` is the component's exception.

    SystemExit counts too: on the thread of a run loop, SystemExit would silently end only that thread.

    ``remedy``: how the component's code fails its input instead. It is named unless the exception is an error of ours,
    which says by itself what to do.
    """

    def __init__(self, component_id: str, task_id: int, cause: BaseException, remedy: str = "") -> None:
        is_users = component_id != "__system" and not isinstance(cause, TupletreeError)
        then = f": {remedy}" if remedy else ""
        here = f"; this ends the run, and on a cluster the worker, which is restarted{then}" if is_users else ""
        super().__init__(f"task {task_id} of component {component_id!r} failed: {with_suggestion(cause)}{here}")
        self.on_cluster = f"; the worker ends and is restarted{then}" if is_users else ""
        self.component_id = component_id
        self.task_id = task_id
        self.__cause__ = cause


def likeness(error: BaseException) -> str:
    """Return a text that is the same for errors of which people need one: messages given up for the same reason."""
    return (isinstance(error, GivenUpError) and error.reason) or named(error)


class FailedException(Exception):
    """Raised by a basic bolt to fail its input tuple: the tuple tree fails, the worker goes on.

    ``retry``: false if another attempt would fail too: a spout with retries then gives the message up at once.
    """

    def __init__(self, *arguments: object, retry: bool = True) -> None:
        super().__init__(*arguments)
        self.retry = retry


class ReportedFailedException(FailedException):
    """A FailedException that is also reported as an error of the component."""


class StaleAttemptError(ReportedFailedException):
    """An attempt tried to change values already changed by a newer attempt or transaction. Nothing is written."""
