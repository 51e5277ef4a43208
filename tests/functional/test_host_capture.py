"""The host's receiver of copies: what it counts, and what it says when its interface is not there or goes."""

from __future__ import annotations

import pytest
from pyroute2 import IPRoute

from pytest_nfvperf.adapters.net.packet_sockets import HostCapture
from pytest_nfvperf.adapters.ovs.ovs_datapath import OvsDatapath
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.topology.compose import compose
from pytest_nfvperf.model.topology.parts import endpoint, mirror, namespace
from tests.functional.ovs_support import far_ends, frame, frames_on, needs_root

pytestmark = needs_root

WATCHED = compose(
    "watched", endpoint("p0", "br0"), namespace("host", "br0", kind="tap"), mirror("all", "br0", "host-eth0")
)


def test_copies_are_received_whole(ovs: OvsDatapath) -> None:
    built = ovs.build(WATCHED)
    built.wait_ready(5)
    capture = HostCapture(built.netns("host"), "eth0", keep=2)
    capture.start()
    sent = [frame("02:00:00:00:00:99", "02:00:00:00:00:01", bytes([number])) for number in range(4)]
    with frames_on(far_ends(built)[0]) as raw:
        for one in sent:
            raw.send(one)
    captured = capture.stop()
    built.close()
    assert (captured.frames, captured.lost, list(captured.samples)) == (4, 0, sent[:2])
    with pytest.raises(TestbedError, match="the capture on eth0 was not started"):
        capture.stop()
    capture.close()


def test_an_interface_that_is_not_there(ovs: OvsDatapath) -> None:
    built = ovs.build(WATCHED)
    with pytest.raises(TestbedError, match=r"cannot receive on eth7 in /run/netns/.*: .*No such device"):
        HostCapture(built.netns("host"), "eth7").start()
    built.close()


def test_an_interface_that_goes(ovs: OvsDatapath) -> None:
    built = ovs.build(WATCHED)
    built.wait_ready(5)
    capture = HostCapture(built.netns("host"), "eth0")
    capture.start()
    with IPRoute(netns=built.netns("host")) as links:
        links.link("set", index=links.link_lookup(ifname="eth0")[0], state="down")
    with pytest.raises(TestbedError, match=r"the capture on eth0 in .* ended: .*Network is down"):
        capture.stop()
    built.close()
