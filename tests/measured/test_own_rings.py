"""Vhost-user rings that the engine drives itself: frames of all kinds, and ends that die."""

from __future__ import annotations

import os
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.generators.embedded.ceiling import directions, loop_ports
from pytest_nfvperf.adapters.generators.embedded.generator import EngineOptions
from pytest_nfvperf.adapters.host.hugepages import read_hugepages
from pytest_nfvperf.adapters.ovs.ovs_datapath import OvsDatapath
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.adapters.process.process import wait_until
from pytest_nfvperf.measure.rig import generator_ports
from pytest_nfvperf.model.disturbance.trial import Reason
from pytest_nfvperf.model.errors import DeadlineError, GeneratorError
from pytest_nfvperf.model.traffic.traffic import Imix, Traffic
from pytest_nfvperf.ports.generator import OWN_RING, GeneratorPort
from tests.functional.generator_support import (
    check_identities,
    embedded_in,
    forwards_whole,
    loop_in,
    looped_rig,
    run_dir,
    spec,
)
from tests.functional.ovs_support import needs_hugepages, needs_root, phy2phy, started

DIRECTIONS = directions(Traffic())


@pytest.fixture
def directory() -> Iterator[Path]:
    with run_dir() as made:
        yield made


@pytest.mark.parametrize(
    "traffic",
    [
        Traffic(),
        Traffic(frame_size=128, flows=1000),
        Traffic(frame_size=1518),
        Traffic(frame_size=9000),
        Traffic(frame_size=Imix("simple", ((64, 7), (594, 4), (1518, 1)))),
        Traffic(frame_size=128, src_ip="2001:db8::1", dst_ip="2001:db8:1::1", flows=300),
        Traffic(vlan=7),
    ],
    ids=["64", "flows", "1518", "jumbo", "imix", "ipv6", "vlan"],
)
def test_frames_of_all_kinds_come_through_whole(directory: Path, traffic: Traffic) -> None:
    with loop_in(directory) as loop, looped_rig(directory, loop) as rig:
        generator = rig.attach()
        for counts in generator.run_trial(spec(rig.directions, traffic=traffic)).counts:
            check_identities(counts)


def test_both_ways_of_driving_a_ring_count_alike(directory: Path) -> None:
    """Each n-th frame is dropped by the loop: the same ones are lost to either."""
    for own_rings in (True, False):
        under = directory / str(own_rings)
        under.mkdir()
        options = EngineOptions(own_rings=own_rings)
        with loop_in(under, drop_every=10) as loop, embedded_in(under, options=options) as generator:
            ports = loop_ports(loop.devices)
            generator.attach(ports)
            generator.wait_links_up(5.0)
            result = generator.run_trial(spec(DIRECTIONS, load_fps=10_000))
            for counts in result.counts:
                assert counts.lost == counts.sent // 10 > 0
            assert [counts.corrupted for counts in result.counts] == [0, 0]


def test_a_switch_that_goes_is_let_in_again(directory: Path) -> None:
    with embedded_in(directory) as generator:
        with loop_in(directory) as loop:
            generator.attach(loop_ports(loop.devices))
            generator.wait_links_up(5.0)
            generator.run_trial(spec(DIRECTIONS))
        for _ in range(5):
            with pytest.raises(DeadlineError, match="no link on ceiling0, ceiling1"):
                generator.wait_links_up(0.1)
            with loop_in(directory):
                generator.wait_links_up(5.0)
                for counts in generator.run_trial(spec(DIRECTIONS)).counts:
                    check_identities(counts)


def test_a_killed_engine_leaves_a_socket_that_the_next_one_takes(directory: Path) -> None:
    with loop_in(directory) as loop:
        for _ in range(3):
            with embedded_in(directory) as generator:
                generator.attach(loop_ports(loop.devices))
                generator.wait_links_up(5.0)
                for counts in generator.run_trial(spec(DIRECTIONS)).counts:
                    check_identities(counts)
                os.kill(generator.pid, signal.SIGKILL)


@contextmanager
def _back_end(path: Path, answer: Callable[[bytes], bytes | None]) -> Iterator[None]:
    """Connects to the engine's socket in a switch's place, and answers each message as `answer` says.

    An engine that gave up closes the socket: on a busy machine between its message and the answer.
    """
    stop = threading.Event()

    def talk() -> None:
        with socket.socket(socket.AF_UNIX) as end, suppress(BrokenPipeError, ConnectionResetError):
            while not stop.is_set() and end.connect_ex(str(path)) != 0:
                stop.wait(0.01)
            end.settimeout(0.1)
            while not stop.is_set():
                with suppress(TimeoutError):
                    message = end.recv(4096)
                    if not message:
                        return
                    if (said := answer(message)) is not None:
                        end.sendall(said)

    thread = threading.Thread(target=talk)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _number(request: int, number: int) -> bytes:
    """An answer of vhost-user: request, flags (version 1, reply), 8 bytes, the number."""
    return struct.pack("<IIIQ", request, 1 | 1 << 2, 8, number)


def _late(message: bytes) -> bytes | None:
    """Packed rings and REPLY_ACK are offered, and each answer takes more than a second."""
    request, flags, _ = struct.unpack_from("<III", message)
    time.sleep(1.2)  # what is tested
    asked = {1: 1 << 30 | 1 << 32 | 1 << 34, 15: 1 << 3}
    if request in asked:
        return _number(request, asked[request])
    return _number(request, 0) if flags & 1 << 3 else None


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (lambda _: None, "does not answer GET_FEATURES within 2000 ms"),
        (lambda _: _number(17, 0), "answers GET_FEATURES with request 17"),
        pytest.param(
            _late,
            r"does not answer \w+ within 2000 ms, and all messages within 5000 ms",
            marks=pytest.mark.thorough("takes 5 s"),
        ),
    ],
    ids=["nothing", "wrongly", "late"],
)
def test_a_bad_back_end_is_an_error_that_names_the_message(
    directory: Path, answer: Callable[[bytes], bytes | None], error: str
) -> None:
    path = directory / "p0.sock"
    port = GeneratorPort("p0", f"net_virtio_user,path={path},server=1", "02:00:00:00:00:01")
    with embedded_in(directory) as generator:
        with _back_end(path, answer), pytest.raises(GeneratorError, match=error):
            generator.attach([port])
        assert not path.exists()
        with loop_in(directory) as loop:  # the engine goes on, and has room for others
            generator.attach(loop_ports(loop.devices))
            generator.wait_links_up(5.0)


def test_a_switch_without_packed_rings_is_left_to_dpdk(directory: Path) -> None:
    """It says that it has VERSION_1 and split rings only; then it leaves, and nobody comes for DPDK's driver."""
    path = directory / "p0.sock"
    port = GeneratorPort("p0", f"net_virtio_user,path={path},server=1", "02:00:00:00:00:01")
    options = EngineOptions(attach_timeout_s=0.5)
    with (
        embedded_in(directory, options=options) as generator,
        _back_end(path, lambda message: _number(message[0], 1 << 30 | 1 << 32)),
        pytest.raises(GeneratorError, match="nobody connected to its socket"),
    ):
        generator.attach([port])


@pytest.fixture
def switch(journal: Journal) -> Iterator[OvsDatapath]:
    with started(journal, "dpdk") as running:
        yield running


@needs_root
@needs_hugepages
class TestWithOvs:
    def test_a_switch_killed_under_traffic_is_let_in_again(self, switch: OvsDatapath, directory: Path) -> None:
        topology = phy2phy()
        built = switch.build(topology)
        with embedded_in(directory) as generator:
            generator.attach(generator_ports(topology, built))
            assert generator.sending() == {"p0": OWN_RING, "p1": OWN_RING}
            forwards_whole(generator, topology)
            for _ in range(3):
                kill = threading.Timer(0.3, os.kill, (switch.instance.pid, signal.SIGKILL))
                kill.start()
                # On a busy machine the timer is late.
                died = generator.run_trial(spec(topology.directions, duration_s=1.5))
                kill.join()
                assert died.lost > 0
                assert Reason.LINK_DOWN in {reason.code for reason in died.invalid}
                with pytest.raises(DeadlineError, match="no link on p0, p1"):
                    generator.wait_links_up(0.1)
                switch.restart(killed=True)
                forwards_whole(generator, topology)

    def test_an_engine_killed_under_traffic_leaves_nothing(self, switch: OvsDatapath, directory: Path) -> None:
        topology = phy2phy()
        built = switch.build(topology)
        free = read_hugepages().free_mib
        for _ in range(3):
            with embedded_in(directory) as generator:
                generator.attach(generator_ports(topology, built))
                forwards_whole(generator, topology)
                kill = threading.Timer(0.1, os.kill, (generator.pid, signal.SIGKILL))
                kill.start()
                with pytest.raises(GeneratorError, match="killed by SIGKILL during trial"):
                    generator.run_trial(spec(topology.directions, duration_s=2.0))
                kill.join()
        with embedded_in(directory) as generator:
            generator.attach(generator_ports(topology, built))
            forwards_whole(generator, topology)
        wait_until(lambda: read_hugepages().free_mib == free, "the hugepages of the killed engines", 5.0)

    def test_several_queues_carry_their_flows_in_order(self, switch: OvsDatapath, directory: Path) -> None:
        topology = phy2phy()
        topology = replace(topology, ports=tuple(replace(port, queues=2) for port in topology.ports))
        built = switch.build(topology)
        with embedded_in(directory) as generator:
            generator.attach(generator_ports(topology, built))
            assert generator.sending() == {"p0": OWN_RING, "p1": OWN_RING}
            generator.wait_links_up(5.0)
            generator.learn(Traffic(), topology.directions)
            for counts in generator.run_trial(spec(topology.directions, traffic=Traffic(flows=1000))).counts:
                assert counts.received == counts.sent > 0
                assert (counts.duplicated, counts.corrupted) == (0, 0)

    @pytest.mark.thorough("make test has both ways elsewhere")
    def test_dpdk_sends_where_it_is_asked_to(self, switch: OvsDatapath, directory: Path) -> None:
        topology = phy2phy()
        built = switch.build(topology)
        with embedded_in(directory, options=EngineOptions(own_rings=False)) as generator:
            generator.attach(generator_ports(topology, built))
            assert generator.sending() == dict.fromkeys(("p0", "p1"), "DPDK's virtio-user: own_ring is false")
            forwards_whole(generator, topology)
