"""What a cluster on Spark asks of Spark, and what it refuses."""

from __future__ import annotations

import dataclasses

import pytest

from tupletree._sparkcluster.plan import ClusterSpec, check_master, machine_conf, spark_conf
from tupletree.config import validate
from tupletree.errors import UsageError

SPEC = ClusterSpec(
    master="spark://10.0.0.1:7077",
    machines=3,
    slots=4,
    ackers=2,
    cores=2,
    memory="4g",
    is_embedded=True,
    conf={"bind.host": "0.0.0.0", "spark.ui.port": 4050, "supervisor.id": "mine", "advertise.host": "driver"},
)


def test_a_task_takes_its_whole_executor() -> None:
    asked = spark_conf(SPEC)
    assert asked["spark.task.cpus"] == asked["spark.executor.cores"] == "2"
    assert asked["spark.cores.max"] == "6"
    assert asked["spark.executor.instances"] == "3"


def test_a_standalone_master_counts_the_heap_and_others_the_container() -> None:
    assert spark_conf(SPEC)["spark.executor.memory"] == "4096m"
    asked = spark_conf(dataclasses.replace(SPEC, master="yarn"))
    assert (asked["spark.executor.memory"], asked["spark.executor.memoryOverhead"]) == ("512m", "3584m")


def test_keys_of_spark_prevail_and_reach_no_daemon() -> None:
    asked = spark_conf(dataclasses.replace(SPEC, conf={**SPEC.conf, "spark.task.cpus": 1}))
    assert (asked["spark.task.cpus"], asked["spark.ui.port"]) == ("1", "4050")
    conf = machine_conf(SPEC, ["zk:2181"], ["driver:6627"])
    validate(conf)
    assert not [key for key in conf if key.startswith("spark.")]


def test_machines_take_the_addresses_of_zookeeper_and_nimbus_and_no_name_of_another_machine() -> None:
    conf = machine_conf(SPEC, ["zk:2181"], ["driver:6627"])
    assert (conf["zookeeper.servers"], conf["nimbus.seeds"]) == (["zk:2181"], ["driver:6627"])
    assert conf["bind.host"] == "0.0.0.0"
    assert not {"supervisor.id", "advertise.host"} & conf.keys()


@pytest.mark.parametrize("master", ["local[2]", "spark", "mesos://host:5050", "k8s", ""])
def test_a_master_that_is_none_is_one_sentence(master: str) -> None:
    with pytest.raises(UsageError, match=r"spark://HOST:PORT, yarn or k8s://… was expected"):
        check_master(master, {}, {})


def test_yarn_needs_its_files_and_kubernetes_an_image() -> None:
    with pytest.raises(UsageError, match="HADOOP_CONF_DIR"):
        check_master("yarn", {}, {})
    check_master("yarn", {}, {"YARN_CONF_DIR": "/etc/hadoop"})
    with pytest.raises(UsageError, match=r"spark\.kubernetes\.container\.image"):
        check_master("k8s://https://host:6443", {}, {})
    check_master("k8s://https://host:6443", {"spark.kubernetes.container.image": "image"}, {})


def test_daemons_on_several_machines_do_not_listen_on_the_loopback_interface() -> None:
    with pytest.raises(UsageError, match=r"bind\.host is 127\.0\.0\.1"):
        dataclasses.replace(SPEC, conf={})
    dataclasses.replace(SPEC, master="spark://127.0.0.1:7077", conf={})


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [("ackers", 4, "--ackers is 4, expected at most"), ("memory", "4", "--memory is '4', expected")],
)
def test_sizes_that_are_none_are_one_sentence(field: str, value: object, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        dataclasses.replace(SPEC, **{field: value})
