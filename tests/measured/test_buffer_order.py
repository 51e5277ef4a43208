"""Buffers stand in the rings in the order of memory, whatever was sent before: a switch's core fetches ahead."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

from pytest_nfvperf.adapters.generators.embedded.ceiling import directions, loop_ports
from pytest_nfvperf.adapters.generators.embedded.generator import EngineOptions
from pytest_nfvperf.model.traffic.traffic import Traffic
from tests.functional.generator_support import embedded_in, loop_in, run_dir, spec
from tests.functional.ovs_support import needs_root

pytestmark = needs_root

DESCRIPTOR = np.dtype([("address", "<u8"), ("length", "<u4"), ("id", "<u2"), ("flags", "<u2")])
"""Of a packed virtqueue (virtio 1.1, section 2.7)."""

RINGS = (512, 1024)
"""Descriptors: own rings have one each as asked for, DPDK's driver makes both of a port as large as the larger."""
LONGEST = 1 << 16
STRAY, ADJACENT = 4, 64
"""Descriptors that may look like none while they are written, and what lies beside a ring that may look like one: a
ring was longer, shorter or in two pieces in one build of ten."""
ODD_LOADS_FPS = (1_000, 3_333, 20_000, 77_777)


class Mapping(NamedTuple):
    begin: int
    end: int


@pytest.mark.parametrize(
    "own_rings",
    [True, pytest.param(False, marks=pytest.mark.thorough("DPDK's rings, too"))],
    ids=["own", "dpdk"],
)
def test_buffers_of_both_directions_stay_in_the_order_of_memory(own_rings: bool) -> None:
    ways, options = directions(Traffic()), EngineOptions(own_rings=own_rings)
    with (
        run_dir() as directory,
        loop_in(directory) as loop,
        embedded_in(directory, options=options) as generator,
    ):
        ports = loop_ports(loop.devices)
        generator.attach(ports)
        generator.wait_links_up(5.0)
        generator.learn(Traffic(), ways)
        for load_fps in ODD_LOADS_FPS:
            generator.run_trial(spec(ways, load_fps, duration_s=0.3))
        rings = list(packed_rings(generator.pid))
    assert len(rings) == 2 * len(ports), "a receive and a transmit ring a port"
    for addresses in rings:
        steps = np.diff(addresses)
        ascending = np.mean(steps == np.median(steps[steps > 0]))
        assert ascending > 0.95, f"only {ascending:.0%} of the buffers follow one another"


def packed_rings(pid: int) -> Iterator[npt.NDArray[np.int64]]:
    """Addresses of the buffers in each ring of an engine, read from its memory."""
    mappings = list(shared_memory(pid))
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for mapping in mappings:
            memory.seek(mapping.begin)
            yield from rings_in(memory.read(mapping.end - mapping.begin), mappings)


def shared_memory(pid: int) -> Iterator[Mapping]:
    """What a vhost peer maps: memory of files, hugepages or not."""
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        addresses, rights, _, _, _, *name = line.split(maxsplit=5)
        if rights.startswith("rw") and name and ("memfd" in name[0] or "huge" in name[0]):
            begin, end = (int(edge, 16) for edge in addresses.split("-"))
            yield Mapping(begin, end)


def rings_in(data: bytes, mappings: list[Mapping]) -> Iterator[npt.NDArray[np.int64]]:
    """Where so many descriptors in a row point into that memory."""
    found = np.frombuffer(data[: len(data) // DESCRIPTOR.itemsize * DESCRIPTOR.itemsize], dtype=DESCRIPTOR)
    points = np.zeros(len(found) + 2, dtype=np.int8)
    plausible = (found["length"] < LONGEST) & (found["id"] < max(RINGS))
    for begin, end in mappings:
        points[1:-1] |= plausible & (found["address"] >= begin) & (found["address"] < end)
    edges = np.flatnonzero(np.diff(points))
    runs = list[list[int]]()
    for first, last in zip(edges[::2], edges[1::2], strict=True):
        if runs and first - runs[-1][1] <= STRAY:  # read while it was written
            runs[-1][1] = last
        else:
            runs.append([first, last])
    for first, last in runs:
        if any(-STRAY <= last - first - size <= ADJACENT for size in RINGS):
            yield found["address"][first:last].astype(np.int64)
