"""Tracebacks of components' exceptions as their users want them: without our own frames."""

from __future__ import annotations

import os
import traceback
from pathlib import Path
from types import TracebackType
from typing import Final

from tupletree.errors import TupletreeError

MAX_FRAMES: Final = 5
_PACKAGE: Final = Path(__file__).resolve().parent
_OURS: Final = (f"{_PACKAGE}{os.sep}", f"{_PACKAGE.parent / 'worker'}{os.sep}", "tupletree/worker/")
"""The beginnings of the paths of our files; the last is of compiled modules."""
_GENERATED: Final = "<operators of "


def users_frames(error: BaseException) -> str:
    """Return the frames of a component's exception that are not ours, the last ones, as Python shows them.

    If the user's code had returned already, this is the line of the generated code that used what it returned, or
    nothing if a check of ours raised, whose sentence says it all.
    """
    frames = traceback.extract_tb(error.__traceback__)
    users = [frame for frame in frames if not frame.filename.startswith((*_OURS, _GENERATED))]
    if not users and frames and frames[-1].filename.startswith(_GENERATED):
        users = frames[-1:]
    return "".join(traceback.format_list(users[-MAX_FRAMES:])).rstrip("\n")


class OursLeftOut:
    """A context that leaves our own frames out of the tracebacks of an error of ours, and of the exception that is its
    cause, before the first frame of the user's. ``TUPLETREE_TRACEBACK=1`` keeps them.
    """

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not isinstance(error, TupletreeError) or os.environ.get("TUPLETREE_TRACEBACK"):
            return
        error.__traceback__ = None
        if error.__cause__ is not None:
            error.__cause__.__traceback__ = _from_the_users(error.__cause__.__traceback__)


def _from_the_users(trace: TracebackType | None) -> TracebackType | None:
    """Return a traceback from its first frame that is neither ours nor generated; all of it if there is none.

    None if a check of ours raised behind generated code: its sentence says it all.
    """
    files = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(trace)]
    if all(file.startswith((*_OURS, _GENERATED)) for file in files) and any(
        file.startswith(_GENERATED) for file in files[:-1]
    ):
        return None
    here = trace
    while here is not None:
        if not here.tb_frame.f_code.co_filename.startswith((*_OURS, _GENERATED)):
            return here
        here = here.tb_next
    return trace
