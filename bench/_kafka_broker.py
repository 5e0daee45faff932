"""A real broker of Apache Kafka, its own controller, on the loopback interface, from the jars that Maven fetches."""

from __future__ import annotations

import atexit
import base64
import contextlib
import functools
import shutil
import socket
import subprocess
import tempfile
import uuid
from pathlib import Path
from typing import Any

import confluent_kafka
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from tupletree.testing.wait import wait_until

VERSION = "3.9.1"

_POM = f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>tupletree</groupId>
  <artifactId>kafka-for-tests</artifactId>
  <version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{VERSION}</version></dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version></dependency>
  </dependencies>
</project>
"""

_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
log.dirs={directory}/logs
auto.create.topics.enable=false
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
log.cleaner.backoff.ms=100
broker.session.timeout.ms=2000
broker.heartbeat.interval.ms=200
group.initial.rebalance.delay.ms=0
"""


class NoJars(Exception):
    """Why there is no broker to be had on this machine."""


def jars(directory: Path) -> Path:
    """The folder with what a broker consists of, from the repository that this user's Maven is configured with."""
    if shutil.which("mvn") is None or shutil.which("java") is None:
        raise NoJars("Apache Kafka needs Java, and Maven to fetch it: there is no mvn or no java here")
    (directory / "pom.xml").write_text(_POM)
    command = ["mvn", "-B", "-q", "dependency:copy-dependencies", "-DoutputDirectory=lib", "-DincludeScope=runtime"]
    try:
        ended = subprocess.run(
            command, cwd=directory, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL, check=False
        )
    except subprocess.TimeoutExpired:
        raise NoJars("Maven did not fetch Apache Kafka within two minutes") from None
    if ended.returncode:
        raise NoJars(f"Maven did not fetch Apache Kafka: {ended.stdout.strip()[:300]}")
    return directory / "lib"


class Broker:
    """One broker. To be closed; what it has written is in ``directory``, and a ``start`` after a ``kill`` goes on."""

    def __init__(self, lib: Path, directory: Path) -> None:
        options = [
            "-Xmx256m",
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
        ]
        self._java = ["java", *options, "-cp", f"{lib}/*"]
        self._directory = directory
        self._properties = directory / "server.properties"
        port, controller = _free_ports(2)
        self.addresses = f"127.0.0.1:{port}"
        self._properties.write_text(_PROPERTIES.format(port=port, controller=controller, directory=directory))
        self._process: subprocess.Popen[bytes] | None = None
        subprocess.run(
            [*self._java, "kafka.tools.StorageTool", "format", "-t", _cluster_id(), "-c", str(self._properties)],
            check=True,
            capture_output=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
        )
        self.start()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self.launch()
        self.wait()

    def launch(self) -> None:
        """Start it, without waiting. Call this from a thread that does not end before the broker."""
        with open(self._directory / "log", "ab") as log:
            # The kernel ends it with the thread that starts it, and so with the test's process, however that ends.
            command = ["setpriv", "--pdeathsig", "KILL", *self._java, "kafka.Kafka", str(self._properties)]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        self.admin = AdminClient({"bootstrap.servers": self.addresses, "log_level": 2})

    def wait(self) -> None:
        """Wait until it answers."""
        wait_until(self._answers, 120, what="the broker answers")

    @property
    def is_running(self) -> bool:
        """True unless it was killed."""
        return self._process is not None

    @property
    def pid(self) -> int:
        """Its process id, while it runs."""
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """End it at once."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def close(self) -> None:
        self.kill()

    def create(self, topic: str, partitions: int = 1, **config: Any) -> str:
        made = NewTopic(
            topic, partitions, 1, config={key.replace("_", "."): str(value) for key, value in config.items()}
        )
        self.admin.create_topics([made])[topic].result(30)
        self._wait_for(topic, partitions)
        return topic

    def grow(self, topic: str, partitions: int) -> None:
        self.admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(30)
        self._wait_for(topic, partitions)

    def delete(self, topic: str) -> None:
        self.admin.delete_topics([topic])[topic].result(30)

    def producer(self, **config: Any) -> Any:
        """Return a producer. Its flush raises KafkaException if a message is not delivered."""
        settings = {key.replace("_", "."): value for key, value in config.items()}
        fixed = {"bootstrap.servers": self.addresses, "log_level": 2, "on_delivery": _check_delivery}
        return confluent_kafka.Producer({**fixed, **settings})

    def _wait_for(self, topic: str, partitions: int) -> None:
        """Wait until clients see the partitions. The controller confirms a change before the broker knows it."""

        def is_seen() -> bool:
            return len(self.admin.list_topics(topic, timeout=10).topics[topic].partitions) == partitions

        wait_until(is_seen, 30, what=f"clients see {partitions} partitions of {topic}")

    def _answers(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise RuntimeError("the broker ended: " + (self._directory / "log").read_text()[-2000:])
        with contextlib.suppress(confluent_kafka.KafkaException):
            return bool(self.admin.list_topics(timeout=1).brokers)
        return False


def _check_delivery(error: Any, message: Any) -> None:
    if error is not None:
        raise confluent_kafka.KafkaException(error)


@functools.cache
def shared_broker() -> Broker:
    """The broker of this process, which ends with it. Raises NoJars."""
    directory = tempfile.TemporaryDirectory(prefix="kafka-")
    atexit.register(directory.cleanup)
    root = Path(directory.name)
    broker = Broker(jars(root), root)
    atexit.register(broker.close)
    return broker


def _cluster_id() -> str:
    """An id for a new cluster: 16 bytes, the first of them not such that the id begins with "-", as an option does."""
    return base64.urlsafe_b64encode(b"k" + uuid.uuid4().bytes[1:]).decode().rstrip("=")


def _free_ports(number: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
