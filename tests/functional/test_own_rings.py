"""Vhost-user rings that the engine drives itself: frames of all kinds, and ends that die."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.generators.embedded.ceiling import directions, loop_ports
from pytest_nfvperf.adapters.generators.embedded.generator import EngineOptions
from pytest_nfvperf.model.errors import DeadlineError
from pytest_nfvperf.model.traffic.traffic import Imix, Traffic
from tests.functional.generator_support import check_identities, embedded_in, loop_in, looped_rig, run_dir, spec

WAYS = directions(Traffic())


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
        for counts in generator.run_trial(spec(rig.ways, traffic=traffic)).counts:
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
            result = generator.run_trial(spec(WAYS, load_fps=10_000))
            for counts in result.counts:
                assert counts.lost == counts.sent // 10 > 0
            assert [counts.corrupted for counts in result.counts] == [0, 0]


def test_a_switch_that_goes_is_let_in_again(directory: Path) -> None:
    with embedded_in(directory) as generator:
        with loop_in(directory) as loop:
            generator.attach(loop_ports(loop.devices))
            generator.wait_links_up(5.0)
            generator.run_trial(spec(WAYS))
        for _ in range(5):
            with pytest.raises(DeadlineError, match="no link on ceiling0, ceiling1"):
                generator.wait_links_up(0.1)
            with loop_in(directory):
                generator.wait_links_up(5.0)
                for counts in generator.run_trial(spec(WAYS)).counts:
                    check_identities(counts)


def test_a_killed_engine_leaves_a_socket_that_the_next_one_takes(directory: Path) -> None:
    with loop_in(directory) as loop:
        for _ in range(3):
            with embedded_in(directory) as generator:
                generator.attach(loop_ports(loop.devices))
                generator.wait_links_up(5.0)
                for counts in generator.run_trial(spec(WAYS)).counts:
                    check_identities(counts)
                os.kill(generator.pid, signal.SIGKILL)
