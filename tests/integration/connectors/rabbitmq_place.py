"""RabbitMQ: durable queues, classic and quorum, on a node of its own with an epmd of its own."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import pika
from queue_places import QueuePlace, QueueServer, free_port

from bench._rabbit_node import NODE, SERVER, answers, environment, start_epmd, url
from tupletree.connectors.formats import Format
from tupletree.connectors.queue_spout import QueueSpout
from tupletree.connectors.rabbitmq import RabbitBolt, RabbitSpout
from tupletree.connectors.sinks import SinkBolt
from tupletree.testing import wait_until

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
    """A node without plugins."""

    program = "rabbitmq-server"

    def __init__(self) -> None:
        super().__init__()
        self._epmd: subprocess.Popen[bytes] | None = None
        self.environment = environment(self.directory, self.port, free_port(), free_port())

    def command(self) -> Sequence[str]:
        return ["env", "-i", *(f"{name}={value}" for name, value in self.environment.items()), SERVER]

    def start(self) -> None:
        if self._epmd is None:
            self._epmd = start_epmd(self.environment)
        super().start()

    def answers(self) -> bool:
        return answers(self.port)

    def url(self, port: int) -> str:
        return url(port)

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
