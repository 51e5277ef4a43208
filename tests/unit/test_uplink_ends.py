"""The OVS port of an underlay's end, and what DPDK would refuse of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_nfvperf.adapters.ovs.nics import UplinkEnd, Uplinks
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.topology.ports import Port, PortRole

PORT = Port("u1", "br1", PortRole.UPLINK, "02:00:00:00:00:01")


def ring_in(directory: str) -> Uplinks:
    """A ring's end that is made second, its socket in the directory."""
    return Uplinks({"u1": UplinkEnd(False, True, Path(directory, "u0.sock"), "u0", Path("/run/netns/far"), 1)})


def test_a_ring_tells_dpdk_its_socket() -> None:
    wired = ring_in("/run/nfvperf/abcdef").wire(PORT, Path("/run/netns/near"), [], 1)
    assert "path=/run/nfvperf/abcdef/u0.sock,server=1" in wired.options["dpdk-devargs"]


def test_a_socket_too_long_for_dpdk_is_refused_before_ovs_sees_it() -> None:
    with pytest.raises(ConfigError, match=r"u0\.sock of u1 is too long for DPDK, which takes 127.*NFVPERF_RUN_DIR"):
        ring_in("/run/" + "d" * 60).wire(PORT, Path("/run/netns/near"), [], 1)
