"""A first suite: how much goes through one bridge, and what is lost at a load that it must carry."""

from pytest_nfvperf import Traffic, sweep


@sweep("frame_size", [64, 1518], quick={64})
def test_throughput(frame_size, phy2phy, search, sla):
    """Search the highest load without loss (NDR) and with at most 0.5 % of it (PDR); judge by sla.yaml."""
    sla.check(search.ndr_pdr(phy2phy, Traffic(frame_size=frame_size)))


def test_fixed_load(phy2phy, search, sla):
    """Send 50,000 frames a second in each direction for two seconds; judge by sla.yaml."""
    # phy2phy.deployment.built.ovs("ofctl", "add-flow", "br0", "in_port=p0,actions=drop")  # a fault, to see it fail
    sla.check(search.loss_at(phy2phy, Traffic(frame_size=64), 50e3, 2.0))
