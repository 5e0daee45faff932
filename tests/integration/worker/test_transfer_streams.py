"""Tuples between two workers over real gRPC: what arrives, what is refused, and what a broken stream costs."""

import asyncio
import functools
import time

import grpc
import pytest
from transfer_scene import BOLT_TASK, SEEN, SPOUT_TASK, Receiver, Sender, until

from tupletree._rpc.channels import aio_channel
from tupletree._rpc.server import start_server
from tupletree.errors import ProtocolError
from tupletree.v1 import worker_pb2, worker_pb2_grpc
from tupletree.worker.core.batches import EncodedBatch
from tupletree.worker.execution.inbox import not_reached
from tupletree.worker.execution.load_shares import MAX_WAIT_S
from tupletree.worker.network.peer_links import SILENT_S, UNCONFIRMED_BYTES


@pytest.fixture(autouse=True)
def nothing_seen():
    SEEN.clear()


def test_what_is_sent_before_the_receiver_is_ready_arrives_in_order_when_it_is():
    async def run():
        receiver, sender = Receiver(), Sender()
        async with receiver.serving() as port:
            await sender.follow(port)
            for value in range(50):
                sender.send(receiver, [value], root=100 + value)
            assert sender.gate.closed == not_reached([BOLT_TASK])
            receiver.engine.start()
            receiver.opened.set()
            await until(lambda: len(SEEN) == 50)
            await until(lambda: sender.peers.is_idle)
            assert [([value], ((100 + value, 101 + value),)) for value in range(50)] == SEEN
            assert (sender.gate.closed, sender.failed, set(receiver.versions)) == (frozenset(), set(), {3})
            await sender.peers.close()
        receiver.engine.stop(5)

    asyncio.run(run())


def test_unconfirmed_frames_are_failed_when_the_stream_breaks_and_unsent_ones_wait_for_the_next_worker():
    async def run():
        receiver, sender = Receiver(), Sender()
        receiver.opened.set()
        receiver.engine.start()
        stuck = receiver.service._receive
        receiver.service._receive = lambda request, stream: None  # takes frames and confirms none
        async with receiver.serving() as port:
            await sender.follow(port)
            await until(lambda: sender.peers.are_up(["slot"]))
            sender.send(receiver, ["lost"], root=7)
            await until(lambda: not sender.peers._links["slot"]._waiting)
        await until(lambda: sender.failed == {7})
        assert sender.gate.closed == not_reached([BOLT_TASK])
        sender.send(receiver, ["kept"], root=9)
        receiver.service._receive = stuck
        async with receiver.serving() as port:
            await sender.follow(port)
            await until(lambda: SEEN == [(["kept"], ((9, 10),))])
            assert sender.failed == {7}
            await sender.peers.close()
        receiver.engine.stop(5)

    asyncio.run(run())


def test_that_another_worker_answers_is_told_once(caplog):
    """The snapshot names the one that died for as long as ZooKeeper is away."""
    caplog.set_level("INFO")

    async def run():
        receiver, sender, attempts = Receiver(), Sender(), []
        check = receiver.service._check_hello

        def counted(request):
            attempts.append(request)
            check(request)

        receiver.service._check_hello = counted
        async with receiver.serving() as port:
            await sender.follow(port, "dead")
            await until(lambda: len(attempts) >= 4)
            await sender.peers.close()

    asyncio.run(run())
    assert caplog.text.count("peer.lost") == 1 == caplog.text.count("this is worker w2 of topology t, not dead of t")


def test_congestion_is_announced_and_relieved():
    async def run():
        receiver, sender = Receiver(limit=10), Sender()
        receiver.opened.set()
        async with receiver.serving() as port:
            await sender.follow(port)
            await until(lambda: sender.peers.are_up(["slot"]) and not sender.gate.closed)
            sender.send(receiver, range(11))
            await until(lambda: sender.gate.closed == {BOLT_TASK})
            receiver.engine.start()
            await until(lambda: not sender.gate.closed and len(SEEN) == 11)
            await sender.peers.close()
        receiver.engine.stop(5)

    asyncio.run(run())


def test_loads_are_told_with_what_is_confirmed_and_forgotten_with_the_link():
    async def run():
        receiver, sender = Receiver(), Sender()
        loads = sender.gate.loads

        def is_told(is_loaded):
            """What the sender knows, after another row and another sample."""
            sender.send(receiver, [0])
            receiver.engine.run_watchdog()
            return bool(loads.waits_s(time.monotonic())) is is_loaded

        receiver.opened.set()
        async with receiver.serving() as port:
            await sender.follow(port)
            await until(lambda: is_told(True))  # the engine does not run, so the rows wait
            assert set(loads.free_s) == {BOLT_TASK}
            receiver.engine.start()
            await until(lambda: is_told(False))
            receiver.engine.stop(5)
            await until(lambda: is_told(True))
        await until(lambda: not loads.free_s)
        await sender.peers.close()

    asyncio.run(run())


def test_a_load_that_has_ended_early_is_told_even_if_nothing_more_is_sent():
    async def run():
        receiver, sender = Receiver(), Sender()
        loads = sender.gate.loads

        def sample():
            receiver.engine.run_watchdog()
            receiver.service.loads_sampled()

        def is_loaded():
            """True once the sender knows that no row has ended for long."""
            sender.send(receiver, [0])
            receiver.skew_s += 5
            sample()
            return any(wait_s > 20 for wait_s in loads.waits_s(time.monotonic()).values())

        def is_free():
            sample()
            return not loads.free_s

        receiver.opened.set()
        async with receiver.serving() as port:
            await sender.follow(port)
            await until(is_loaded)
            await until(lambda: sender.peers.is_idle)
            receiver.engine.start()
            await until(is_free)
            receiver.engine.stop(5)
        await sender.peers.close()

    asyncio.run(run())


class Exaggerating(worker_pb2_grpc.WorkerServicer):
    """A receiver whose tasks are all said to be loaded for seven weeks."""

    async def Transfer(self, requests, context):
        loads = [worker_pb2.TaskLoad(tasks=[BOLT_TASK, 77], wait_ms=2**32 - 1)]
        yield worker_pb2.TransferStatus(loads=loads)
        await asyncio.Event().wait()


def test_of_a_load_no_more_than_the_longest_wait_is_believed_and_nothing_of_tasks_of_others():
    async def run():
        sender = Sender()
        add = functools.partial(worker_pb2_grpc.add_WorkerServicer_to_server, Exaggerating())
        server = await start_server([add], "127.0.0.1", 0)
        try:
            await sender.follow(server.port)
            await until(lambda: sender.gate.loads.free_s)
            waits_s = sender.gate.loads.waits_s(time.monotonic())
            assert waits_s.keys() == {BOLT_TASK}
            assert 0 < waits_s[BOLT_TASK] <= MAX_WAIT_S
            await sender.peers.close()
        finally:
            await server.stop(0)

    asyncio.run(run())


class Silent(worker_pb2_grpc.WorkerServicer):
    """A receiver that takes what is sent, and confirms nothing until it is told to."""

    def __init__(self):
        self.confirms = asyncio.Event()

    async def Transfer(self, requests, context):
        yield worker_pb2.TransferStatus()
        await self.confirms.wait()
        yield worker_pb2.TransferStatus(confirmed=1)
        await asyncio.Event().wait()


def test_a_peer_that_confirms_nothing_is_loaded_until_it_does():
    async def run():
        receiver, sender, silent = Receiver(), Sender(), Silent()
        loads = sender.gate.loads
        add = functools.partial(worker_pb2_grpc.add_WorkerServicer_to_server, silent)
        server = await start_server([add], "127.0.0.1", 0)

        def is_loaded():
            sender.send(receiver, [0])
            return loads.waits_s(time.monotonic()).get(BOLT_TASK, 0.0) > SILENT_S

        try:
            await sender.follow(server.port)
            await until(is_loaded)
            silent.confirms.set()
            await until(lambda: not loads.free_s)
            await sender.peers.close()
        finally:
            await server.stop(0)

    asyncio.run(run())


def hello(**changes):
    names = {"topology_id": "t", "from_worker_id": "w1", "to_worker_id": "w2", **changes}
    return worker_pb2.TransferRequest(hello=worker_pb2.TransferHello(**names))


def frame(sequence=1, **batch):
    fields = {
        "source_task": SPOUT_TASK,
        "stream": "default",
        "target_task": BOLT_TASK,
        "rows": 1,
        "values": b"\x91\x91\x01",
    }
    message = worker_pb2.Batch(**{**fields, **batch})
    return worker_pb2.TransferRequest(frame=worker_pb2.Frame(sequence=sequence, batches=[message]))


@pytest.mark.parametrize(
    ("requests", "code"),
    [
        ([], grpc.StatusCode.OUT_OF_RANGE),
        ([frame()], grpc.StatusCode.OUT_OF_RANGE),
        ([hello(to_worker_id="an earlier one")], grpc.StatusCode.ABORTED),
        ([hello(topology_id="another")], grpc.StatusCode.ABORTED),
        ([hello(), hello()], grpc.StatusCode.OUT_OF_RANGE),
        ([hello(), frame(sequence=2)], grpc.StatusCode.OUT_OF_RANGE),
        ([hello(), frame(target_task=SPOUT_TASK)], grpc.StatusCode.OUT_OF_RANGE),
        ([hello(), frame(target_task=99)], grpc.StatusCode.OUT_OF_RANGE),
        ([hello(), frame(source_task=99)], grpc.StatusCode.OUT_OF_RANGE),
        ([hello(), frame(stream="none")], grpc.StatusCode.OUT_OF_RANGE),
        ([hello(), frame(roots=b"1234567")], grpc.StatusCode.OUT_OF_RANGE),
        ([hello(), frame(roots=b"12345678")], grpc.StatusCode.OUT_OF_RANGE),
        ([hello(), frame(multi=[worker_pb2.MultiRow(row=1)])], grpc.StatusCode.OUT_OF_RANGE),
    ],
)  # fmt: skip
def test_a_peer_that_speaks_nonsense_is_dropped_and_others_are_served(requests, code):
    async def run():
        receiver = Receiver()
        receiver.opened.set()
        receiver.engine.start()
        async with receiver.serving() as port, aio_channel(f"127.0.0.1:{port}") as channel:
            stub = worker_pb2_grpc.WorkerStub(channel)
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                async for _ in stub.Transfer(iter(requests), timeout=10):
                    pass
            assert caught.value.code() == code
            good = stub.Transfer(iter([hello(), frame()]), timeout=10)
            await until(lambda: [values for values, _ in SEEN] == [[1]])
            good.cancel()
        receiver.engine.stop(5)

    asyncio.run(run())


def test_values_that_cannot_be_decoded_fail_their_trees_and_nothing_else():
    async def run():
        receiver, sender = Receiver(), Sender()
        receiver.opened.set()
        receiver.engine.start()
        async with receiver.serving() as port:
            await sender.follow(port)
            root = (77).to_bytes(8, "little")
            for values in (b"\xc1", b"\x91\x92\x01\x02"):
                batch = EncodedBatch.of(frame(values=values, roots=root, edges=root).frame.batches[0])
                sender.peers.send(batch, frozenset([BOLT_TASK]))
            sender.send(receiver, ["fine"])
            await until(lambda: [values for values, _ in SEEN] == [["fine"]])
            await until(lambda: {root for updates in receiver.posted for root in updates.fails} == {77})
            await sender.peers.close()
        receiver.engine.stop(5)

    asyncio.run(run())


def test_a_task_that_has_no_place_at_all_is_closed_once_something_waits_for_it():
    """Nimbus may have too few slots. What waits must not grow without bound, and arrives when there is a place."""

    async def run():
        receiver, sender = Receiver(), Sender()
        async with receiver.serving() as port:
            receiver.engine.start()
            receiver.opened.set()
            await sender.peers.connect({}, {})
            assert sender.gate.closed == frozenset()
            sender.send(receiver, [1], root=10)
            assert sender.gate.closed == not_reached([BOLT_TASK])
            await sender.peers.connect({}, {})
            assert sender.gate.closed == not_reached([BOLT_TASK])
            await sender.follow(port)
            await until(lambda: SEEN == [([1], ((10, 11),))])
            assert sender.gate.closed == frozenset()
            await sender.peers.close()
            await asyncio.to_thread(receiver.engine.stop, 5)

    asyncio.run(run())


def piece(sequence=1, size=10, offset=0, data=b"x", batches=()):
    message = worker_pb2.Piece(size=size, offset=offset, data=data)
    return worker_pb2.TransferRequest(frame=worker_pb2.Frame(sequence=sequence, piece=message, batches=batches))


@pytest.mark.parametrize(
    "requests",
    [
        [piece(size=2**63)],
        [piece(offset=1)],
        [piece(), piece(sequence=2)],
        [piece(), frame(sequence=2)],
        [piece(batches=frame().frame.batches)],
        [piece(size=1, data=b"\xff")],
    ],
)
def test_pieces_out_of_order_or_too_large_end_the_stream_and_others_are_served(requests):
    test_a_peer_that_speaks_nonsense_is_dropped_and_others_are_served(
        [hello(), *requests], grpc.StatusCode.OUT_OF_RANGE
    )


def test_a_large_batch_whose_stream_breaks_midway_is_sent_again_whole_and_once():
    async def run():
        receiver, sender = Receiver(), Sender()
        receiver.opened.set()
        receiver.engine.start()
        take, frames = receiver.service._receive, []

        def take_two(request, stream):
            frames.append(request.frame.sequence)
            take(request, stream)
            if len(frames) == 2:
                raise ProtocolError("the stream breaks here")

        receiver.service._receive = take_two
        value = bytes(2 * UNCONFIRMED_BYTES)  # so that the last piece is not sent before the first are confirmed
        async with receiver.serving() as port:
            await sender.follow(port)
            sender.send(receiver, [b"before"], root=5)
            sender.send(receiver, [value], root=7)
            sender.send(receiver, [b"after"], root=9)
            await until(lambda: len(SEEN) == 3)
            await until(lambda: sender.peers.is_idle)
            assert [b"before", value, b"after"] == [values[0] for values, _ in SEEN]
            assert 7 not in sender.failed
            assert sender.gate.closed == frozenset()
            await sender.peers.close()
        receiver.engine.stop(5)

    asyncio.run(run())


def test_a_large_batch_whose_last_piece_is_not_confirmed_is_failed():
    async def run():
        receiver, sender = Receiver(), Sender()
        receiver.opened.set()
        receiver.engine.start()
        receiver.service._receive = lambda request, stream: None  # takes frames and confirms none
        async with receiver.serving() as port:
            await sender.follow(port)
            await until(lambda: sender.peers.are_up(["slot"]))
            sender.send(receiver, [bytes(3_000_000)], root=7)
            await until(lambda: not sender.peers._links["slot"]._waiting)
        await until(lambda: sender.failed == {7})
        await sender.peers.close()
        receiver.engine.stop(5)

    asyncio.run(run())
