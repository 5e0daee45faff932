"""A source's first operators, in the source's executor: spouts whose rows pass a chain before they are emitted."""

from __future__ import annotations  # pure

from collections.abc import Mapping, Sequence

from tupletree._chained import Chain, ChainedSpout, Emit
from tupletree.component import Spout
from tupletree.errors import UsageError

__all__ = ["Chain", "Emit", "chained"]


def chained(spout: Spout, chain: Chain, outputs: Mapping[str, Sequence[str]]) -> Spout:
    """Return a spout, for ``TopologyBuilder.set_spout``, whose rows pass a chain of functions in its own executor.

        builder.set_spout("words", chained(lines, Split(), {"default": ["word"]})).set_retry(Backoff(max_attempts=3))

    The rows that ``spout`` emits on its default stream are not emitted: the chain takes each, and what it emits is
    emitted instead, on the streams of ``outputs``, as one tree per message. So a message is acked when everything made
    of it is processed, or at once if nothing was made of it. Rows on other streams are emitted as they are, dead
    letters among them; rows without a message id stay untracked.

    The topology's component is the given spout, whatever its class; the result is only for ``set_spout``. Retries, dead
    letters, positions in checkpoints and limits of pending messages are of the rows that the spout emits, so each
    attempt passes the chain again.

    **Failures.** FailedException fails the message as a bolt does: ``set_retry`` counts an attempt with that reason,
    ``retry=False`` and ReportedFailedException have their meaning, and a spout without retries gets ``fail(msg_id)``,
    after its present call. Nothing that the chain emitted for the row is sent. Any other exception ends the worker,
    with an error that names the component, even if the spout catches exceptions around its emits.

    **Not guaranteed.** A row of a replayed message gives other tuples than before if the chain's functions are not
    pure. ``collector.emit`` in such a spout does not return the receiving tasks of what passes the chain.

    Raises:
        UsageError: ``spout`` is not a Spout object, or has a chain already. ``set_spout`` raises TopologyError if the
            spout has no default stream, or both declare the same stream.
    """
    if not isinstance(spout, Spout):
        given = f"the class {spout.__name__}; write {spout.__name__}(…)" if isinstance(spout, type) else repr(spout)
        raise UsageError(f"chained takes a Spout object, not {given}")
    if isinstance(spout, ChainedSpout):
        raise UsageError("chained takes a spout without a chain: put all functions into one chain")
    return ChainedSpout(spout, chain, outputs)
