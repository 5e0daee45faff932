"""NATS JetStream (server 2.9 or newer): a durable pull consumer of a stream, and publishing with confirmation."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from tupletree._event_loop import EventLoop
from tupletree.connectors.arguments import check_seconds
from tupletree.connectors.formats import Format
from tupletree.connectors.messages import SinkMessage
from tupletree.connectors.nats_link import ANSWER_S, Link, Request, Servers, checked_name, checked_servers, status_of
from tupletree.connectors.queue_source import Delivery, QueueSource
from tupletree.connectors.queue_spout import QueueSpout
from tupletree.connectors.sinks import Sink, SinkBolt
from tupletree.errors import FailedException, UsageError

HEADER_BYTES: Final = 32  # the most that a message's header takes, without the id
SHORTEST_PULL_S: Final = 0.002
TOO_LARGE: Final = 10054  # JetStream's code for a message that is larger than its stream takes


class NatsSpout(QueueSpout):
    """Emits the messages of a JetStream stream under a subject, and acks each when its tree is complete.

    The tasks share the durable consumer ``durable``. It is made if it is missing, and begins with the first message of
    the stream; the stream must exist. A consumer that exists stays as it is.

        NatsSpout("nats://localhost:4222", "orders.*", stream="ORDERS", durable="billing", format=Json(["id"]))

    At least once. A message that fails is delivered again after a pause, which NATS keeps. One that is given up without
    dead letters is terminated: this consumer never delivers it again. Attempts are the deliveries that NATS counts; one
    that ended with its worker or connection counts too, and is followed by the next after ``ack_wait_s``.

    ``ack_wait_s``: the time limit of a delivery, for a new consumer; messages in process are extended in good time.
    Raises UsageError for arguments that NATS cannot take; the worker ends with it if the consumer is of another kind.
    """

    def __init__(
        self,
        servers: Servers,
        subject: str,
        *,
        stream: str,
        durable: str,
        format: Format | None = None,
        max_in_flight: int = 1000,
        ack_wait_s: float = 30,
    ) -> None:
        source = JetStreamConsumer(servers, subject, stream, durable, ack_wait_s)
        super().__init__(source, format, max_in_flight=max_in_flight)


class NatsBolt(SinkBolt):
    """Publishes each tuple under a subject. It is acked when a stream has stored it.

    ``id_field``: the field whose value is the message's id (the header Nats-Msg-Id): the stream drops replays of a
    tuple that it has stored within its duplicate window. Without it, replays are stored again.
    """

    def __init__(
        self, servers: Servers, subject: str, format: Format | None = None, *, id_field: str | None = None
    ) -> None:
        super().__init__(JetStreamSink(servers, subject), format, id_field=id_field)


class JetStreamConsumer(QueueSource):
    """A durable pull consumer as a source. The handle of a message is the subject that takes its acknowledgement."""

    title: ClassVar[str] = "NATS"
    has_delays: ClassVar[bool] = True
    counts = True

    def __init__(self, servers: Servers, subject: str, stream: str, durable: str, ack_wait_s: float) -> None:
        self._servers = checked_servers(servers)
        self._subject = checked_name("subject", subject, "")
        self._stream, self._durable = checked_name("stream", stream), checked_name("durable", durable)
        check_seconds("NatsSpout", "ack_wait_s", ack_wait_s)
        self._ack_wait_s = ack_wait_s
        self._link: Any = None

    def open(self, prefetch: int, task_index: int) -> None:
        self._runner = asyncio.Runner()
        self._unanswered: set[str] = set()
        self._link = Link(self._runner.get_loop().run_until_complete)
        self._link.run(self._link.connect(self._servers))
        self._link.run(self._see_consumer(self._link))

    async def _see_consumer(self, link: Link) -> None:
        """See that the consumer is there, and of the right kind."""
        context = link.client.jetstream(timeout=ANSWER_S)
        try:
            config = (await context.consumer_info(self._stream, self._durable)).config
        except link.nats.js.errors.NotFoundError:
            made = link.nats.js.api.ConsumerConfig(
                durable_name=self._durable,
                filter_subject=self._subject,
                ack_policy="explicit",
                ack_wait=self._ack_wait_s,
                max_deliver=-1,
                max_ack_pending=-1,  # each task bounds its own; messages that wait for another delivery count too
            )
            config = (await context.add_consumer(self._stream, made)).config
        subjects = (await context.stream_info(self._stream)).config.subjects
        filters = [config.filter_subject] if config.filter_subject else subjects
        if config.deliver_subject or config.ack_policy != "explicit" or filters != [self._subject]:
            raise UsageError(
                f"consumer {self._durable!r} of stream {self._stream!r} is not what was expected: a pull consumer with"
                f" explicit acknowledgements, filtered by {self._subject!r}"
            )
        self.keep_every_s = config.ack_wait / 3

    def receive(self, limit: int, wait_s: float) -> Sequence[Delivery]:
        # No other pull is ever open: the server ends each with what it has, or else with the first message. Without a
        # time it would not end one that the consumer's limit of pending messages cuts short.
        wait_s = max(wait_s, SHORTEST_PULL_S)
        pull = {"batch": limit, "no_wait": True, "expires": round(wait_s * 1e9)}
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{self._durable}"
        answers = self._link.run(self._link.ask(subject, {0: (json.dumps(pull).encode(), None)}, limit, wait_s))
        if status := status_of(answers[-1]):
            if status not in ("404", "408"):  # no messages, and the end of the wait
                raise ConnectionError(f"nats: {status} {answers[-1].headers.get('Description', 'no responders')}")
            del answers[-1]
        self._unanswered.update(answer.reply for answer in answers)
        return [
            Delivery(one.data, one.reply, str(meta.sequence.stream), meta.num_delivered, dict(one.headers or {}))
            for one in answers
            for meta in [one.metadata]
        ]

    def acknowledge(self, handles: Sequence[Any]) -> None:
        self._answer(handles, b"+ACK")

    def release(self, handles: Sequence[Any], delay_s: float) -> None:
        self._answer(handles, b'-NAK {"delay": %d}' % round(delay_s * 1e9) if delay_s else b"-NAK")

    def reject(self, handles: Sequence[Any]) -> None:
        self._answer(handles, b"+TERM")

    def keep(self, handles: Sequence[Any]) -> None:
        self._link.run(self._link.send(handles, b"+WPI"))

    def lag(self) -> int:
        context = self._link.client.jetstream(timeout=ANSWER_S)
        return int(self._link.run(context.consumer_info(self._stream, self._durable)).num_pending)

    def idle(self, wait_s: float) -> None:
        self._link.run(self._link.rest(wait_s))

    def close(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            with contextlib.suppress(Exception):  # it is lost, or its messages need not wait for their time limit
                link.run(link.send(list(self._unanswered), b"-NAK"))
            link.end()
            self._runner.close()

    def _answer(self, handles: Sequence[Any], answer: bytes) -> None:
        self._unanswered.difference_update(handles)
        self._link.run(self._link.send(handles, answer))


class JetStreamSink(Sink):
    """Streams as a sink. The connection lives on the shared event loop, so that it is answered between batches."""

    title: ClassVar[str] = "NATS"

    def __init__(self, servers: Servers, subject: str) -> None:
        self._servers, self._subject = checked_servers(servers), checked_name("subject", subject, "*>")
        self._link: Any = None

    def open(self) -> None:
        self._loop = EventLoop.acquire()
        try:
            self._link = Link(self._loop.run)
            self._link.run(self._link.connect(self._servers))
        except BaseException:
            self.close()
            raise

    def write(self, messages: Sequence[SinkMessage]) -> Mapping[int, FailedException]:
        refused: dict[int, FailedException] = {}
        requests: dict[int, Request] = {}
        limit = self._link.client.max_payload
        for index, message in enumerate(messages):
            size = len(message.data) + (HEADER_BYTES + len(message.id.encode()) if message.id else 0)
            if size > limit:
                text = f"NATS takes no message of {size} bytes: raise max_payload of the server, now {limit}"
                refused[index] = FailedException(text, retry=False)
            else:
                requests[index] = (message.data, {"Nats-Msg-Id": message.id} if message.id else None)
        for answer in self._link.run(self._link.ask(self._subject, requests, len(requests))) if requests else ():
            if status_of(answer):
                raise ConnectionError(f"no stream takes messages of subject {self._subject!r}")
            if error := json.loads(answer.data).get("error"):
                text, is_final = f"NATS refuses the message: {error['description']}", error.get("err_code") == TOO_LARGE
                refused[int(answer.subject.rpartition(".")[2])] = FailedException(text, retry=not is_final)
        return refused

    def close(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.end()
        self._loop.release()
