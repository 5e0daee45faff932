"""Whatever exception a component raises or reports becomes a message that can be kept."""

from __future__ import annotations

from typing import Any

import pytest

from tupletree.errors import TaskFailedError, UsageError
from tupletree.worker.launch_file import LaunchFile
from tupletree.worker.reporting.heartbeats import component_error


class Silent(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def noted(error: Exception, note: Any) -> Exception:
    error.__notes__ = note
    return error


def message_of(error: BaseException) -> Any:
    launch = LaunchFile("t-1", "w", "s", "here:1", "here", 1, "here", 0, "/b", None, {})
    return component_error(launch, "bolt", 3, error)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError("half \ud83d"), r"ValueError: half \ud83d"),
        (ValueError("a\0b"), "ValueError: a\0b"),
        (Silent(), "Silent: (its text cannot be shown: str raised RuntimeError)"),
        (ValueError(10**5000), "ValueError: (its text cannot be shown: str raised ValueError)"),
        (noted(ValueError("x"), ["\ud83d", Silent()]), "ValueError: x"),
    ],
)
def test_any_exception_becomes_a_message(error: Exception, words: str) -> None:
    found = message_of(error)
    assert found.message == words
    assert found.traceback
    assert type(found).FromString(found.SerializeToString()) == found


def test_the_failure_of_a_task_names_its_component_whatever_the_exception_is() -> None:
    assert "task 3 of component 'bolt' failed: Silent" in str(TaskFailedError("bolt", 3, Silent()))


def test_the_failure_says_what_happens_and_what_to_do_unless_the_error_does() -> None:
    failed = TaskFailedError("bolt", 3, ValueError("no"), "fail the tuple")
    start = "task 3 of component 'bolt' failed: ValueError: no"
    assert str(failed) == (
        f"{start}; this ends the run, and on a cluster the worker, which is restarted: fail the tuple"
    )
    launch = LaunchFile("t-1", "w", "s", "here:1", "here", 1, "here", 0, "/b", None, {})
    found = component_error(launch, "bolt", 3, ValueError("no"), failed.on_cluster)
    assert found.message == "ValueError: no; the worker ends and is restarted: fail the tuple"
    assert str(TaskFailedError("bolt", 3, ValueError("no"))).endswith("the worker, which is restarted")
    for own in (TaskFailedError("bolt", 3, UsageError("use it so")), TaskFailedError("__system", 0, OSError("full"))):
        assert ";" not in str(own) and own.on_cluster == ""
