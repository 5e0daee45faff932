"""HTTP: requests, event streams and WebSockets as sources, and requests as a sink.

A server is part of Tupletree; clients need the extra ``tupletree[http]``.
"""

from __future__ import annotations

from tupletree.connectors.http.http_bolt import HttpBolt
from tupletree.connectors.http.webhooks import WebhookSpout

__all__ = ["HttpBolt", "WebhookSpout"]
