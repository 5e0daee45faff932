"""RabbitMQ: durable queues, classic and quorum, on a node of its own with an epmd of its own."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import pika
from queue_places import QueuePlace, QueueServer, free_port

from tupletree.connectors.formats import Format
from tupletree.connectors.queue_spout import QueueSpout
from tupletree.connectors.rabbitmq import RabbitBolt, RabbitSpout
from tupletree.connectors.sinks import SinkBolt
from tupletree.testing import wait_until

SERVER = "/usr/lib/rabbitmq/bin/rabbitmq-server"
NODE = "tupletree@localhost"
PERSISTENT = pika.BasicProperties(delivery_mode=2)
MESSAGES = """
    {ok, Q} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, <<"%s">>)),
    case amqqueue:get_type(Q) of
        rabbit_quorum_queue ->
            {ok, N, _} = ra:consistent_query(amqqueue:get_pid(Q), fun rabbit_fifo:query_messages_total/1), N;
        _ ->
            [{messages, N}] = rabbit_amqqueue:info(Q, [messages]), N
    end.
"""
"""Erlang for the number of messages of a queue, delivered or not: AMQP tells only of those that are not delivered."""


SYNC = "[dets:sync(Table) || Table <- dets:all()], 1.\n"
"""Erlang that writes the names of quorum queues to disk: 3.10 does that every three minutes, and a node that is killed
before does not find its new quorum queues again."""


class RabbitServer(QueueServer):
    """A node without plugins. /usr/sbin/rabbitmq-server changes the user and loses the environment."""

    program = "rabbitmq-server"

    def __init__(self) -> None:
        super().__init__()
        self._epmd: subprocess.Popen[bytes] | None = None
        ports = {"ERL_EPMD_PORT": free_port(), "RABBITMQ_NODE_PORT": self.port, "RABBITMQ_DIST_PORT": free_port()}
        self.environment = {
            "HOME": str(self.directory),  # of the cookie
            "PATH": "/usr/lib/erlang/bin:/usr/local/bin:/usr/bin:/bin",
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": NODE,
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_CONF_ENV_FILE": f"{self.directory}/none",
            "RABBITMQ_CONFIG_FILE": f"{self.directory}/none",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{self.directory}/plugins",
            "RABBITMQ_PLUGINS_EXPAND_DIR": f"{self.directory}/expanded",
            "RABBITMQ_MNESIA_BASE": f"{self.directory}/mnesia",
            "RABBITMQ_LOG_BASE": f"{self.directory}/logs",
            "RABBITMQ_LOGS": "-",
            "RUNNING_UNDER_SYSTEMD": "1",  # the script becomes the node: no shell in between that would outlive it
            **{name: str(port) for name, port in ports.items()},
        }

    def command(self) -> Sequence[str]:
        return ["env", "-i", *(f"{name}={value}" for name, value in self.environment.items()), SERVER]

    def start(self) -> None:
        if self._epmd is None:  # otherwise the node would start one, which would outlive the node
            command = ["epmd", "-address", "127.0.0.1", "-port", self.environment["ERL_EPMD_PORT"]]
            self._epmd = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *command], env=self.environment, stdin=subprocess.DEVNULL, cwd="/"
            )
        super().start()

    def answers(self) -> bool:
        with contextlib.suppress(OSError, pika.exceptions.AMQPError), contextlib.closing(self.connect()):
            return True
        return False

    def url(self, port: int) -> str:
        return f"amqp://guest:guest@127.0.0.1:{port}/%2F"

    def connect(self) -> pika.BlockingConnection:
        return pika.BlockingConnection(pika.URLParameters(self.url(self.port)))

    def messages(self, queue: str) -> int:
        """The number of messages of a queue, delivered or not."""
        return wait_until(lambda: self.ask(MESSAGES % queue), 30, what=f"{queue} has a leader") - 1

    def ask(self, erlang: str) -> int:
        """One more than the number that the node finds; 0 for anything else, as from a queue that just recovers."""
        command = ["erl_call", "-r", "-sname", NODE, "-e"]
        asked = subprocess.run(command, input=erlang.encode(), env=self.environment, capture_output=True, check=False)
        number = asked.stdout.removeprefix(b"{ok, ").removesuffix(b"}")
        return int(number) + 1 if number.isdigit() else 0

    def close(self) -> None:
        super().close()
        if self._epmd is not None:
            self._epmd.kill()
            self._epmd.wait()


class RabbitPlace(QueuePlace):
    """A queue whose dead letters go to a queue."""

    is_quorum: ClassVar[bool]

    def __init__(self, server: RabbitServer, name: str) -> None:
        super().__init__(server, name)
        self.dead = f"{name}-dead"
        letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": self.dead}
        with self.channel() as channel:
            channel.queue_declare(self.dead, durable=True)
            kind = "quorum" if self.is_quorum else "classic"
            channel.queue_declare(name, durable=True, arguments={"x-queue-type": kind, **letters})

    @contextlib.contextmanager
    def channel(self) -> Iterator[Any]:
        with contextlib.closing(self.server.connect()) as connection:
            yield connection.channel()

    def spout(self, format: Format, max_in_flight: int = 1000) -> QueueSpout:
        url = self.server.url(self.port)
        return RabbitSpout(url, self.name, format, max_in_flight=max_in_flight, quorum=self.is_quorum)

    def bolt(self, format: Format) -> SinkBolt:
        return RabbitBolt(self.server.url(self.port), self.name, format)

    def put(self, messages: Sequence[bytes]) -> None:
        with self.channel() as channel:
            channel.tx_select()
            for message in messages:
                channel.basic_publish("", self.name, message, PERSISTENT)
            channel.tx_commit()

    def unacknowledged(self) -> int:
        count: int = self.server.messages(self.name)
        return count

    def rejected(self) -> int:
        count: int = self.server.messages(self.dead)
        return count

    def drain(self) -> list[bytes]:
        found: list[bytes] = []
        with self.channel() as channel:
            while True:
                method, _, body = channel.basic_get(self.name, auto_ack=True)
                if method is None:
                    return found
                found.append(body)


class ClassicQueuePlace(RabbitPlace):
    is_quorum = False


class QuorumQueuePlace(RabbitPlace):
    is_quorum = True

    def __init__(self, server: RabbitServer, name: str) -> None:
        super().__init__(server, name)
        assert server.ask(SYNC) == 2
