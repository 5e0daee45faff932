"""Messages given to a producer, many with one call where the client can, in their order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypedDict

from tupletree.connectors.kafka.client import kafka

MAX_TOGETHER: Final = 50_000
"""The maximum number of messages of one call: half of what the producer's queue takes unless configured."""
MAX_BYTES_TOGETHER: Final = 256 * 1024 * 1024
"""The maximum size of the messages of one call: a quarter of what the producer's queue takes unless configured."""
_QUEUE: Final = "queue.buffering.max."


class Message(TypedDict):
    """A message in the form that the client wants."""

    value: bytes
    key: bytes | None


def produce(
    producer: Any,
    config: Mapping[str, Any],
    topic: str,
    messages: Sequence[Message],
    on_delivery: Callable[[Any, Any], None] | None = None,
) -> dict[int, Any]:
    """Give messages to a producer of this configuration, whose queue is empty.

    Waits while the queue is full. Return the errors of messages that the client refuses, by index: of these, no
    delivery is reported.
    """
    if not hasattr(producer, "produce_batch") or any(key.startswith(_QUEUE) for key in config):
        return _one_by_one(producer, topic, messages, on_delivery)
    refused: dict[int, Any] = {}
    for start in range(0, len(messages), MAX_TOGETHER):
        part = messages[start : start + MAX_TOGETHER]
        if start:
            producer.flush()
        if sum([len(one["value"]) for one in part]) > MAX_BYTES_TOGETHER:
            errors = _one_by_one(producer, topic, part, on_delivery)
        else:  # in a full queue, a message could overtake the one before it
            count = producer.produce_batch(topic, part, on_delivery=on_delivery)
            errors = {} if count == len(part) else _errors(part)
        refused |= {start + index: error for index, error in errors.items()}
    return refused


def _errors(part: Sequence[Mapping[str, Any]]) -> dict[int, Any]:
    return {index: one["_error"] for index, one in enumerate(part) if "_error" in one}


def _one_by_one(
    producer: Any, topic: str, messages: Sequence[Message], on_delivery: Callable[[Any, Any], None] | None
) -> dict[int, Any]:
    refused, failure = {}, kafka().KafkaException
    for index, message in enumerate(messages):
        while True:
            try:
                producer.produce(topic, message["value"], message["key"], on_delivery=on_delivery)
                break
            except BufferError:
                producer.poll(0.1)
            except failure as error:
                refused[index] = error.args[0]
                break
    return refused
