"""Configuration: layers, checks, and what reaches a component."""

from __future__ import annotations

from pathlib import Path
from typing import get_type_hints

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import tupletree
from tupletree import config
from tupletree.config import KEYS, Config
from tupletree.errors import ConfigError

REPOSITORY = Path(__file__).parents[3]


def nowhere(tmp_path: Path) -> dict[str, str]:
    """An environment whose home holds no configuration."""
    return {"HOME": str(tmp_path)}


@pytest.fixture(autouse=True)
def _no_file_around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_shipped_file_is_every_key_with_its_default() -> None:
    text = (REPOSITORY / "deploy/conf/tupletree.yaml").read_text(encoding="utf-8")
    assert yaml.safe_load(text) == config.defaults()
    assert text == config.render_yaml(), "run: tupletree config list --yaml > deploy/conf/tupletree.yaml"


def test_every_default_is_a_value_its_key_takes() -> None:
    config.validate(config.defaults())


def test_no_two_keys_share_an_environment_variable() -> None:
    assert len({key.variable for key in KEYS.values()}) == len(KEYS)


def test_defaults_are_fresh_copies() -> None:
    config.defaults()["nimbus.seeds"].append("spoiled")
    assert config.defaults()["nimbus.seeds"] == ["127.0.0.1:6627"]


def test_each_layer_overrides_the_one_before(tmp_path: Path) -> None:
    file = tmp_path / "my.yaml"
    file.write_text("topology.workers: 2\ntopology.tasks: 2\ntopology.flush.interval.ms: 2\nmy.key: {a: 1}\n")
    environ = nowhere(tmp_path) | {"TUPLETREE_TOPOLOGY_TASKS": "3", "TUPLETREE_TOPOLOGY_FLUSH_INTERVAL_MS": "3"}
    conf = config.load(file, ["topology.flush.interval.ms=4"], environ)
    assert (conf["topology.workers"], conf["topology.tasks"], conf["topology.flush.interval.ms"]) == (2, 3, 4)
    assert conf["topology.message.timeout.secs"] == 30
    assert conf["my.key"] == {"a": 1}
    assert config.load_explicit(file, [], {}) == yaml.safe_load(file.read_text())


def test_the_file_is_looked_for_in_order(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / ".tupletree").mkdir(parents=True)
    environ = {"HOME": str(home)}
    (home / ".tupletree/tupletree.yaml").write_text("topology.workers: 1")
    assert config.load_explicit(None, [], environ) == {"topology.workers": 1}
    (tmp_path / "tupletree.yaml").write_text("topology.workers: 2")
    assert config.load_explicit(None, [], environ) == {"topology.workers": 2}
    (tmp_path / "named.yaml").write_text("topology.workers: 3")
    environ["TUPLETREE_CONF"] = "named.yaml"
    assert config.load_explicit(None, [], environ) == {"topology.workers": 3}
    (tmp_path / "given.yaml").write_text("topology.workers: 4")
    assert config.load_explicit("given.yaml", [], environ) == {"topology.workers": 4}


def test_an_empty_file_sets_nothing(tmp_path: Path) -> None:
    (tmp_path / "tupletree.yaml").write_text("# nothing\n")
    assert config.load_explicit(None, [], {}) == {}


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("- a\n- b\n", "must hold lines like"),
        ("a: [1\n", "is not valid YAML"),
        ("topology.wrokers: 2\n", "did you mean 'topology.workers'.*in .*tupletree.yaml"),
        ("nimbus:\n  port: 1\n", "unknown configuration key 'nimbus'"),
        ("3: 4\n", "configuration keys are strings"),
    ],
)
def test_a_faulty_file_is_named(tmp_path: Path, content: str, sentence: str) -> None:
    (tmp_path / "tupletree.yaml").write_text(content)
    with pytest.raises(ConfigError, match=sentence):
        config.load(None, [], {})


def test_a_named_file_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no configuration file nowhere\.yaml"):
        config.load("nowhere.yaml", [], {})
    with pytest.raises(ConfigError, match="there is no configuration file also"):
        config.load(None, [], {"TUPLETREE_CONF": "also"})


@pytest.mark.parametrize(
    ("override", "value"),
    [
        ("topology.workers=2", 2),
        ("topology.debug=true", True),
        ("topology.message.timeout.secs=0.5", 0.5),
        ("topology.acker.executors=null", None),
        ("nimbus.seeds=a:1,b", ["a:1", "b"]),
        ("nimbus.seeds=[a, b]", ["a", "b"]),
        ("supervisor.slots.ports=0,6700", [0, 6700]),
        ("supervisor.slots.ports=6700", [6700]),
        ("supervisor.id=123", "123"),
        ("topology.environment={A: b}", {"A": "b"}),
        ("my.own=x=y", "x=y"),
        ("spark.executor.memory=4g", "4g"),
    ],
)
def test_overrides_are_read_as_their_key_wants(override: str, value: object) -> None:
    assert config.load_explicit(None, [override], {}) == {override.partition("=")[0]: value}


@pytest.mark.parametrize("override", ["topology.workers", "=2", "", " =2"])
def test_an_override_without_key_or_value_is_refused(override: str) -> None:
    with pytest.raises(ConfigError, match="must look like key=value"):
        config.load_explicit(None, [override], {})


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("topology.worker", "topology.workers"),
        ("nimbus.seed", "nimbus.seeds"),
        ("supervisor.slot.ports", "supervisor.slots.ports"),
        ("storm.zookeeper.servers", "zookeeper.servers"),
        ("topology.message.timeout.sec", "topology.message.timeout.secs"),
        ("acker.max.pnding", "acker.max.pending"),
        ("toplogy.workers", "topology.workers"),
        ("Topology.max.spout.pending", "topology.max.spout.pending"),
    ],
)
def test_an_unknown_key_of_a_known_family_names_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(ConfigError, match=f"unknown configuration key '{name}'; did you mean '{nearest}'"):
        config.validate({name: 1})


def test_keys_outside_the_known_families_pass() -> None:
    config.validate({"my.app.key": object(), "redis": 1, "spark.anything.at.all": "x", "topologies.of.mine": 1})


def test_the_keys_are_constants_for_those_who_know_storms() -> None:
    assert tupletree.Config.TOPOLOGY_MAX_SPOUT_PENDING == "topology.max.spout.pending"
    assert tupletree.Config({tupletree.Config.TOPOLOGY_WORKERS: 3}) == {"topology.workers": 3}
    assert get_type_hints(tupletree.TopologyConf)["topology.max.spout.pending"] == int | None


def test_the_names_of_the_package_are_the_public_ones() -> None:
    assert [name for name in dir(tupletree) if not name.startswith("__")] == sorted(tupletree.__all__)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("topology.workers", 0),
        ("topology.workers", "2"),
        ("topology.workers", True),
        ("topology.workers", 1.5),
        ("topology.workers", None),
        ("topology.message.timeout.secs", 0),
        ("topology.message.timeout.secs", float("nan")),
        ("topology.debug", "yes"),
        ("topology.stats.sample.rate", 1.5),
        ("topology.environment", ["A"]),
        ("nimbus.port", 70000),
        ("nimbus.seeds", []),
        ("nimbus.seeds", [1]),
        ("supervisor.slots.ports", [-1]),
        ("logs.level", "LOUD"),
        ("local.dir", ""),
    ],
)
def test_a_wrong_value_is_an_error_that_names_key_and_value(name: str, value: object) -> None:
    with pytest.raises(ConfigError) as caught:
        config.validate({name: value})
    assert f"'{name}' takes" in str(caught.value)
    assert repr(value) in str(caught.value)


def test_environment_errors_name_the_variable() -> None:
    with pytest.raises(ConfigError, match="in the environment as TUPLETREE_TOPOLOGY_WORKERS"):
        config.load(None, [], {"TUPLETREE_TOPOLOGY_WORKERS": "many"})
    with pytest.raises(ConfigError, match="TUPLETREE_NIMBUS_SEED; did you mean TUPLETREE_NIMBUS_SEEDS"):
        config.load(None, [], {"TUPLETREE_NIMBUS_SEED": "a"})


def test_variables_that_a_container_platform_sets_for_our_services_are_no_settings() -> None:
    links = {
        "TUPLETREE_NIMBUS_PORT": "tcp://10.0.0.1:6627",
        "TUPLETREE_NIMBUS_SERVICE_HOST": "10.0.0.1",
        "TUPLETREE_NIMBUS_SERVICE_PORT_GRPC": "6627",
        "TUPLETREE_NIMBUS_PORT_6627_TCP_ADDR": "10.0.0.1",
        "TUPLETREE_TRACEBACK": "1",
    }
    assert config.load_explicit(None, [], links) == {}


def test_a_config_object_checks_keys_as_they_are_set() -> None:
    conf = Config({"topology.workers": 2})
    conf.set_max_spout_pending(10)
    conf.update({"my.key": 1})
    assert conf.setdefault("topology.debug", True) is True
    assert conf == {"topology.workers": 2, "topology.max.spout.pending": 10, "my.key": 1, "topology.debug": True}
    for wrong in ({"topology.workers": 0}, {"topology.wrkers": 1}):
        with pytest.raises(ConfigError):
            conf.update(wrong)
    with pytest.raises(ConfigError):
        conf["topology.workers"] = "3"


def test_a_topology_cannot_change_what_belongs_to_the_cluster() -> None:
    merged = config.merge(
        {"nimbus.port": 1, "topology.workers": 1}, {"nimbus.port": 2, "topology.workers": 3, "my.k": 4}
    )
    assert merged == {"nimbus.port": 1, "topology.workers": 3, "my.k": 4}


def test_a_component_overrides_only_what_may_differ_between_components() -> None:
    conf = config.component_conf(
        {"topology.debug": False, "topology.workers": 2}, {"topology.debug": True, "topology.workers": 9, "my.k": 1}
    )
    assert conf == {"topology.debug": True, "topology.workers": 2, "my.k": 1}
    with pytest.raises(ConfigError, match=r"'topology.workers' cannot be set for one component.*topology.debug"):
        config.validate_component({"topology.workers": 2})


def test_a_value_that_json_cannot_carry_names_its_key() -> None:
    with pytest.raises(ConfigError, match=r"'my.key' must hold a JSON value"):
        config.encode_conf({"my.key": object()})
    with pytest.raises(ConfigError, match=r"'my.key'"):
        config.encode_conf({"my.key": float("inf")})


@given(st.text(min_size=1))
def test_any_key_of_a_known_family_gets_a_sentence_and_no_crash(rest: str) -> None:
    name = f"topology.{rest}"
    if name not in KEYS:
        with pytest.raises(ConfigError, match="did you mean 'topology"):
            config.validate({name: 1})


@given(
    st.sampled_from(sorted(KEYS)),
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.lists(st.text())),
)
def test_any_value_is_taken_or_refused_with_a_sentence(name: str, value: object) -> None:
    try:
        config.validate({name: value})
    except ConfigError as error:
        assert name in str(error)
