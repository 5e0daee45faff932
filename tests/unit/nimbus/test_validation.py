"""What nimbus refuses before it takes a single byte, and the record of what it accepts."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tupletree.config import defaults
from tupletree.errors import ConfigError, NameInUseError, TopologyError, UsageError
from tupletree.nimbus.leader import lifecycle
from tupletree.nimbus.submission.validation import (
    check_header,
    check_name,
    check_unreadable,
    new_record,
    topology_id,
    without_objects,
)
from tupletree.v1 import nimbus_pb2 as rpc
from tupletree.v1 import topology_pb2 as pb


def header(**changes: Any) -> rpc.SubmitHeader:
    spec = pb.TopologySpec()
    split = spec.components.add(id="split", kind=pb.COMPONENT_KIND_BOLT, parallelism=2, tasks=4)
    split.inputs.add(source="words", stream="default", grouping=pb.GROUPING_KIND_FIELDS, fields=["word"])
    words = spec.components.add(id="words", kind=pb.COMPONENT_KIND_SPOUT, parallelism=1, tasks=1)
    words.outputs.add(id="default", fields=["word", "count"])
    words.outputs.add(id="orders", fields=["order"], direct=True)
    one = rpc.SubmitHeader(name="wc", sha256="ab" * 32, size=10, conf_json="{}", spec=spec)
    for name, value in changes.items():
        setattr(one, name, value)
    return one


def check(one: rpc.SubmitHeader) -> None:
    check_header(one, 1000)


def test_a_good_header_passes() -> None:
    check(header())


@pytest.mark.parametrize("name", ["", "a/b", "a.b", "a:b", "a\\b", "a b", "é", "x" * 200])
def test_a_bad_name_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="topology name"):
        check(header(name=name))


def test_a_name_in_use_is_refused() -> None:
    records = [pb.TopologyRecord(name="mine"), pb.TopologyRecord(name="other", status=pb.TOPOLOGY_STATUS_ACTIVE)]
    with pytest.raises(NameInUseError, match="'other' exists already; kill it first"):
        check_name("other", records, 100.0)
    check_name("another", records, 100.0)


@pytest.mark.parametrize(("due_unix_s", "left"), [(130.0, "30 s"), (100.2, "1 s"), (90.0, "1 s")])
def test_the_name_of_a_topology_that_is_still_ending_says_when_it_is_gone(due_unix_s: float, left: str) -> None:
    killed = pb.TopologyRecord(name="wc", status=pb.TOPOLOGY_STATUS_KILLED)
    killed.pending.due_unix_s = due_unix_s
    with pytest.raises(NameInUseError, match=f"'wc' was killed and is still ending.*in {left} at the latest"):
        check_name("wc", [killed], 100.0)


@pytest.mark.parametrize(
    ("changes", "kind", "sentence"),
    [
        ({"sha256": "AB" * 32}, UsageError, "64 hexadecimal digits"),
        ({"size": 0}, UsageError, "0 bytes"),
        ({"size": 1001}, UsageError, "the cluster accepts 1 to 1000"),
        ({"conf_json": "["}, UsageError, "is not JSON"),
        ({"conf_json": "[]"}, UsageError, "not a JSON object"),
        ({"conf_json": '{"topology.wokers": 1}'}, ConfigError, r"did you mean 'topology\.workers'"),
    ],
)
def test_a_bad_field_is_refused(changes: dict[str, Any], kind: type[UsageError], sentence: str) -> None:
    with pytest.raises(kind, match=sentence):
        check(header(**changes))


def bad(change: Callable[[pb.ComponentSpec, pb.ComponentSpec], object]) -> rpc.SubmitHeader:
    one = header()
    change(one.spec.components[0], one.spec.components[1])
    return one


@pytest.mark.parametrize(
    ("change", "component", "sentence"),
    [
        (lambda split, words: setattr(split, "id", "words"), "words", "used twice"),
        (lambda split, words: setattr(split, "id", "z"), "", "ascending order"),
        (lambda split, words: setattr(split, "id", "a/b"), "a/b", "characters without '/'"),
        (lambda split, words: setattr(words, "kind", pb.COMPONENT_KIND_BOLT), "", "no spout"),
        (lambda split, words: setattr(split, "kind", pb.COMPONENT_KIND_UNSPECIFIED), "split", "neither"),
        (lambda split, words: setattr(split, "kind", pb.COMPONENT_KIND_SPOUT), "split", "a spout has no inputs"),
        (lambda split, words: setattr(split, "parallelism", 0), "split", "at least one executor"),
        (lambda split, words: setattr(split, "tasks", 1), "split", "1 tasks cannot occupy 2 executors"),
        (lambda split, words: setattr(split, "conf_json", "x"), "", "of component 'split' is not JSON"),
        (lambda split, words: setattr(split, "conf_json", '{"topology.workers": 1}'), "split", "for one component"),
        (lambda split, words: setattr(split.inputs[0], "source", "none"), "split", "'none', which does not exist"),
        (lambda split, words: setattr(split.inputs[0], "stream", "none"), "split", "stream 'none'"),
        (lambda split, words: split.inputs[0].fields.append("none"), "split", "none"),
        (lambda split, words: setattr(split.inputs[0], "grouping", 77), "split", "no known grouping"),
        (lambda split, words: setattr(split.inputs[0], "stream", "orders"), "split", "direct"),
        (lambda split, words: words.outputs.add(id="default"), "words", "declared twice"),
        (lambda split, words: words.outputs[0].fields.append("word"), "words", "a field twice"),
    ],
)
def test_a_spec_that_cannot_run_is_refused_by_component(
    change: Callable[[pb.ComponentSpec, pb.ComponentSpec], object], component: str, sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence) as raised:
        check(bad(change))
    if component:
        assert isinstance(raised.value, TopologyError)
        assert raised.value.component == component


AWKWARD = ["", "a\nb", "a\0b", "\x9b31m", "x" * 201, "x" * 1_000_000]


@pytest.mark.parametrize("name", AWKWARD, ids=range(len(AWKWARD)))
def test_a_name_that_no_node_log_or_message_takes_is_refused(name: str) -> None:
    for change in (
        lambda split, words: setattr(split, "id", name),
        lambda split, words: setattr(words.outputs[0], "id", name),
        lambda split, words: words.outputs[0].fields.append(name),
    ):
        with pytest.raises(TopologyError, match="1 to 200") as raised:
            check(bad(change))
        assert len(str(raised.value)) < 600
    with pytest.raises(UsageError) as refused:
        check(header(name=name))
    assert len(str(refused.value)) < 600
    if name:
        with pytest.raises(UsageError, match="owner of a topology"):
            check(header(owner=name))


@pytest.mark.parametrize("name", [".", "..", "a/b", "\ue000", "\U0001f600"])
def test_a_component_is_named_as_zookeeper_can_name_a_node(name: str) -> None:
    with pytest.raises(TopologyError, match="characters that ZooKeeper refuses"):
        check(bad(lambda split, words: setattr(split, "id", name)))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{"k": ' + "[" * 100_000 + "]" * 100_000 + "}", "more than 50 levels"),
        ('{"k": ' + '{"a":' * 51 + "1" + "}" * 52, "'k' is nested more than 50 levels"),
        ("[" * 100_000, "more than 50 levels"),
        (json.dumps({"k": "é" * 140_000}, ensure_ascii=False), r"280\d\d\d bytes; at most 262144 are allowed"),
        (json.dumps({"k": ["\ud800"]}), "'k' holds half of a surrogate pair"),
        (json.dumps({"k": {"a\0": 1}}), "'k' holds a NUL"),
        ('{"k": NaN}', "is not JSON"),
        ('{"k": ' + "9" * 5000 + "}", "is not JSON"),
        (json.dumps({"topology.message.timeout.secs": 10**400}), "takes a number"),
        (json.dumps({"topology.workers": 10**400}), "takes a whole number"),
        (json.dumps({"k\n": 1}), "without control characters"),
    ],
    ids=range(11),
)
def test_a_configuration_beyond_its_limits_is_refused_in_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence) as raised:
        check(header(conf_json=text))
    assert len(str(raised.value)) < 600
    if "k" in text[:5]:
        with pytest.raises(UsageError, match=sentence):
            check(bad(lambda split, words: setattr(split, "conf_json", text)))


def test_a_configuration_of_fifty_levels_passes() -> None:
    check(header(conf_json='{"k": ' + "[" * 50 + "]" * 50 + "}"))


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        ({"A=B": "1"}, "'A=B' is not the name of a variable"),
        ({"": "1"}, "'' is not the name of a variable"),
        ({"A": "x" * 140_000}, "'A' takes 140002 bytes"),
        ({"A\0": "1"}, "NUL"),
        ({"A": "1\0"}, "NUL"),
        ({"A": "\ud800"}, "surrogate"),
    ],
)
def test_an_environment_that_no_process_can_have_is_refused(environment: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        check(header(conf_json=json.dumps({"topology.environment": environment})))


def test_variables_of_any_text_and_number_pass() -> None:
    environment = {"PATH": "/bin\n", "N": 1, "DEBUG": True, "äöü": "=", "EMPTY": ""}
    check(header(conf_json=json.dumps({"topology.environment": environment})))


def many(change: Callable[[pb.TopologySpec], object]) -> rpc.SubmitHeader:
    one = header()
    change(one.spec)
    return one


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda spec: [spec.components.add(id=f"z{n}") for n in range(1001)], "1003 components; the limit is 1000"),
        (lambda spec: [spec.components[1].outputs.add(id=f"s{n}") for n in range(10_001)], "10003 streams"),
        (lambda spec: [spec.components[0].inputs.add(source="words") for _ in range(10_001)], "10002 subscriptions"),
        (lambda spec: spec.components[1].outputs[0].fields.extend(map(str, range(100_001))), "fields; the limit"),
    ],
    ids=["components", "streams", "subscriptions", "fields"],
)
def test_a_definition_without_bounds_is_refused(change: Callable[[pb.TopologySpec], object], what: str) -> None:
    with pytest.raises(TopologyError, match=what):
        check(many(change))


def test_counts_beyond_every_field_are_refused_before_the_record_is_made() -> None:
    for conf in ({"topology.workers": 2**62}, {"topology.acker.executors": 2**62}):
        with pytest.raises(UsageError, match="asks for 4611686018427387904"):
            record(conf)
    with pytest.raises(TopologyError, match=r"topology\.tasks' takes a whole number from 1 to 100000"):
        check(bad(lambda split, words: setattr(split, "conf_json", '{"topology.tasks": 4611686018427387904}')))


@pytest.mark.parametrize(
    "root", ["", "a", "/a/", "//a", "/a/../b", "/a/.", "/\ud800", "/a\0", "/\ue000", "/" + "x" * 1001]
)
def test_a_root_of_progress_that_is_no_path_is_refused(root: str) -> None:
    with pytest.raises(ConfigError, match=r"transactional\.zookeeper\.root"):
        check(header(conf_json=json.dumps({"transactional.zookeeper.root": root})))


@pytest.mark.parametrize("root", ["/", "/tupletree", "/tupletree/topologies"])
def test_progress_may_not_lie_among_the_clusters_own_nodes(root: str) -> None:
    with pytest.raises(UsageError, match=r"overlaps the cluster's own nodes \(zookeeper\.root '/tupletree'\)"):
        record({"transactional.zookeeper.root": root})


def test_progress_may_lie_beside_them_at_another_ensemble_or_where_the_operator_says() -> None:
    for root in ("/tupletrees", "/mine/own"):
        record({"transactional.zookeeper.root": root})
    record({"transactional.zookeeper.root": "/tupletree", "transactional.zookeeper.servers": ["elsewhere"]})
    cluster = defaults() | {"transactional.zookeeper.root": "/tupletree/progress"}
    new_record(header(), cluster, "x", 0)


def record(conf: dict[str, Any] | None = None, **changes: Any) -> pb.TopologyRecord:
    return new_record(header(conf_json=json.dumps(conf or {}), **changes), defaults(), "wc-1-5", 5.5)


def test_a_record_has_counts_status_and_the_merged_configuration() -> None:
    one = record({"topology.workers": 3, "mine.key": 1})
    assert (one.id, one.status, one.workers, one.acker_shards) == ("wc-1-5", lifecycle.ACTIVE, 3, 3)
    assert (dict(one.tasks), dict(one.executors)) == ({"split": 4, "words": 1}, {"split": 2, "words": 1})
    conf = json.loads(one.conf_json)
    assert (conf["topology.workers"], conf["topology.message.timeout.secs"], conf["mine.key"]) == (3, 30, 1)
    assert not any(key.startswith(("zookeeper.", "nimbus.")) for key in conf)
    assert record(inactive=True).status == lifecycle.INACTIVE


def test_shards_are_one_a_worker_or_as_told() -> None:
    assert record({"topology.acker.executors": 0}).acker_shards == 0
    assert record({"topology.acker.executors": 7}).acker_shards == 7


def test_a_transactional_topology_without_ackers_is_refused() -> None:
    one = header(conf_json=json.dumps({"topology.acker.executors": 0}))
    one.spec.components[0].outputs.add(id="$report", fields=["attempt", "count", "committed"], direct=True)
    with pytest.raises(UsageError, match=r"'wc' is transactional and has topology\.acker\.executors 0"):
        new_record(one, defaults(), "x", 0)
    one.conf_json = "{}"
    assert new_record(one, defaults(), "x", 0).acker_shards == 1


def test_a_topology_that_is_too_large_is_refused() -> None:
    with pytest.raises(UsageError, match=r"asks for 5000 workers \(topology\.workers\); the limit is 2000"):
        record({"topology.workers": 5000})
    large = header()
    large.spec.components[0].tasks = large.spec.components[0].parallelism = 20_000
    with pytest.raises(UsageError, match="20001 executors; the limit is 10000"):
        new_record(large, defaults(), "x", 0)


def test_an_outline_has_no_objects() -> None:
    one = header().spec
    one.components[0].object = b"pickle"
    one.components[0].inputs[0].custom = b"pickle"
    assert without_objects(one) == header().spec
    assert topology_id("wc", 7, 12.9) == "wc-7-12"


def test_the_name_of_a_topology_whose_record_cannot_be_read_is_in_use() -> None:
    unreadable = {topology_id("my-words", 3, 5.0): "it holds junk"}
    check_unreadable("my", unreadable)
    with pytest.raises(NameInUseError, match="'my-words' exists already, and its record cannot be read: it holds junk"):
        check_unreadable("my-words", unreadable)
