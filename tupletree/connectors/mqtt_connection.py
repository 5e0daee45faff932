"""Connections to MQTT 5 brokers, driven by the thread that calls them: paho's own thread is not started."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tupletree._address import split_address
from tupletree.connectors.arguments import check, check_text, checked_address
from tupletree.connectors.extras import imported
from tupletree.errors import UsageError

KEEPALIVE_S: Final = 60
ANSWER_S: Final = 30.0
"""How long the broker may take to answer."""
MAX_PACKETS: Final = 65535
"""The maximum number of messages that are not acknowledged: the number of packet ids."""
MAX_TOPIC_BYTES: Final = 65535
TLS_OPTIONS: Final = ("ca_certs", "certfile", "keyfile")


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker, and how to log in. Raises UsageError.

    ``user``: the class that the user wrote, named in errors.
    ``tls``: True trusts the machine's authorities; a mapping has paths of PEM files as ``ca_certs``, ``certfile`` and
    ``keyfile``.
    """

    host: str
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: bool | Mapping[str, str] = False
    user: str = "MQTT"

    def __post_init__(self) -> None:
        checked_address(self.user, "host", self.host, 1883)  # no URL: username and password are options
        if self.username is not None:
            check_text(self.user, "username", self.username)
        is_password = self.password is None or isinstance(self.password, str)
        check(self.user, "password", self.password, is_password, "a text, or None,", is_secret=True)
        if self.password is not None and self.username is None:
            raise UsageError(f"{self.user}: a password needs a username")
        check(self.user, "tls", self.tls, isinstance(self.tls, bool | Mapping), "True, False or a dict of paths")
        for name, path in self.tls.items() if isinstance(self.tls, Mapping) else ():
            if name not in TLS_OPTIONS:
                raise UsageError(f"{self.user}: tls has no option {name!r}; it has {', '.join(TLS_OPTIONS)}")
            check_text(self.user, f"tls[{name!r}]", path)
        if isinstance(self.tls, Mapping) and "keyfile" in self.tls and "certfile" not in self.tls:
            raise UsageError(f"{self.user}: tls has a keyfile without a certfile")

    @property
    def address(self) -> tuple[str, int]:
        return split_address(self.host, 8883 if self.tls else 1883)


class Connection:
    """A connected client. Its methods raise ConnectionError when the connection is refused or lost.

    ``session_s``: how long the session of ``client_id`` outlives the connection; None: no session does.
    ``callbacks``: of paho's client, called in ``loop``. ``resumes``: true if the session was there already.
    """

    def __init__(
        self, broker: Broker, client_id: str, session_s: int | None, receive_maximum: int, **callbacks: Any
    ) -> None:
        mqtt, properties = imported("paho.mqtt.client", "mqtt"), imported("paho.mqtt.properties", "mqtt")
        self._text_of = mqtt.error_string
        self._reason = ""
        self._connack: Any = None
        self.resumes = False
        client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id, protocol=mqtt.MQTTv5, manual_ack=True)
        client.max_inflight_messages_set(0)  # paho has no limit: callers keep to the broker's
        client.on_connect = self._connected
        client.on_disconnect = self._disconnected
        for name, callback in callbacks.items():
            setattr(client, name, callback)
        if broker.username is not None:
            client.username_pw_set(broker.username, broker.password)
        if broker.tls:
            client.tls_set(**(broker.tls if isinstance(broker.tls, Mapping) else {}))
        options = properties.Properties(mqtt.PacketTypes.CONNECT)
        options.ReceiveMaximum = receive_maximum
        if session_s:
            options.SessionExpiryInterval = session_s
        self.client = client
        try:
            client.connect(*broker.address, KEEPALIVE_S, clean_start=session_s is None, properties=options)
            self.wait(lambda: self._connack is not None, "to the connection")
        except BaseException as error:
            self.close()
            if isinstance(error, OSError):  # ConnectionError and TimeoutError among them
                host, port = broker.address
                raise ConnectionError(f"{host}:{port}: {error}") from error
            raise

    def subscribe(self, topic: str) -> None:
        """Subscribe with QoS 1. Retained messages come once for each session."""
        options = imported("paho.mqtt.subscribeoptions", "mqtt").SubscribeOptions(qos=1, retainHandling=1)
        granted: list[Any] = []
        self.client.on_subscribe = lambda _client, _data, _mid, reasons, _properties: granted.extend(reasons)
        self.client.subscribe(topic, options=options)
        self.wait(lambda: bool(granted), "to the subscription")
        if granted[0].value != 1:
            raise ConnectionError(f"the broker does not grant QoS 1 for {topic}: {granted[0]}")

    def limit(self, name: str, default: int) -> int:
        """Return a limit of the broker: a property of its CONNACK."""
        value: int = getattr(self._connack, name, default)
        return value

    def loop(self, wait_s: float) -> None:
        """Send and receive, waiting at most ``wait_s`` seconds."""
        self.check(self.client.loop(wait_s))

    def check(self, code: int) -> None:
        """Raise ConnectionError unless a call returned 0 and the connection stands."""
        if code or self.client.socket() is None:
            raise ConnectionError(self._reason or (self._text_of(code) if code else "the broker has disconnected"))

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for a condition that a callback makes true. Raises TimeoutError."""
        until_s = time.monotonic() + ANSWER_S
        while not condition():
            self.loop(1.0)
            if time.monotonic() > until_s:
                raise TimeoutError(f"no answer {what} within {ANSWER_S:.0f} s")

    def close(self) -> None:
        """Disconnect. Never raises."""
        with contextlib.suppress(Exception):
            self.client.disconnect()
        with contextlib.suppress(Exception):
            self.client.socket().close()  # if it could not send that it disconnects

    def _connected(self, _client: Any, _data: Any, flags: Any, reason: Any, properties: Any) -> None:
        if reason.is_failure:
            self._reason = f"the broker refuses the connection: {reason}"
            raise ConnectionError(self._reason)
        self.resumes = bool(flags.session_present)
        self._connack = properties

    def _disconnected(self, _client: Any, _data: Any, flags: Any, reason: Any, _properties: Any) -> None:
        if flags.is_disconnect_packet_from_server:
            self._reason = f"the broker has disconnected: {reason}"


def topic_error(topic: str) -> str:
    """Return why a message cannot be published to a topic, or an empty string."""
    if not topic or "\0" in topic or len(topic.encode(errors="replace")) > MAX_TOPIC_BYTES:
        return f"a topic has from 1 to {MAX_TOPIC_BYTES} bytes, and no NUL"
    if topic.encode(errors="replace").decode() != topic:
        return f"{topic!r} cannot be written in UTF-8"
    return f"{topic!r} has a wildcard, + or #" if "+" in topic or "#" in topic else ""


def filter_error(topic: str) -> str:
    """Return why a topic filter is wrong, or an empty string."""
    if topic.startswith("$share/"):
        return "a shared subscription is set by group, not by the topic"
    levels = topic.split("/")
    mixed = any("+" in level or "#" in level for level in levels if len(level) > 1)
    if mixed or "#" in levels[:-1]:
        return f"{topic!r}: + stands alone in a level, and # alone in the last"
    return topic_error(topic.translate({ord("+"): "x", ord("#"): "x"}))
