"""The queues that the conformance suite runs against."""

from __future__ import annotations

from beanstalkd_place import BeanstalkPlace, BeanstalkServer
from mqtt_place import MqttPlace, MqttServer
from nats_place import NatsPlace, NatsServer
from postgres_outbox_place import OutboxPlace, OutboxServer
from queue_places import QueuePlace, QueueServer
from rabbitmq_place import ClassicQueuePlace, QuorumQueuePlace, RabbitServer
from redis_streams_place import RedisStreamsPlace, RedisStreamsServer

PLACES: dict[str, tuple[type[QueueServer], type[QueuePlace]]] = {
    "beanstalkd": (BeanstalkServer, BeanstalkPlace),
    "mqtt": (MqttServer, MqttPlace),
    "nats": (NatsServer, NatsPlace),
    "postgres_outbox": (OutboxServer, OutboxPlace),
    "rabbitmq-classic": (RabbitServer, ClassicQueuePlace),
    "rabbitmq-quorum": (RabbitServer, QuorumQueuePlace),
    "redis_streams": (RedisStreamsServer, RedisStreamsPlace),
}
