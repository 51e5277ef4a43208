"""Frames pass the wire: the measurements of pytest_nfvperf on it, as on any datapath."""

from __future__ import annotations

from pytest_nfvperf import Deployer, Dut, Search, Traffic, compose
from pytest_nfvperf.parts import endpoint

WIRE = compose("wire", endpoint("p0", "br0"), endpoint("p1", "br0"))


def test_frames_pass(deploy: Deployer, search: Search) -> None:
    """Both ways at a load that a program in Python holds."""
    live = deploy(WIRE, dut=Dut("acme:wire"))
    outcome = search.loss_at(live, Traffic(frame_size=256), 500, 0.5)
    assert outcome.loss_curve[0].loss_ratio == 0
