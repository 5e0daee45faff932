"""The verdict on a cluster, fault by fault."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from assessment_facts import ACKERS, SUPERVISORS, kinds, topology, verdict

from tupletree._health.assessment import DEATHS, Verdict, judge, unreachable
from tupletree._health.errors import Complaint
from tupletree._health.facts import AckerFacts, SupervisorFacts
from tupletree.v1 import supervisor_pb2
from tupletree.v1 import topology_pb2 as pb


def test_nothing_wrong_is_healthy() -> None:
    assert verdict(topology()) == Verdict("healthy", ())


def test_one_sick_acker_is_degraded_and_all_of_them_is_down() -> None:
    well, sick = ACKERS[0], AckerFacts("a1", "h:6641", is_ready=False, reasons=["zookeeper: connecting"])
    found = verdict(topology(), ackers=(well, sick))
    assert (found.status, kinds(found)) == ("degraded", ["acker.not_ready"])
    assert found.faults[0].sentence == "acker a1 at h:6641 is not ready: zookeeper: connecting"
    found = verdict(topology(), ackers=(AckerFacts("a0", "h:6640", "cannot be reached: connection refused"), sick))
    assert (found.status, kinds(found)) == ("down", ["acker.none_ready", "acker.unreachable", "acker.not_ready"])
    assert found.faults[1].sentence == "acker a0 at h:6640 is not ready: cannot be reached: connection refused"
    assert verdict(ackers=()).status == "down"


def test_an_acker_that_drains_is_worth_a_note() -> None:
    found = verdict(ackers=(ACKERS[0], AckerFacts("a1", "h:6641", is_draining=True)))
    assert (found.status, kinds(found), [one.kind for one in found.notes]) == ("healthy", [], ["acker.draining"])


def test_installations_that_are_not_compiled_are_worth_one_note_with_the_cost() -> None:
    why = "plain Python (nothing was compiled)"
    supervisors = (*SUPERVISORS, SupervisorFacts("s1", "h", "h:6629", not_compiled=why))
    found = verdict(ackers=(AckerFacts("a0", "h:6640", not_compiled=why),), supervisors=supervisors)
    assert (found.status, [one.kind for one in found.notes]) == ("healthy", ["installation.not_compiled"])
    assert found.notes[0].sentence == (
        "s1 at h:6629 and 1 more: the installation runs plain Python (nothing was compiled): each tuple takes about "
        "three times as much processor time as compiled; install a wheel for this platform, or a C compiler before "
        "Tupletree"
    )


def test_tuples_that_are_dropped_as_late_degrade_a_topology_as_long_as_more_are_dropped() -> None:
    late = [{"kind": "late", "dropped": number, "newest_age_s": age_s} for number, age_s in ((1024, 3.2), (500, 600.0))]
    found = verdict(topology(statuses=late))
    assert (found.status, kinds(found)) == ("degraded", ["tuples.late"])
    assert found.faults[0].sentence == (
        "topology 'words', c: 1,524 tuples were dropped as late so far, the newest 3 s ago: raise max_lag, or name a "
        "late_stream"
    )
    assert verdict(topology(statuses=late[1:])).status == "healthy", "none for ten minutes"
    assert verdict(topology(statuses=[{"kind": "late"}])).faults[0].sentence.startswith("topology 'words', c: 0 tuples")


def test_without_a_supervisor_it_is_down() -> None:
    found = verdict(supervisors=())
    assert (found.status, kinds(found)) == ("down", ["supervisor.none"])
    found = verdict(supervisors=(SupervisorFacts("s0", "h", "h:6628", "cannot be reached: connection refused"),))
    assert (found.status, kinds(found)) == ("degraded", ["supervisor.unreachable"])


def slots(**fields: Any) -> tuple[SupervisorFacts, ...]:
    slot = supervisor_pb2.SlotSummary(port=6700, topology_id="words-1", **fields)
    return (SupervisorFacts("s0", "h", "h:6628", "", [slot]),)


def test_a_crash_loop_names_topology_worker_and_how_it_ended() -> None:
    found = verdict(topology(), supervisors=slots(deaths=DEATHS, last_exit="exit status 1: KeyError: 'x'"))
    assert kinds(found) == ["worker.crash_loop"]
    assert found.faults[0].sentence == (
        "topology 'words': its worker at h:6700 died 3 times in a row: exit status 1: KeyError: 'x'"
    )
    assert (found.faults[0].topology_id, found.faults[0].command) == ("words-1", "tupletree errors words")
    assert verdict(topology(), supervisors=slots(deaths=DEATHS - 1)).status == "healthy"
    assert kinds(verdict(topology(), supervisors=slots(misses=1))) == ["worker.no_bundle"]


def test_nothing_is_said_of_a_topology_that_one_may_not_see() -> None:
    assert verdict(supervisors=slots(deaths=DEATHS, misses=1)) == Verdict("healthy", ())


def test_an_absent_nimbus_is_worth_a_warning() -> None:
    found = verdict(absent=("n2:6627",))
    assert found.status == "healthy"
    assert [one.sentence for one in found.notes] == ["no nimbus is registered at n2:6627, which nimbus.seeds names"]


def test_a_record_that_cannot_be_read_is_a_fault() -> None:
    found = judge(ACKERS, SUPERVISORS, (), (), {"words-1-5": "ZooKeeper's /a does not hold it."})
    assert (found.status, kinds(found)) == ("degraded", ["topology.unreadable"])
    assert found.faults[0].sentence == "topology words-1-5: ZooKeeper's /a does not hold it."


def test_what_was_lately_is_worth_a_warning_and_no_fault() -> None:
    figures = {"is_spout": True, "failed": 12, "timeouts": 3}
    found = verdict(topology(figures=figures))
    assert (found.status, found.faults) == ("healthy", ())
    [note] = found.notes
    assert (note.severity, note.kind, note.subject, note.component) == ("warning", "trees.failed", "words", "c")
    assert note.sentence == "topology 'words', c: 12 tuple trees failed in the last ten minutes, 3 by timeout"
    busy = verdict(topology(figures={"failed": 1, "acked": 90, "capacity": 0.95, "is_congested": True}))
    assert [one.kind for one in busy.notes] == ["tuples.failed", "component.saturated", "component.congested"]
    assert busy.notes[0].sentence == "topology 'words', c: 1 tuple failed in the last ten minutes"
    assert busy.notes[1].sentence.endswith("is busy 95% of the time; add executors")
    assert busy.notes[1].command == "tupletree describe words"
    failing = verdict(topology(figures={"failed": 90, "acked": 1, "capacity": 0.95}))
    assert failing.notes[1].sentence == (
        "topology 'words', c: its busiest executor is busy 95% of the time; most of its tuples fail, with more "
        "executors, too: mend what its errors or the dead letters show"
    )
    assert failing.notes[1].command == "tupletree errors words"
    only_failing = verdict(topology(figures={"failed": 90, "acked": 0, "capacity": 0.95}))
    assert "; all of its tuples fail, with more executors, too: mend" in only_failing.notes[1].sentence
    assert verdict(topology(figures={"capacity": 0.89})).notes == ()


def test_the_newest_error_of_a_component_is_told_unless_it_is_over() -> None:
    def complaint(message: str, count: int = 1, is_over: bool = False) -> Complaint:
        error = pb.ComponentError(component_id="c", message=message)
        return Complaint(error, count, 0.0, (3,), ("h:6700",), is_over)

    found = verdict(topology(complaints=[complaint("Value\x1bError: x", 4), complaint("older")]))
    assert found.status == "healthy"
    assert [one.sentence for one in found.notes] == [
        "topology 'words', c: reported an error 4 times: Value\\x1bError: x"
    ]
    assert verdict(topology(complaints=[complaint("x", is_over=True)])).notes == ()


def test_missing_workers() -> None:
    assert kinds(verdict(topology(ready=1))) == ["topology.workers_not_ready"]
    assert verdict(topology(ready=0, used=0)).faults[0].sentence == "topology 'words' has no worker"
    assert kinds(verdict(topology(ready=0, unscheduled="2 slots are missing"))) == ["topology.unscheduled"]
    found = verdict(topology(ready=1, uptime_s=5.0))
    assert (found.status, found.notes[0].kind) == ("healthy", "topology.starting"), "it has only just been submitted"


def test_only_what_was_just_submitted_is_said_to_be() -> None:
    submitted = verdict(topology(ready=1, uptime_s=5.0))
    assert [one.sentence for one in submitted.notes] == [
        "topology 'words' has 1 of 2 workers ready: it was just submitted"
    ]
    moved = verdict(replace(topology(ready=1, uptime_s=5.0), has_moved=True))
    assert [one.sentence for one in moved.notes] == [
        "topology 'words' has 1 of 2 workers ready: its workers were just moved"
    ]
    dying = verdict(topology(ready=1, uptime_s=5.0), supervisors=slots(deaths=2))
    assert (dying.status, [one.sentence for one in dying.faults]) == (
        "degraded",
        ["topology 'words' has 1 of 2 workers ready: a worker died 2 times in a row"],
    )
    assert dying.faults[0].command == "tupletree errors words"


def test_workers_that_executors_do_not_suffice_for_are_worth_a_note() -> None:
    facts = replace(topology(), executors=2)
    facts.record.workers = 9
    found = verdict(facts)
    assert (found.status, [one.sentence for one in found.notes]) == (
        "healthy",
        ["topology 'words' can use 2 of the 9 workers that it asks for: it has 2 executors"],
    )


def test_what_somebody_wanted_is_a_note() -> None:
    for status, kind in (
        (pb.TOPOLOGY_STATUS_KILLED, "topology.killed"),
        (pb.TOPOLOGY_STATUS_REBALANCING, "topology.rebalancing"),
    ):
        found = verdict(topology(ready=0, status=status))
        assert (found.status, [(one.severity, one.kind) for one in found.notes]) == ("healthy", [("note", kind)])
    found = verdict(topology(ready=1, status=pb.TOPOLOGY_STATUS_INACTIVE))
    assert kinds(found) == ["topology.workers_not_ready"]
    assert [one.kind for one in found.notes] == ["topology.inactive"]


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        ({"kind": "pipeline", "state": "stopped", "reason": "no\x1b such\ntable"}, "pipeline.stopped"),
        ({"kind": "pipeline", "state": "running", "batches": [{"age_s": 1}, {"age_s": 61}]}, "commit.stalled"),
        ({"kind": "coordinator", "state": "running", "active": [{"age_s": 90}]}, "commit.stalled"),
        ({"kind": "coordinator", "state": "running", "active": [{"age_s": 1}], "failures": 3}, "commit.failing"),
        ({"kind": "coordinator", "state": "deposed"}, "commit.deposed"),
        ({"kind": "checkpoint", "state": "running", "step": "prepare", "step_age_s": 75.2}, "checkpoint.stalled"),
        ({"kind": "checkpoint", "state": "running", "failures": 4}, "checkpoint.failing"),
        ({"kind": "checkpoint", "state": "stands still"}, "checkpoint.deposed"),
        ({"kind": "checkpoint", "state": "refused", "reason": "4 tasks, not\n2"}, "checkpoint.refused"),
    ],
)
def test_commits_and_checkpoints_that_do_not_get_on(status: dict[str, Any], kind: str) -> None:
    found = verdict(topology(statuses=[status]))
    assert (found.status, kinds(found)) == ("degraded", [kind])
    assert found.faults[0].sentence.startswith("topology 'words', c[3]: ")
    assert found.faults[0].sentence.isprintable()


@pytest.mark.parametrize("status", [{"kind": "log", "log": "files"}, {"stream": "wss://a"}])
def test_a_log_or_a_stream_that_is_away_is_a_fault(status: dict[str, Any]) -> None:
    assert kinds(verdict(topology(statuses=[{**status, "connected": False, "error": "lost"}]))) == ["source.away"]
    assert kinds(verdict(topology(statuses=[{**status, "connected": True}]))) == []


def test_a_source_of_which_a_part_cannot_be_read_is_a_fault_though_it_is_connected() -> None:
    status = {"kind": "log", "log": "files", "connected": True, "lag": 0}
    found = verdict(topology(statuses=[{**status, "error": "file a: gone"}, status]))
    assert (found.status, kinds(found)) == ("degraded", ["source.refused"])
    assert found.faults[0].sentence.endswith(
        ", c: 1 of 2 tasks is connected and cannot read all of files: file a: gone"
    )


def test_a_queue_that_is_away_is_one_fault_of_its_spout() -> None:
    here = {"kind": "queue", "queue": "RabbitMQ", "connected": True, "outstanding": 3, "lag": 7}
    away = {"kind": "queue", "queue": "RabbitMQ", "connected": False, "lag": None, "error": "OSError: no\nroute"}
    found = verdict(topology(statuses=[away, here, away]))
    assert (found.status, kinds(found)) == ("degraded", ["source.away"])
    assert (
        found.faults[0].sentence == "topology 'words', c: 2 of 3 tasks are not connected to RabbitMQ: OSError: no route"
    )
    assert (found.faults[0].component, found.faults[0].command) == ("c", "tupletree describe words")
    assert verdict(topology(statuses=[here, here])).status == "healthy"
    log = {"kind": "log", "log": "Kafka", "connected": False, "error": "OSError: no"}
    assert "1 of 1 task is not connected to Kafka: " in verdict(topology(statuses=[log])).faults[0].sentence


@pytest.mark.parametrize(
    "status",
    [
        {"kind": "queue", "connected": False, "error": ""},  # connects for the first time
        {"kind": "queue", "connected": "no", "error": ["much"], "queue": 7},
        {"kind": "pipeline", "state": "running", "batches": [{"age_s": 59}]},
        {"kind": "coordinator", "state": "running", "active": [], "failures": 2},
        {"kind": "checkpoint", "state": "running", "step": None, "step_age_s": None, "failures": 0},
        {"kind": "checkpoint", "step_age_s": "long", "failures": {"a": 1}},
        {"kind": "coordinator", "active": "many", "failures": True},
        {"kind": "pipeline", "batches": [1, None, {"age_s": []}]},
        {"kind": ["pipeline"]},
        {"kind": "mine", "age_s": 1e9},
        "not json",
    ],
)
def test_what_gets_on_or_makes_no_sense_is_no_fault(status: Any) -> None:
    assert verdict(topology(statuses=[status])).status == "healthy"


@pytest.mark.parametrize(
    ("status", "kind", "what"),
    [
        (
            {"kind": "coordinator", "active": [{"txid": 7, "failures": 2}]},
            "commit.retried",
            "transaction 7 failed 2 times",
        ),
        (
            {"kind": "pipeline", "batches": [{"txid": 8, "failures": 1}]},
            "commit.retried",
            "transaction 8 failed 1 time",
        ),
        (
            {"kind": "coordinator", "lag": {"error": "no such\ntopic"}},
            "lag.unknown",
            "its lag behind its source is unknown: no such topic",
        ),
        (
            {"kind": "checkpoint", "is_recovering": True},
            "checkpoint.recovering",
            "the states are recovering from their last checkpoint",
        ),
    ],
)
def test_what_a_task_says_may_be_worth_a_note(status: Any, kind: str, what: str) -> None:
    found = verdict(topology(statuses=[status]))
    assert (found.status, [one.kind for one in found.notes]) == ("healthy", [kind])
    assert found.notes[0].sentence == f"topology 'words', c[3]: {what}"


def test_a_state_that_does_not_fit_is_said_in_full_and_nothing_else_is_blamed() -> None:
    reason = f"component 'totals' has 4 tasks, and the stored checkpoint was taken with 2: {'long ' * 60}end"
    status = {"kind": "checkpoint", "state": "refused", "reason": reason, "is_recovering": True}
    error = pb.ComponentError(component_id="c", message=reason)
    found = verdict(topology(statuses=[status], complaints=[Complaint(error, 1, 0.0, (3,), ("h:6700",), False)]))
    assert [one.sentence for one in found.faults] == [
        f"topology 'words', c[3]: no checkpoint is taken and nothing is acked: {reason}"
    ]
    assert [one.sentence for one in found.notes] == [f"topology 'words', c: reported an error: {reason}"]


def test_a_longer_message_timeout_makes_a_longer_patience() -> None:
    slow = {"kind": "coordinator", "state": "running", "active": [{"age_s": 90}]}
    assert verdict(topology(statuses=[slow], conf={"topology.message.timeout.secs": 60})).status == "healthy"


def test_who_cannot_be_asked_is_down() -> None:
    found = unreachable("nimbus at h:6627 is not reachable")
    assert (found.status, found.faults[0].sentence) == ("down", "nimbus at h:6627 is not reachable")
    assert found.faults[0].command == "tupletree doctor"


def test_a_component_that_gets_nothing_done_is_a_fault() -> None:
    (fault,) = verdict(topology(figures={"stuck": 1, "stuck_s": 75.4})).faults
    assert fault.kind == "component.stuck"
    assert fault.sentence == "topology 'words', c: 1 task executed nothing for 75 s although tuples wait"
    assert fault.command == "tupletree profile words PORT --stacks"
    (fault,) = verdict(topology(figures={"stuck": 1, "stuck_s": 75.4, "port": 6701})).faults
    assert fault.command == "tupletree profile words 6701 --stacks"


def test_a_bolt_that_acks_nothing_is_named_with_a_command_that_shows_it() -> None:
    figures = {"remark": "has executed 10,600 tuples and acked none: does execute call self.collector.ack?"}
    found = verdict(topology(figures=figures))
    (note,) = found.notes
    assert (found.status, note.severity, note.kind) == ("healthy", "warning", "component.never_acks")
    assert note.sentence == f"topology 'words', c: {figures['remark']}"
    assert (note.command, note.component) == ("tupletree describe words", "c")
    (fault,) = verdict(topology(figures={**figures, "is_timing_out": True})).faults
    assert (fault.severity, fault.kind) == ("degraded", "component.never_acks")


def test_a_component_that_blocks_gets_advice_and_is_no_fault() -> None:
    advice = "blocks: 1 of 2 executors has a thread of its own; set blocking = True on the component"
    found = verdict(topology(figures={"blocks": advice}))
    (note,) = found.notes
    assert (found.status, note.severity, note.kind, note.component) == ("healthy", "note", "component.blocks", "c")
    assert note.sentence == f"topology 'words', c: {advice}"


def test_a_call_that_does_not_end_comes_with_the_port_of_its_worker() -> None:
    figures = {"long_call": "task 3 has been in one call of its code for 14 s although tuples wait", "port": 6701}
    (note,) = verdict(topology(figures=figures)).notes
    assert (note.kind, note.command) == ("component.long_call", "tupletree profile words 6701 --stacks")
    stuck = verdict(topology(figures={**figures, "stuck": 1, "stuck_s": 75.4}))
    assert [one.kind for one in (*stuck.faults, *stuck.notes)] == ["component.stuck"]


def test_messages_that_a_spout_gave_up_are_counted() -> None:
    figures = {"is_spout": True, "failed": 10, "unheard": 10}
    failed, given_up = verdict(topology(figures=figures)).notes
    assert failed.kind == "trees.failed"
    assert given_up.kind == "trees.given_up"
    assert given_up.sentence == "topology 'words', c: 10 failed messages given up: the spout does not override fail"


def test_a_spout_none_of_whose_trees_is_acked_is_at_fault() -> None:
    figures = {"is_spout": True, "unacked": 2412, "unacked_s": 95.0}
    (fault,) = verdict(topology(figures=figures)).faults
    assert fault.kind == "trees.none_acked"
    assert fault.sentence == "topology 'words', c: no tuple tree was acked for 95 s, and 2412 failed"
    assert fault.command == "tupletree trace words --failed --for 45"
    assert verdict(topology(figures={**figures, "is_spout": False})).status == "healthy"
