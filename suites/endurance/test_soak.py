"""Endurance: a fixed load for minutes or hours without loss, degradation, flaps, leaks or gaps in the samples (S1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from pytest_nfvperf import LiveBgpPath, LiveTopology, SlaCheck, Soaker, Traffic
from pytest_nfvperf.extend import BgpSpeaker


@pytest.mark.nfv_smoke
def test_soak(phy2phy: LiveTopology, soak: Soaker, sla: SlaCheck) -> None:
    """S1's endurance run: 64-byte frames at 4 Mpps per direction (quick: 2), or less where that is too much.

    Steps: build port - bridge - port; learn; warm up; send for the profile's time (20 s, 15 min, 12 h), sampling
        generator, PMDs, ports, OpenFlow, CPU and memory each second or two.
    Verify: the SLA on loss, on the trend of the received rate, on growing memory and on missing samples; the trends
        of latency and cycles are told.
    """
    sla.check(soak.run(phy2phy, Traffic(frame_size=64)))


@pytest.mark.nfv_not_quick
def test_soak_vnf(pvp: LiveTopology, soak: Soaker, sla: SlaCheck) -> None:
    """The same through one VNF.

    Steps: build port - bridge - VNF - bridge - port; learn; warm up; send for the profile's time, sampling each second.
    Verify: as above.
    """
    sla.check(soak.run(pvp, Traffic(frame_size=64)))


@pytest.mark.nfv(frame_size="64")
@pytest.mark.nfv_not_quick
def test_soak_bgp(bgp_path: LiveBgpPath, soak: Soaker, sla: SlaCheck) -> None:
    """S1 whole: the load over the path that BGP announced, the session and its BFD sampled with all else.

    Steps: FRR and BIRD through br-ex, routes followed as flows; learn; warm up; send for the profile's time, sampling
        each second.
    Verify: as above, and no session that went down.
    """
    outcome = soak.run(bgp_path.live, bgp_path.traffic(), also=[bgp_path.sessions()])
    sla.check(outcome)


@pytest.mark.nfv_not_quick
def test_soak_lab_sessions(
    lab_speakers: Mapping[str, BgpSpeaker],
    phy2phy: LiveTopology,
    soak: Soaker,
    lab_sessions: Sequence[Any],
    sla: SlaCheck,
) -> None:
    """The load of ``test_soak`` beside routing daemons of the lab, which the testbed file names.

    Steps: build port - bridge - port; learn; warm up; send for the profile's time, sampling the daemons' sessions with
        all else.
    Verify: as above, and no session that went down.
    """
    assert lab_speakers
    sla.check(soak.run(phy2phy, Traffic(frame_size=64), also=lab_sessions))
