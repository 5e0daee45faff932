"""What a worker reads from its components besides tuples: statuses for its report, figures for its /metrics."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from local_components import Do
from prometheus_client import CollectorRegistry, generate_latest

from tupletree import TopologyBuilder
from tupletree.component import TopologyContext
from tupletree.testing import FeederSpout, LocalCluster
from tupletree.worker.engine import Engine
from tupletree.worker.reporting.metrics import add_tasks
from tupletree.worker.reporting.task_statuses import TaskStatusReader


@contextmanager
def running() -> Iterator[tuple[Engine, TopologyContext]]:
    """The engine of a topology with a bolt, and what the bolt knows of itself: task 1."""
    builder = TopologyBuilder()
    builder.set_spout("spout", FeederSpout(["n"]))
    builder.set_bolt("bolt", Do()).shuffle_grouping("spout")
    with LocalCluster() as cluster:
        cluster.submit("t", builder.create_topology())
        engine = cluster._find("t").engine
        yield engine, next(one for one in engine.executors if one.component_id == "bolt").tasks[0].context


def read(engine: Engine) -> dict[int, Any]:
    found = asyncio.run(TaskStatusReader(engine).read())
    return {one.task_id: json.loads(one.status_json) for one in found}


def test_a_status_is_read_anew_for_each_report() -> None:
    calls: list[str] = []

    def status() -> dict[str, Any]:
        calls.append(threading.current_thread().name)
        return {"calls": len(calls)}

    with running() as (engine, context):
        context.register_status(status)
        assert [read(engine), read(engine)] == [{1: {"calls": 1}}, {1: {"calls": 2}}]
    assert set(calls) == {"statuses"}


def test_nobody_is_asked_who_registered_nothing() -> None:
    with running() as (engine, _):
        assert read(engine) == {}


def test_a_status_function_that_raises_is_shown_as_an_error() -> None:
    with running() as (engine, context):
        context.register_status(lambda: 1 / 0)
        assert read(engine) == {1: {"error": "ZeroDivisionError: division by zero"}}


def test_a_status_function_that_hangs_costs_its_status_only_and_is_not_called_again_meanwhile() -> None:
    called: list[int] = []
    goes_on = threading.Event()

    def hangs() -> dict[str, Any]:
        called.append(1)
        goes_on.wait(30)
        return {"goes": "on"}

    async def scenario(engine: Engine) -> None:
        reader = TaskStatusReader(engine)
        for _ in range(2):
            [one] = await reader.read()
            assert "has not returned for" in json.loads(one.status_json)["error"]
        assert len(called) == 1
        goes_on.set()
        while json.loads((await reader.read())[0].status_json) != {"goes": "on"}:
            pass

    with running() as (engine, context):
        context.register_status(hangs)
        asyncio.run(asyncio.wait_for(scenario(engine), 30))


def test_a_metric_that_raises_is_left_out_said_once_and_leaves_the_others(caplog: pytest.LogCaptureFixture) -> None:
    with running() as (engine, context), caplog.at_level(logging.WARNING):
        context.register_metric("broken", lambda: 1 / 0)
        context.register_metric("none", lambda: None)
        context.register_metric("good", lambda: 7)
        metrics = CollectorRegistry()
        add_tasks(metrics, engine, "t")
        shown = [generate_latest(metrics).decode() for _ in range(2)][1]
    assert 'tupletree_user_good{component="bolt",task="1",topology="t"} 7.0' in shown
    assert "tupletree_user_broken{" not in shown
    assert "tupletree_worker_executed_tuples_total" in shown
    broken = [record.getMessage() for record in caplog.records if "metric.broken" in record.getMessage()]
    assert len(broken) == 2
    assert "component=bolt task=1 metric=tupletree_user_broken" in broken[0]
    assert "ZeroDivisionError" in broken[0]
