"""What a session is made with, and what is found out before Spark is started."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest
from test_driver_close import Unheard

from tupletree.errors import UnavailableError, UsageError
from tupletree.spark import Pipeline
from tupletree.spark.driver import Driver
from tupletree.spark.failures import SparkLostError
from tupletree.spark.session import acquire, reach, settings


def test_every_key_of_spark_reaches_the_session_and_no_other() -> None:
    made = settings({
        "spark.submit.pyFiles": "more.zip", "spark.archives": "venv.tar.gz#venv", "spark.executor.cores": 2,
        "spark.dynamicAllocation.enabled": True, "topology.workers": 1,
    })  # fmt: skip
    assert made["spark.submit.pyFiles"] == "more.zip"
    assert made["spark.archives"] == "venv.tar.gz#venv"
    assert (made["spark.executor.cores"], made["spark.dynamicAllocation.enabled"]) == ("2", "true")
    assert "topology.workers" not in made


def test_what_is_given_comes_before_defaults() -> None:
    assert settings({})["spark.scheduler.mode"] == "FAIR"
    assert settings({"spark.scheduler.mode": "FIFO"})["spark.scheduler.mode"] == "FIFO"


@pytest.mark.parametrize(("master", "partitions"), [("local", "1"), ("local[3]", "3"), ("local[2,4]", "2")])
def test_on_a_local_master_there_is_a_shuffle_partition_for_each_core(master: str, partitions: str) -> None:
    made = settings({"spark.master": master})
    assert made["spark.sql.shuffle.partitions"] == partitions
    assert made["spark.driver.bindAddress"] == "127.0.0.1"
    assert made["spark.ui.enabled"] == "false"


def test_on_another_master_spark_decides() -> None:
    made = settings({"spark.master": "spark://ann:7077"})
    assert not {"spark.sql.shuffle.partitions", "spark.driver.host", "spark.ui.enabled"} & made.keys()


def test_a_connect_session_has_only_what_is_given() -> None:
    assert settings({"spark.remote": "sc://ann", "topology.workers": 1}) == {"spark.remote": "sc://ann"}


def test_a_connect_server_has_a_master_of_its_own() -> None:
    with pytest.raises(UsageError, match=r"spark\.remote and spark\.master exclude each other"):
        settings({"spark.remote": "sc://ann", "spark.master": "local[2]"})


@pytest.mark.parametrize("master", ["lokal", "localhost:7077", "http://ann:7077", ""])
def test_a_master_that_is_none_is_one_sentence(master: str) -> None:
    with pytest.raises(UsageError, match=r"spark\.master is '.*'; local\[…\], spark://…, yarn or k8s://… was expected"):
        settings({"spark.master": master})


@pytest.mark.parametrize("slash", ["/", ""])
def test_no_status_and_no_error_has_the_token_of_a_connect_server(slash: str) -> None:
    driver = Driver("id", Pipeline(), False, {"spark.remote": f"sc://127.0.0.1:1{slash};token=k9w="}, 2, Unheard())
    driver.close()
    assert driver.about == {"master": "sc://127.0.0.1:1"}
    with pytest.raises(UnavailableError, match=r"no Spark Connect server answers at sc://127\.0\.0\.1:1: "):
        reach(f"sc://127.0.0.1:1{slash};token=k9w=")
    with pytest.raises(UsageError, match=r"spark\.master is 'sc://ann'; "):
        settings({"spark.master": f"sc://ann{slash};token=k9w="})
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"sc://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(SparkLostError, match=f"could be started with spark.remote {address}: ") as caught:
            acquire({"spark.remote": f"{address}{slash};token=k9w="})
    assert "k9w" not in str(caught.value)


WITHOUT_JAVA = """
import os
from tupletree.errors import UsageError
from tupletree.spark.session import acquire

for variables in ({"JAVA_HOME": "/nowhere"}, {"JAVA_HOME": "", "PATH": "/nowhere"}):
    os.environ.update(variables)
    try:
        acquire({})
    except UsageError as error:
        print(error)
"""


def test_without_java_there_is_one_sentence() -> None:
    """In a process that has no session yet."""
    ended = subprocess.run([sys.executable, "-c", WITHOUT_JAVA], capture_output=True, text=True, check=True)
    home, path = ended.stdout.splitlines()
    no_java = "Spark needs Java 17 or newer, and there is no "
    assert home == f"{no_java}bin/java in JAVA_HOME, which is /nowhere"
    assert path == f"{no_java}java on the PATH, and no JAVA_HOME"


def test_a_server_is_reached_if_any_of_its_addresses_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("grpc_proxy", "https_proxy", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        reach(f"spark://127.0.0.1:1,127.0.0.1:{port}")
        reach(f"sc://127.0.0.1:{port}/;token=secret")
    with pytest.raises(UnavailableError, match=rf"no Spark master answers at spark://127.0.0.1:{port}: "):
        reach(f"spark://127.0.0.1:{port}")
    with pytest.raises(
        UnavailableError, match=rf"no Spark Connect server answers at sc://127.0.0.1:{port}: "
    ) as caught:
        reach(f"sc://127.0.0.1:{port}/;token=secret")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("master", ["local[2]", "yarn", "k8s://https://127.0.0.1:1", ""])
def test_other_masters_are_left_to_spark(master: str) -> None:
    reach(master)
