"""Internal streams of a transactional topology, in addition to the streams that its components declare."""

from __future__ import annotations  # pure

from tupletree.outputs import REPORT_STREAM, Stream

BATCH_STREAM = "batch"
COMMIT_STREAM = "commit"

BATCH = Stream(BATCH_STREAM, ("attempt", "metadata", "committed"))
"""Coordinator to every emitter: emit this batch. ``committed``: the last committed transaction."""

COMMIT = Stream(COMMIT_STREAM, ("attempt",))
"""Coordinator to every committer: finish this batch."""

REPORT = Stream(REPORT_STREAM, ("attempt", "count", "committed"), direct=True)
"""Each task to each downstream task: I have finished this batch and sent you ``count`` tuples of it."""


def coordinator_id(spout_id: str) -> str:
    """The component id of the coordinator that belongs to the emitters ``spout_id``."""
    return f"{spout_id}:coordinator"
