"""HTTP: requests, event streams and WebSockets as sources, and requests as a sink.

The server of ``WebhookSpout`` is part of Tupletree. The other classes need the extra ``tupletree[http]``.
"""

from __future__ import annotations

from tupletree.connectors.http.http_bolt import HttpBolt
from tupletree.connectors.http.stream_spouts import EventStreamSpout, WebSocketSpout
from tupletree.connectors.http.webhooks import WebhookSpout

__all__ = ["EventStreamSpout", "HttpBolt", "WebSocketSpout", "WebhookSpout"]
