"""The notifiers of actions: told in order, each on a thread of its own, and never in the way of an action."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tupletree._security.guard import caller
from tupletree._security.rights import Principal
from tupletree.errors import ConfigError
from tupletree.hooks import ActionNotifier, TopologyAction
from tupletree.nimbus import action_notifiers
from tupletree.nimbus.action_notifiers import ActionNotifiers
from tupletree.nimbus.conf_changes import SetConf
from tupletree.nimbus.debug_settings import SetSampling
from tupletree.nimbus.leader import lifecycle
from tupletree.nimbus.updates import Rollback
from tupletree.testing import wait_until
from tupletree.v1 import topology_pb2 as pb

RECORD = pb.TopologyRecord(
    id="words-1-5",
    name="words",
    owner="ada",
    conf_json='{"topology.workers": 2, "db.password": "secret"}',
    tasks={"split": 3, "$checkpoint": 1},
)


class Notes(ActionNotifier):
    """Notes its calls; raises in those that are named. Waits in ``prepare`` for ``may_begin``."""

    def __init__(self, *fails: str) -> None:
        self.fails = fails
        self.calls: list[Any] = []
        self.may_begin = threading.Event()
        self.may_begin.set()

    def prepare(self, conf: Any) -> None:
        self.may_begin.wait()
        self._note("prepare", conf)

    def notify(self, action: TopologyAction) -> None:
        self._note("notify", action)

    def close(self) -> None:
        self._note("close", None)

    def _note(self, name: str, value: Any) -> None:
        self.calls.append((name, value))
        if name in self.fails:
            raise ValueError(f"no {name}")

    @property
    def actions(self) -> list[str]:
        return [value.action for name, value in self.calls if name == "notify"]


@pytest.fixture
def as_ada() -> Iterator[None]:
    token = caller.set(Principal("ada", "user", frozenset({"submit"})))
    yield
    caller.reset(token)


def test_an_action_says_who_did_what_to_which_topology(as_ada: None) -> None:
    notes = Notes()
    notifiers = ActionNotifiers([notes], {"nimbus.port": 1})
    notifiers.open()
    notifiers.put("submit", RECORD)
    notifiers.close()
    assert [name for name, _ in notes.calls] == ["prepare", "notify", "close"]
    assert notes.calls[0][1] == {"nimbus.port": 1}
    told = notes.calls[1][1]
    assert told.at_unix_s > 0
    assert told._replace(at_unix_s=0.0) == TopologyAction(
        0.0, "submit", "words", "words-1-5", "ada", "ada", {"topology.workers": 2, "db.password": "*****"}, {"split": 3}
    )


def test_each_request_that_changes_what_runs_is_an_action() -> None:
    notes = Notes()
    notifiers = ActionNotifiers([notes], {})
    notifiers.open()
    for request in (
        lifecycle.Kill(None),
        lifecycle.Activate(),
        lifecycle.Deactivate(),
        lifecycle.Rebalance(None, 2, {}),
        lifecycle.Autoscale(RECORD, pb.AutoscaleChange()),
        SetConf("{}", [], None),
        Rollback(None),
        SetSampling("split", 5.0, 0.0),
    ):
        notifiers.changed(request, RECORD)
    notifiers.close()
    assert notes.actions == ["kill", "activate", "deactivate", "rebalance", "autoscale", "set_conf", "rollback"]
    assert {value.user for name, value in notes.calls if name == "notify"} == {""}  # tokens are disabled


def test_an_error_is_logged_and_the_others_are_told(caplog: pytest.LogCaptureFixture) -> None:
    bad, unprepared, good = Notes("notify", "close"), Notes("prepare"), Notes()
    notifiers = ActionNotifiers([bad, unprepared, good], {})
    with caplog.at_level(logging.ERROR):
        notifiers.open()
        notifiers.put("submit", RECORD)
        notifiers.put("kill", RECORD)
        notifiers.close()
    assert bad.actions == good.actions == ["submit", "kill"]
    assert [name for name, _ in unprepared.calls] == ["prepare"]
    assert [record.levelname for record in caplog.records] == ["ERROR"] * 4
    assert "action_notifier.failed" in caplog.text and "no prepare" in caplog.text and "no notify" in caplog.text


def test_a_slow_notifier_stops_no_action(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(action_notifiers, "MAX_WAITING", 3)
    slow = Notes()
    slow.may_begin.clear()
    notifiers = ActionNotifiers([slow], {})
    notifiers.open()
    for _ in range(5):
        notifiers.put("activate", RECORD)
    with caplog.at_level(logging.WARNING):
        slow.may_begin.set()
        notifiers.close()
    assert len(slow.actions) == 3
    assert "action_notifiers.behind" in caplog.text and "of=Notes" in caplog.text and "left_out=2" in caplog.text


def test_a_slow_notifier_delays_no_other() -> None:
    slow, quick = Notes(), Notes()
    slow.may_begin.clear()
    notifiers = ActionNotifiers([slow, quick], {})
    notifiers.open()
    notifiers.put("submit", RECORD)
    notifiers.put("kill", RECORD)
    wait_until(lambda: quick.actions == ["submit", "kill"], 10, what="the quick notifier is told")
    assert slow.calls == []
    slow.may_begin.set()
    notifiers.close()
    assert slow.actions == quick.actions and slow.calls[-1] == quick.calls[-1] == ("close", None)


def test_there_is_no_thread_without_notifiers() -> None:
    before = threading.active_count()
    notifiers = ActionNotifiers.named({"nimbus.topology.action.notifiers": None})
    notifiers.open()
    notifiers.put("submit", RECORD)
    notifiers.close()
    assert threading.active_count() == before


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("no.such:Class", r"nimbus.topology.action.notifiers: 'no.such:Class' cannot be imported"),
        ("json:dumps", r"'json:dumps' is not a class that extends tupletree.hooks.ActionNotifier"),
    ],
)
def test_a_class_that_cannot_be_made_is_refused_at_the_start(name: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        ActionNotifiers.named({"nimbus.topology.action.notifiers": [name]})
