"""WebhookSpout: a source that other programs send HTTP requests to, answered when they are processed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from uuid import uuid4

from tupletree._replay import Pending
from tupletree.backoff import Backoff
from tupletree.component import SpoutCollector, TopologyContext
from tupletree.connectors.arguments import check, check_seconds, check_text, check_whole
from tupletree.connectors.formats import Format, checked_format
from tupletree.connectors.http.open_requests import FAILED, GIVEN_UP, PROCESSED, Answer, OpenRequest
from tupletree.connectors.http.webhook_receiver import Webhook, WebhookReceiver
from tupletree.connectors.source_thread import register_thread
from tupletree.errors import UsageError
from tupletree.outputs import DEFAULT_STREAM
from tupletree.replaying_spout import ReplayingSpout

MAX_PORT: Final = 65_535
LISTEN_AGAIN_S: Final = 1.0


def _be_polled() -> None:
    """Do nothing: a spout is polled after each call, and need not wait for its next poll."""


class WebhookSpout(ReplayingSpout):
    """Emits the bodies of POST requests, and answers each request when its tuple tree is complete.

        WebhookSpout(8090, Json(["order", "amount"]), host="0.0.0.0", path="/orders")

    **At least once, if the caller repeats.** A request is answered 200 only when it is processed. In every other case
    the caller gets another answer or a broken connection, and must send the request again: it may have been processed.
    With ``answer="accepted"`` a request is answered 202 when it is accepted, and is lost if its worker dies.

    **Answers.** 200: processed. 422: given up, because a bolt has failed it for good (``FailedException`` with
    ``retry=False``), or because it became a dead letter, whose tree is complete; it is not to be sent again. 503, with
    Retry-After: it failed after all attempts, is not processed after ``timeout_s``, ``max_in_flight`` requests are in
    process, or the topology is deactivated. 4xx: the request cannot be processed, such as a body not in ``format``.

    **Repetitions.** A request with the key of a request in process joins it; one with a key that was answered 200 or
    422 gets the same answer again. Each task knows the keys of its own requests, the last ``max_keys`` of them, and
    forgets them when its worker ends.

    **Ports.** Each task listens on ``port + context.task_index``, on the machine of its worker. While the port is
    taken, the task reports it, and tries again.

    Args:
        port: the port of the first task, from 1.
        format: decodes bodies; its fields are the spout's outputs.
        host: the address to listen on; "0.0.0.0" for callers on other machines.
        path: the path of the requests; a query is ignored.
        answer: "processed" or "accepted".
        timeout_s: the seconds after which a caller gets 503; the request stays in process if it was emitted.
        max_in_flight: the maximum number of requests in process, and of callers that wait, per task.
        max_body_bytes: the maximum size of a body.
        key_header: the header with the key of a request, which becomes the message's id; without it the id is random.
        max_keys: the maximum number of keys that are remembered with their answers.
        secret: if set, ``signature_header`` must have the HMAC-SHA256 of the body in hexadecimal digits.
        signature_header: the header with the signature; a prefix ``sha256=`` is allowed.
        tls: the files of a certificate and its key, on the worker's machine; read when the task begins to listen.

    Raises:
        UsageError: an argument is out of range.

    Attributes:
        retry: the attempts and the pauses between them. Attempts take time in which the caller waits.
    """

    retry: Backoff = Backoff(first_s=0.1, factor=2, max_s=1, max_attempts=3)
    _is_ordered = False

    def __init__(
        self,
        port: int,
        format: Format | None = None,
        *,
        host: str = "127.0.0.1",
        path: str = "/",
        answer: str = "processed",
        timeout_s: float = 30.0,
        max_in_flight: int = 1000,
        max_body_bytes: int = 1024 * 1024,
        key_header: str = "Idempotency-Key",
        max_keys: int = 10_000,
        secret: str | bytes | None = None,
        signature_header: str = "X-Hub-Signature-256",
        tls: tuple[str, str] | None = None,
    ) -> None:
        self.format = checked_format(self, format)
        self.outputs = self.format.outputs  # type: ignore[misc]  # set per instance, unlike in other spouts
        owner = type(self).__name__
        check_whole(owner, "port", port, 1, MAX_PORT)
        check_whole(owner, "max_in_flight", max_in_flight)
        check_whole(owner, "max_body_bytes", max_body_bytes)
        check_whole(owner, "max_keys", max_keys, 0)
        for name, text in {"host": host, "key_header": key_header, "signature_header": signature_header}.items():
            check_text(owner, name, text)
        is_path = isinstance(path, str) and path.startswith("/") and "?" not in path
        is_pair = tls is None or (
            isinstance(tls, tuple | list) and len(tls) == 2 and all(isinstance(one, str) for one in tls)
        )
        is_secret = secret is None or (isinstance(secret, str | bytes) and bool(secret))
        check(owner, "path", path, is_path, "a path that begins with / and has no query")
        check(owner, "answer", answer, answer in ("processed", "accepted"), "'processed' or 'accepted'")
        check_seconds(owner, "timeout_s", timeout_s)
        check(owner, "secret", secret, is_secret, "None, or text or bytes that are not empty,", is_secret=True)
        check(owner, "tls", tls, is_pair, "None or the files of a certificate and its key")
        known_secret = secret.encode() if isinstance(secret, str) else secret
        self._webhook = Webhook(
            port, self.format, host, path, answer, timeout_s, max_in_flight, max_body_bytes, key_header, max_keys,
            known_secret, signature_header, tls,
        )  # fmt: skip

    def open(self, conf: Mapping[str, Any], context: TopologyContext, collector: SpoutCollector) -> None:
        self._requests: dict[Pending, OpenRequest] = {}
        self._answers: dict[Pending, Answer] = {}  # of requests that are given up
        self._listen_at_s = 0.0
        receiver = self._receiver = WebhookReceiver(self._webhook, lambda: context.call_soon(_be_polled))
        context.outstanding = lambda: receiver.outstanding - len(self._requests)
        port = self._webhook.port + context.task_index
        register_thread(context, receiver, "queue", f"HTTP port {port}, path {self._webhook.path}")
        text = "Requests that a webhook spout has answered with status 503."
        context.register_own("webhook_unavailable", "counter", text, lambda: receiver.refused)

    def close(self) -> None:
        self._receiver.close()

    def activate(self) -> None:
        self._receiver.set_active(True)

    def deactivate(self) -> None:
        self._receiver.set_active(False)

    def next_tuple(self) -> None:
        if self._send_due():
            return
        if not self._receiver.is_connected and not self._listen():
            return
        request = self._receiver.next()
        if request is not None:
            pending = self._replay.begin(request.row, DEFAULT_STREAM, request.id or uuid4().hex)
            self._requests[pending] = request
            self._send(pending)

    def _listen(self) -> bool:
        """Listen if it is time to try; return true if the port is open."""
        now_s = self.context.clock()
        if now_s < self._listen_at_s:
            return False
        self._listen_at_s = now_s + LISTEN_AGAIN_S
        told = self._receiver.error
        try:
            self._receiver.listen(self._webhook.port + self.context.task_index)
        except UsageError as error:
            if str(error) != told:
                self.collector.report_error(error)
            return False
        return True

    def _give_up(self, pending: Pending) -> None:
        reason = pending.reason
        is_final = self.dead_letters is not None or (reason is not None and not reason.retry)
        self._answers[pending] = GIVEN_UP if is_final else FAILED
        super()._give_up(pending)

    def _finish(self, pending: Pending) -> None:
        self._receiver.finish(self._requests.pop(pending), self._answers.pop(pending, PROCESSED))
