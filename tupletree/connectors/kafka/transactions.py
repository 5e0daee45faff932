"""Topics of Kafka as a transactional sink.

A transaction of Kafka writes the messages, and with them a note: the offset of a consumer group of the owner's own, for
partition 0 of the topic, is the number of the transaction. A later life of the owner begins with the same
transactional id. So Kafka first ends what the life before had begun, and refuses what the life before still sends; then
the note says what is committed.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any, ClassVar, Final, cast

from tupletree.attempt import TransactionAttempt
from tupletree.connectors.arguments import check_field
from tupletree.connectors.formats import Format, FormatError, checked_format
from tupletree.connectors.kafka.client import (
    check_with_client,
    checked_client_config,
    checked_servers,
    checked_topic,
    consumer_config,
    kafka,
    text_of,
)
from tupletree.connectors.kafka.producing import Message, produce
from tupletree.connectors.kafka.topic import DEFAULTS, key_of
from tupletree.connectors.transactional_sink import Row, TransactionalSink
from tupletree.errors import StaleAttemptError, UnavailableError, UsageError
from tupletree.tuples import Tuple

ANSWER_S: Final = 15.0
"""The maximum time of each step of a transaction."""
MAX_MESSAGE_BYTES: Final = 1_000_000
"""The client's default of ``message.max.bytes``."""
OVERHEAD_BYTES: Final = 64
"""The maximum number of bytes that a message takes beside its value and key."""
_OWN: Final = {
    "transactional.id": "",  # of the owner
    "isolation.level": "read_committed",  # a note is read when its transaction has ended, and not before
}
PAUSE_S: Final = 0.1
"""The pause before a note is asked for again, while its group moves to another broker."""


class KafkaSink(TransactionalSink):
    """A topic, written in transactions. Consumers with ``isolation.level=read_committed`` see each row once.

        builder.set_bolt("out", ExactlyOnceSinkBolt(KafkaSink("broker:9092", "totals", Json(["user", "total"]))))

    ``format``: writes each row as a message, by default ``Raw()``; its fields are the sink's. ``key_field``: the field
    with the key, added to the fields if the format lacks it. ``client_config``: more configuration for librdkafka.

    Each owner has a transactional id and a consumer group of its own, ``tupletree/<owner>``; the broker must have room
    for them. Kafka forgets the note of an owner that has not committed for ``offsets.retention.minutes`` (a week): a
    transaction that was committed before, and is repeated after that, is written twice.

    Refuses opaque transactions: Kafka cannot take back the messages of an earlier attempt. Raises UsageError for wrong
    arguments.
    """

    title: ClassVar[str] = "Kafka"
    opaque_refusal: ClassVar[str] = (
        "another attempt can have other rows, and Kafka cannot take back those of the attempt before"
    )

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        topic: str,
        format: Format | None = None,
        *,
        key_field: str | None = None,
        client_config: Mapping[str, Any] | None = None,
    ) -> None:
        self.servers = checked_servers(bootstrap_servers)
        self.topic = checked_topic(topic)
        check_field("KafkaSink", "key_field", key_field)
        self.format = checked_format(self, format)
        self.key_field = key_field
        extra = [] if key_field is None or key_field in self.format.fields else [key_field]
        self.fields = [*self.format.fields, *extra]
        self.config = {**DEFAULTS, **checked_client_config(client_config, _OWN)}
        self.config["bootstrap.servers"] = self.servers
        check_with_client("Producer", self.config)
        self._max_bytes = int(self.config.get("message.max.bytes", MAX_MESSAGE_BYTES)) - OVERHEAD_BYTES
        self._owner = ""
        self._producer: Any = None
        self._notes: Any = None

    @property
    def target(self) -> str:
        return f"topic {self.topic!r} of the brokers {self.servers}"

    def open(self, owner: str, *, is_opaque: bool = False) -> None:
        """Prepare to commit as an owner. Raises UsageError for opaque transactions."""
        if is_opaque:
            raise UsageError(f"{self.target} cannot be written behind an opaque source: {self.opaque_refusal}")
        if owner != self._owner:
            self.close()
            self._owner = owner

    def faults(self, rows: Sequence[Row]) -> Mapping[int, UsageError]:
        found: dict[int, UsageError] = {}
        for index, row in enumerate(rows):
            try:
                data, key = self._message(row)
                if len(data) + len(key or b"") > self._max_bytes:
                    raise FormatError(f"a message of {len(data):,} bytes is larger than message.max.bytes allows")
            except FormatError as error:
                found[index] = UsageError(f"{self.title}: {error}")
        return found

    def commit(self, attempt: TransactionAttempt, rows: Sequence[Row]) -> None:
        messages = [self._message(row) for row in rows]
        client = kafka()
        try:
            self._connect()
            noted = self._noted()
            if noted > attempt.txid:
                raise StaleAttemptError(f"{self.target}: transaction {noted} is committed, after {attempt.txid}")
            if noted == attempt.txid or not messages:
                return
            self._write(attempt, messages)
        except client.KafkaException as error:
            with contextlib.suppress(client.KafkaException, AttributeError):
                self._producer.abort_transaction(ANSWER_S)  # refused by the client if it may be committed
            self.close()  # the next call finds out if this one is committed
            if error.args[0].code() == client.KafkaError.MSG_SIZE_TOO_LARGE:
                raise UsageError(f"{self.target} does not take a message: {text_of(error)}") from error
            raise UnavailableError(f"{self.target}: {text_of(error)}") from error

    def close(self) -> None:
        producer, self._producer = self._producer, None
        notes, self._notes = self._notes, None
        if producer is not None:  # at the broker, the next life ends the transaction
            with contextlib.suppress(Exception):
                producer.purge()
        if notes is not None:
            with contextlib.suppress(Exception):
                notes.close()

    def _connect(self) -> None:
        """Have a producer, which no producer of an earlier life can follow, and a client for notes."""
        if self._producer is None:
            client, name = kafka(), f"tupletree/{self._owner}"
            producer = client.Producer({**self.config, "transactional.id": name})
            producer.init_transactions(ANSWER_S)
            self._producer = producer
            config = {key: value for key, value in self.config.items() if key not in DEFAULTS}
            self._notes = client.Consumer(consumer_config(self.servers, config, name))

    def _noted(self) -> int:
        """Return the newest committed transaction of the owner, 0 if there is none."""
        client, deadline_s = kafka(), time.monotonic() + ANSWER_S
        while True:
            try:
                [found] = self._notes.committed([client.TopicPartition(self.topic, 0)], timeout=ANSWER_S)
                if found.error is not None:
                    raise client.KafkaException(found.error)
                return max(0, int(found.offset))
            except client.KafkaException as error:
                if error.args[0].code() not in _moving(client.KafkaError) or time.monotonic() > deadline_s:
                    raise
                time.sleep(PAUSE_S)

    def _write(self, attempt: TransactionAttempt, messages: Sequence[tuple[bytes, bytes | None]]) -> None:
        client, producer = kafka(), self._producer
        producer.begin_transaction()
        batch: list[Message] = [{"value": data, "key": key} for data, key in messages]
        for refusal in produce(producer, self.config, self.topic, batch).values():
            raise client.KafkaException(refusal)
        self._send_note(client.TopicPartition(self.topic, 0, attempt.txid))
        producer.commit_transaction(ANSWER_S)  # fails if a message was not delivered

    def _send_note(self, note: Any) -> None:
        """Add the note to the transaction, or abandon the producer, with its transaction, after ANSWER_S.

        librdkafka 2 does not keep to the timeout while a group's broker is away, and can wait forever for a broker that
        has come back (its issues 5456 and 5511).
        """
        producer, group = self._producer, self._notes.consumer_group_metadata()
        sent: Future[None] = Future()

        def send() -> None:
            try:
                producer.send_offsets_to_transaction([note], group, ANSWER_S)
            except BaseException as error:
                sent.set_exception(error)
            else:
                sent.set_result(None)

        threading.Thread(target=send, name="kafka-note", daemon=True).start()
        try:
            sent.result(ANSWER_S)
        except TimeoutError:
            self._producer = None  # no call of it would return
            raise UnavailableError(
                f"{self.target}: the broker of the consumer group 'tupletree/{self._owner}' has not taken the note of "
                f"transaction {note.offset} within {ANSWER_S:g} s"
            ) from None

    def _message(self, row: Row) -> tuple[bytes, bytes | None]:
        tup = cast(Tuple, dict(zip(self.fields, row, strict=True)))  # a format asks for fields alone
        return self.format.encode(tup), None if self.key_field is None else key_of(tup, self.key_field)


def _moving(codes: Any) -> set[int]:
    """Return the errors of a group that moves to another broker, or whose broker has just started."""
    return {codes.NOT_COORDINATOR, codes.COORDINATOR_NOT_AVAILABLE, codes.COORDINATOR_LOAD_IN_PROGRESS}
