"""Every error that Tupletree raises, by what the caller should do about it.

=================  ==========================================================
type               what it says
=================  ==========================================================
UsageError         the request is wrong; never retried
ConflictError      somebody changed it first; reload and decide again
AuthorityError     you are not the leader, or no longer; stand down
UnavailableError   the peer is away; retry with backoff
ProtocolError      the peer speaks nonsense; drop it
ForbiddenError     you may not do this; ask for the right
InternalError      a bug or a broken machine; crash
=================  ==========================================================

The mapping to gRPC status codes is in ``tupletree._rpc.status``.
"""

from __future__ import annotations


class TupletreeError(Exception):
    """The base of all errors below. ``str(error)`` is one sentence for a person."""


class UsageError(TupletreeError):
    """A mistake in what the user asked for. The sentence names the thing and what was expected."""


class ConfigError(UsageError):
    """A configuration key is unknown, or its value is not of the kind it takes."""


class NotFoundError(UsageError):
    """No topology, component, log or blob of that name."""


class NameInUseError(UsageError):
    """A topology of that name is already alive."""


def named(error: BaseException) -> str:
    """The type and the text of any exception. Never raises, as a user's ``__str__`` may."""
    try:
        text = str(error)
    except Exception as cause:
        text = f"(its text cannot be shown: str raised {type(cause).__name__})"
    return f"{type(error).__name__}: {text}"


class TopologyError(UsageError):
    """A mistake in a topology. Names the component and, where there is one, the field at fault."""

    def __init__(self, message: str, *, component: str = "", field: str = "") -> None:
        super().__init__(message)
        self.component = component
        self.field = field


class EmitError(UsageError):
    """A component emitted what it did not declare: an unknown stream, a wrong number of values, a wrong target."""


class TupleTooLargeError(EmitError):
    """A tuple larger than ``topology.tuple.max.bytes`` was about to leave its worker."""


class UnregisteredTypeError(UsageError):
    """A value of a type that msgpack does not carry and nobody registered was about to leave its worker."""


class UnwritableValueError(UnregisteredTypeError):
    """A value was about to leave its worker that cannot, although its type can: one nested too deeply, for example."""


class ConflictError(TupletreeError):
    """The stored version is another than the one the decision was made on."""


class AuthorityError(TupletreeError):
    """A command came with an older epoch than one already seen, or was sent to a nimbus that does not lead."""


class UnavailableError(TupletreeError):
    """The peer cannot be reached or cannot serve now."""


class ProtocolError(TupletreeError):
    """A message that no correct peer sends."""


class ForbiddenError(TupletreeError):
    """The caller is known, and may not do this. Never retried."""


class UnauthenticatedError(ForbiddenError):
    """The caller showed no token, or one that does not count."""


class InternalError(TupletreeError):
    """An invariant does not hold."""


class FailedException(Exception):
    """Raised by a basic bolt to fail its input tuple: the tuple tree fails, the worker goes on."""


class ReportedFailedException(FailedException):
    """As FailedException, and the error is reported for the component."""


class StaleAttemptError(ReportedFailedException):
    """An attempt came to change values after a newer attempt, or a later transaction, had. Nothing is written."""
