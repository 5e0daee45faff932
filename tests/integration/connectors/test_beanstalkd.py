"""What beanstalkd does beyond the queues' conformance: it refuses messages for a while, and counts jobs anew."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence

import pytest
from beanstalkd_place import BeanstalkPlace, BeanstalkServer

from tupletree.connectors.beanstalkd import TubeSink
from tupletree.connectors.formats import Text
from tupletree.connectors.messages import SinkMessage
from tupletree.testing import wait_until


class ForgetfulServer(BeanstalkServer):
    """A server that has its messages in memory alone."""

    def command(self) -> Sequence[str]:
        return ["/usr/bin/beanstalkd", "-l", "127.0.0.1", "-p", str(self.port)]


@pytest.mark.skipif(bool(BeanstalkServer.missing()), reason=BeanstalkServer.missing() or "it is installed")
def test_a_job_keeps_its_id_over_connections_and_shares_it_with_none_of_an_earlier_server() -> None:
    server = ForgetfulServer()
    ids = []
    try:
        for _ in range(2):
            server.start()
            place = BeanstalkPlace(server, "tube")
            place.put([b"x"])
            for _ in range(2):
                source = place.spout(Text()).source
                source.open(10, 0)
                [delivery] = wait_until(lambda source=source: source.receive(10, 0.1))
                ids.append((delivery.handle, delivery.id))
                source.close()
            server.stop()
    finally:
        server.close()
    assert [handle for handle, _ in ids] == [1] * 4
    assert ids[0] == ids[1] and ids[2] == ids[3] and ids[0] != ids[2]


@pytest.mark.skipif(bool(BeanstalkServer.missing()), reason=BeanstalkServer.missing() or "it is installed")
def test_a_server_that_drains_is_a_lost_connection() -> None:
    server = BeanstalkServer()
    try:
        server.start()
        place = BeanstalkPlace(server, "tube")
        sink = TubeSink("TubeSink", f"127.0.0.1:{server.port}", "tube", 65536, 0, 60)
        sink.open()
        sink.write([SinkMessage(b"taken")])
        [process] = server.processes()
        os.kill(process, signal.SIGUSR1)

        def is_refused() -> bool:
            try:
                sink.write([SinkMessage(b"more")])
            except ConnectionError as error:
                assert str(error) == "beanstalkd refuses: DrainingError"
                return True
            return False

        wait_until(is_refused)
        sink.close()
        assert place.drain()[0] == b"taken"
    finally:
        server.close()


@pytest.mark.skipif(bool(BeanstalkServer.missing()), reason=BeanstalkServer.missing() or "it is installed")
def test_a_server_that_answers_nothing_is_a_lost_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tupletree.connectors.beanstalkd.ANSWER_S", 0.3)
    server = BeanstalkServer()
    try:
        server.start()
        sink = TubeSink("TubeSink", f"127.0.0.1:{server.port}", "tube", 65536, 0, 60)
        source = BeanstalkPlace(server, "tube").spout(Text()).source
        sink.open()
        source.open(10, 0)
        [process] = server.processes()
        os.kill(process, signal.SIGSTOP)
        for ask in (
            lambda: source.receive(10, 0.1),
            lambda: source.open(10, 0),
            lambda: sink.write([SinkMessage(b"x")]),
        ):
            with pytest.raises(TimeoutError):
                ask()
        os.kill(process, signal.SIGCONT)
        source.close()
        sink.close()
        source.open(10, 0)
        assert [one.data for one in wait_until(lambda: source.receive(10, 0.1))] == [b"x"]
        source.close()
    finally:
        server.close()
