"""dpdk-testpmd looping frames through the same two ports: the figure that the field would compare with."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.adapters.vnf.testpmd import TestpmdVnf
from pytest_nfvperf.model.topology.compose import generator_mac
from pytest_nfvperf.model.topology.ports import VnfMode
from pytest_nfvperf.ports.generator import GeneratorPort, VnfSpec

_BURSTS = 32


@contextmanager
def looping(journal: Journal, devices: Sequence[str], cpu: int) -> Iterator[TestpmdVnf]:
    """Testpmd in mac mode on these devargs, frames already going round."""
    macs = zip(devices, map(generator_mac, (0, 1)), map(generator_mac, (1, 0)), strict=True)
    ports = tuple(GeneratorPort(f"p{at}", device, mac, eth_peer=peer) for at, (device, mac, peer) in enumerate(macs))
    testpmd = TestpmdVnf(
        journal,
        VnfSpec("bench", ports, VnfMode.MAC),
        cpu,
        (cpu,),
        hugepages=True,
        start=f"start tx_first {_BURSTS}",
    )
    try:
        testpmd.wait_ready()
        yield testpmd
    finally:
        testpmd.close()


def rate_fps(testpmd: TestpmdVnf, seconds: float) -> float:
    """Frames/s received per port over this time, from testpmd's own counters and our clock."""
    first, started = _received(testpmd), time.monotonic()
    time.sleep(seconds)
    last, ended = _received(testpmd), time.monotonic()
    return (last - first) / (ended - started) / 2


def _received(testpmd: TestpmdVnf) -> int:
    return sum(counts.received for counts in testpmd.counts())
