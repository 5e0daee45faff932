"""What beanstalkd does beyond the queues' conformance: it refuses messages for a while."""

from __future__ import annotations

import os
import signal

import pytest
from beanstalkd_place import BeanstalkPlace, BeanstalkServer

from tupletree.connectors.beanstalkd import TubeSink
from tupletree.connectors.sinks import SinkMessage
from tupletree.testing import wait_until


@pytest.mark.skipif(bool(BeanstalkServer.missing()), reason=BeanstalkServer.missing() or "it is installed")
def test_a_server_that_drains_is_a_lost_connection() -> None:
    server = BeanstalkServer()
    try:
        server.start()
        place = BeanstalkPlace(server, "tube")
        sink = TubeSink(f"127.0.0.1:{server.port}", "tube", 65536, 0, 60)
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
