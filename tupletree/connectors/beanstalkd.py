"""Tubes of beanstalkd (1.4 or newer): reserve, delete, release with a delay, bury; as Kestrel's spout for Storm.

A message that is given up without dead letters is buried: ``kick`` returns it to the tube.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from tupletree.connectors.arguments import check, check_seconds, check_whole, checked_address
from tupletree.connectors.extras import imported
from tupletree.connectors.formats import Format
from tupletree.connectors.messages import SinkMessage
from tupletree.connectors.queue_source import Delivery, QueueSource
from tupletree.connectors.queue_spout import QueueSpout
from tupletree.connectors.sinks import Sink, SinkBolt
from tupletree.errors import FailedException

PORT = 11300
ANSWER_S = 10.0
"""How long an answer of the server may take: then the connection is lost."""
DEFAULT_TUBE = "default"
PRIORITY = 65536
TTR_S = 60
MAX_NUMBER = 2**32 - 1
_SIGNS = "-+/;.$_()"
_TUBE = re.compile(rf"(?!-)[A-Za-z0-9{re.escape(_SIGNS)}]{{1,200}}")


class BeanstalkSpout(QueueSpout):
    """Emits the messages of a tube: they are reserved, and deleted when their tree is complete.

    A message that fails is released with a delay. One that is given up without dead letters is buried; ``kick`` of
    beanstalkd's tools returns it to the tube. Attempts are the reserves that beanstalkd counts.

        builder.set_spout("orders", BeanstalkSpout("localhost:11300", "orders", Json(["id", "amount"])))

    ``keep_every_s``: how often messages in process are touched. It must be less than the shortest time to run that
    producers set; beanstalkd delivers a message again when its time is over.
    """

    def __init__(
        self,
        address: str,
        tube: str = "default",
        format: Format | None = None,
        *,
        max_in_flight: int = 1000,
        keep_every_s: float = TTR_S / 3,
    ) -> None:
        check_seconds(type(self).__name__, "keep_every_s", keep_every_s)
        source = Tube(type(self).__name__, address, tube, keep_every_s)
        super().__init__(source, format, max_in_flight=max_in_flight)


class BeanstalkBolt(SinkBolt):
    """Puts each tuple into a tube. It is acked when beanstalkd has inserted it."""

    def __init__(
        self,
        address: str,
        tube: str = "default",
        format: Format | None = None,
        *,
        priority: int = PRIORITY,
        delay_s: int = 0,
        ttr_s: int = TTR_S,
    ) -> None:
        owner = type(self).__name__
        check_whole(owner, "priority", priority, 0, MAX_NUMBER)
        check_whole(owner, "delay_s", delay_s, 0, MAX_NUMBER)
        check_whole(owner, "ttr_s", ttr_s, 1, MAX_NUMBER)
        super().__init__(TubeSink(owner, address, tube, priority, delay_s, ttr_s), format)


class _Connection:
    """A connection to beanstalkd, which uses one tube."""

    title: ClassVar[str] = "beanstalkd"

    def __init__(self, user: str, address: str, tube: str) -> None:
        self.address = checked_address(user, "address", address, PORT)
        is_tube = isinstance(tube, str) and bool(_TUBE.fullmatch(tube))
        check(user, "tube", tube, is_tube, f"a name of 1 to 200 letters, digits and {_SIGNS}, not - first,")
        self.tube = tube
        self._client: Any = None

    def connect(self, *, watches: bool = False) -> None:
        """Connect, and use the tube. ``watches``: messages of the tube are reserved, and of no other."""
        self._greenstalk = imported("greenstalk", "beanstalkd")
        self._client = self._greenstalk.Client(self.address, encoding=None)
        try:
            self._client._sock.settimeout(ANSWER_S)  # greenstalk waits for good, and has no argument for this
            self._client.use(self.tube)
            if watches and self.tube != DEFAULT_TUBE:
                self._client.watch(self.tube)
                self._client.ignore(DEFAULT_TUBE)
        except BaseException:
            self.close()
            raise

    @contextlib.contextmanager
    def refusals(self) -> Iterator[None]:
        """Raise ConnectionError if beanstalkd refuses, as while it drains or has no memory left."""
        try:
            yield
        except self._greenstalk.Error as error:
            raise ConnectionError(f"beanstalkd refuses: {type(error).__name__}") from error

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            with contextlib.suppress(Exception):
                client.close()


class Tube(_Connection, QueueSource):
    """A tube as a source."""

    has_delays: ClassVar[bool] = True
    counts = True

    def __init__(self, user: str, address: str, tube: str, keep_every_s: float) -> None:
        super().__init__(user, address, tube)
        self.keep_every_s = keep_every_s

    def open(self, prefetch: int, task_index: int) -> None:
        self.connect(watches=True)
        with self.refusals():
            stats = self._client.stats()
        self._server = stats.get("id", stats["pid"])  # a server that starts again may count jobs from 1 again

    def receive(self, limit: int, wait_s: float) -> Sequence[Delivery]:
        found: list[Delivery] = []
        while len(found) < limit:
            with self.refusals():
                try:
                    job = self._client.reserve(timeout=0)
                    reserves = self._client.stats_job(job)["reserves"]
                except self._greenstalk.TimedOutError:
                    break
                except (self._greenstalk.DeadlineSoonError, self._greenstalk.NotFoundError):
                    break  # a message in process is touched soon, or is delivered again
            found.append(Delivery(job.body, job.id, f"{job.id} of server {self._server}", reserves))
        if not found:
            time.sleep(wait_s)  # reserve waits for whole seconds
        return found

    def acknowledge(self, handles: Sequence[Any]) -> None:
        self._each(self._client.delete, handles)

    def release(self, handles: Sequence[Any], delay_s: float) -> None:
        self._each(lambda job: self._client.release(job, delay=round(delay_s)), handles)

    def reject(self, handles: Sequence[Any]) -> None:
        self._each(self._client.bury, handles)

    def keep(self, handles: Sequence[Any]) -> None:
        self._each(self._client.touch, handles)

    def lag(self) -> int:
        with self.refusals():
            stats = self._client.stats_tube(self.tube)
        return int(stats["current-jobs-ready"] + stats["current-jobs-delayed"])

    def _each(self, act: Any, handles: Sequence[Any]) -> None:
        for handle in handles:
            # Not found: its time was over, and it is delivered again.
            with self.refusals(), contextlib.suppress(self._greenstalk.NotFoundError):
                act(self._greenstalk.Job(handle, b""))


class TubeSink(_Connection, Sink):
    """A tube as a sink."""

    def __init__(self, user: str, address: str, tube: str, priority: int, delay_s: int, ttr_s: int) -> None:
        super().__init__(user, address, tube)
        self._options = {"priority": priority, "delay": delay_s, "ttr": ttr_s}

    def open(self) -> None:
        self.connect()

    def write(self, messages: Sequence[SinkMessage]) -> Mapping[int, FailedException]:
        refused = {}
        for index, message in enumerate(messages):
            with self.refusals():
                try:
                    self._client.put(message.data, **self._options)
                except self._greenstalk.JobTooBigError:
                    text = f"beanstalkd takes no message of {len(message.data)} bytes: raise its option -z"
                    refused[index] = FailedException(text, retry=False)
        return refused
