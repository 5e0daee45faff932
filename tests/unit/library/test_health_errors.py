"""Errors of a topology, folded, and which of them are over."""

from __future__ import annotations

from typing import Any

from tupletree._health.errors import QUIET_S, RESTARTED_S, Complaint, complaints, latest_of_each
from tupletree.v1 import nimbus_pb2
from tupletree.v1 import topology_pb2 as pb

NOW_S = 10_000.0
TASKS = {"split": range(1, 3), "words": range(3, 4)}


def error(age_s: float, message: str = "KeyError: 'x'", **fields: Any) -> pb.ComponentError:
    given = {"component_id": "split", "task_id": 1, "host": "h", "port": 6700, **fields}
    return pb.ComponentError(message=message, at_unix_s=NOW_S - age_s, **given)


def worker(uptime_s: float = 5000.0, ready: bool = True, port: int = 6700, tasks: Any = (1, 2)) -> Any:
    return nimbus_pb2.WorkerSummary(host="h", port=port, ready=ready, uptime_s=uptime_s, tasks=tasks)


def folded(*errors: pb.ComponentError, workers: Any = (), component: str | None = None) -> list[Complaint]:
    return complaints(errors, TASKS, workers, NOW_S, component)


def test_errors_of_a_component_that_say_the_same_are_one() -> None:
    found = folded(error(5, task_id=2, port=6701), error(9), error(7, "other"), error(8, component_id="words"))
    assert [(one.latest.component_id, one.latest.message, one.count) for one in found] == [
        ("split", "KeyError: 'x'", 2),
        ("split", "other", 1),
        ("words", "KeyError: 'x'", 1),
    ]
    first = found[0]
    assert (first.latest.task_id, first.first_unix_s, first.tasks) == (2, NOW_S - 9, (1, 2))
    assert first.places == ("h:6700", "h:6701")
    assert [one.latest.component_id for one in latest_of_each(found)] == ["split", "words"]
    assert [one.count for one in folded(error(5), error(8, component_id="words"), component="words")] == [1]
    assert folded() == []


def test_an_error_that_is_counted_where_it_comes_from_came_as_often_as_is_said_there() -> None:
    def death(age_s: float, count: int, port: int = 6700, first_s: float = 60.0) -> pb.ComponentError:
        return error(age_s, "died", port=port, count=count, first_unix_s=NOW_S - first_s)

    (one,) = folded(death(5, 3))
    assert (one.count, one.first_unix_s) == (3, NOW_S - 60)
    (one,) = folded(death(5, 3), death(17, 2), death(7, 4, port=6701, first_s=90.0), error(1, "died"))
    assert (one.count, one.first_unix_s) == (3 + 4 + 1, NOW_S - 90), "an older count of the same is not added"


def test_an_error_is_over_when_its_component_is_healthy_since() -> None:
    def is_over(age_s: float, *workers: Any) -> bool:
        return folded(error(age_s), workers=workers)[0].is_over

    assert not is_over(QUIET_S - 1, worker())
    assert is_over(QUIET_S, worker())
    assert is_over(RESTARTED_S + 1, worker(RESTARTED_S)), "its worker was started again after it"
    assert not is_over(RESTARTED_S + 9, worker(RESTARTED_S - 1)), "a supervisor may still count its deaths"
    assert not is_over(RESTARTED_S, worker(), worker(1.0, port=6701)), "another worker was"
    assert not is_over(QUIET_S, worker(), worker(ready=False, port=6701))
    assert is_over(QUIET_S, worker(), worker(ready=False, port=6701, tasks=[3])), "that one runs other components"
    assert not is_over(QUIET_S)
