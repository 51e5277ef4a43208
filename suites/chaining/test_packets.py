"""Packet rate against the number of bridges in a chain (S2): what does each further bridge cost?"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pytest_nfvperf import SlaCheck, Study, Subject, Traffic, bridge_chain, compares, sweep

CHAINS = range(1, 10)
"""Bridges; S2's own range."""

FRAME_SIZES = (64, 512, 1518)

LARGER = (256, 512)
"""Frame sizes to turn to where the generator, and not the chain, is the limit: what a bridge costs is asked for."""


@pytest.mark.nfv_smoke
@pytest.mark.nfv(topology="chain", link="patch")
@sweep("frame_size", FRAME_SIZES, quick={64})
@compares("bridges", CHAINS, quick=(1, 2, 4, 9))
def test_patch_chain(bridges: Sequence[int], frame_size: int, study: Study, sla: SlaCheck) -> None:
    """Forwarding rate of chains joined by patch ports, between two generator ports, both directions at once.

    Steps: in interleaved rounds build each chain anew; learn; warm up; offer more than it forwards: frames of this
    size, or larger ones where the generator is slower than the shortest chain.
    Verify: the SLA for each chain, most of all its rate as a ratio to one bridge.
    """
    chains = [Subject(str(number), bridge_chain(number, link="patch")) for number in bridges]
    traffic = Traffic(frame_size=frame_size)
    sla.check_each(study.forwarding_rate("bridges", chains, traffic, larger=LARGER))


@pytest.mark.nfv(topology="chain", link="veth")
@pytest.mark.nfv_not_quick
@sweep("frame_size", FRAME_SIZES)
@compares("bridges", CHAINS)
def test_veth_chain(bridges: Sequence[int], frame_size: int, study: Study, sla: SlaCheck) -> None:
    """Forwarding rate of chains joined by veth pairs, between two generator ports, both directions at once.

    In OVS's userspace datapath veth ends are af_packet ports of its main thread, which has the PMD's CPU where the
    generator has the other.

    Steps: in interleaved rounds build each chain anew; learn; warm up; offer more than it forwards.
    Verify: measured and reported; no limit is shipped.
    """
    chains = [Subject(str(number), bridge_chain(number, link="veth")) for number in bridges]
    sla.check_each(study.forwarding_rate("bridges", chains, Traffic(frame_size=frame_size)))
