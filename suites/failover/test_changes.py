"""What changes of a running switch cost the frames that flow through it."""

from __future__ import annotations

from functools import partial

import pytest

from pytest_nfvperf import Deployer, Outages, SlaCheck, Traffic, compose, events, phy2phy, vm_to_vm
from pytest_nfvperf.parts import bond, endpoint, path, rules

pytestmark = pytest.mark.nfv_not_quick

LOAD_FPS = 100_000
AWAY_S = 0.2
"""For how long what is added is there, and what is taken down is gone."""

CHANGES = {
    "port added": partial(events.add_port, for_s=AWAY_S),
    "1,000 flows added": partial(events.add_flows, for_s=AWAY_S),
    "1,000 flows added at once": partial(events.add_flows, bundle=True, for_s=AWAY_S),
    "queues rebalanced": events.rebalance_rxqs,
    "auto-balance on": partial(events.rebalance_rxqs, auto=True),
    "queues moved": partial(events.move_rxqs, port="p0", for_s=AWAY_S),
    "a CPU less": partial(events.change_pmd_cpus, for_s=AWAY_S),
    "link down": partial(events.link_down, port="p1", for_s=AWAY_S),
}


@pytest.mark.nfv(topology="phy2phy")
@pytest.mark.parametrize("change", CHANGES)
def test_change(change: str, deploy: Deployer, outage: Outages, sla: SlaCheck) -> None:
    """For how long a change of ports, flows, polling threads or a link blocks frames.

    Steps: build NIC - bridge - NIC; send 100 kpps each way; change it, and back; send until all arrives again; repeat.
    Verify: the SLA's ``outage``. Skipped, with the reason, where this DUT cannot do it: a queue moves between two CPUs.
    """
    sla.check(outage(deploy(phy2phy()), Traffic(frame_size=64), LOAD_FPS, CHANGES[change]))


@pytest.mark.nfv(topology="acl")
@pytest.mark.parametrize("how", ["one by one", "at once"])
@pytest.mark.parametrize("replaced", [1000, 10_000, 100_000])
def test_replacement(replaced: int, how: str, deploy: Deployer, outage: Outages, sla: SlaCheck) -> None:
    """What a burst of flow-mods costs: all flows of an access list are replaced by the same ones.

    Steps: build NIC - bridge - NIC with an access list; send 100 kpps each way; replace the flows one by one, or all of
        them in one bundle; repeat.
    Verify: the SLA's ``outage``.
    """
    live = deploy(compose("acl", endpoint("p0", "br0"), endpoint("p1", "br0"), rules("br0", acl=replaced)))
    event = partial(events.replace_flows, bundle=how == "at once")
    sla.check(outage(live, Traffic(frame_size=64), LOAD_FPS, event, repeats=3))


RULES = {
    "group": ("group_id=1,type=indirect,bucket=actions=output:p1", "priority=200,in_port=p0,actions=group:1"),
    "meter": ("meter=1,kbps,bands=type=drop,rate=10000000", "priority=200,in_port=p0,actions=meter:1,output:p1"),
}


@pytest.mark.nfv(topology="ruled")
@pytest.mark.parametrize(
    ("rule", "line"),
    [
        ("group", "group_id=1,type=all,bucket=actions=output:p1"),
        ("meter", "meter=1,kbps,bands=type=drop,rate=9000000"),
    ],
    ids=["group", "meter"],
)
def test_rule(rule: str, line: str, deploy: Deployer, outage: Outages, sla: SlaCheck) -> None:
    """What a change of the group or meter that frames pass costs; both versions of it let all of them pass.

    Steps: build NIC - bridge - NIC with that group or meter; send 100 kpps each way; change it, and back; repeat.
    Verify: the SLA's ``outage``.
    """
    ends = endpoint("p0", "br0"), endpoint("p1", "br0"), path("p0", "p1")
    live = deploy(compose("ruled", *ends, rules("br0", flows=RULES[rule])))
    sla.check(outage(live, Traffic(frame_size=64), LOAD_FPS, partial(events.change_rule, line=line, for_s=AWAY_S)))


@pytest.mark.nfv(topology="phy2phy")
def test_reconnect(deploy: Deployer, outage: Outages, sla: SlaCheck) -> None:
    """For how long frames are lost when the far end of a vhost-user port restarts, as a VM does.

    Steps: build NIC - bridge - NIC; send 100 kpps each way; hang up at one end, and listen again at once; repeat.
    Verify: the SLA's ``outage``. DPDK tries again at once, and then each second.
    """
    sla.check(outage(deploy(phy2phy()), Traffic(frame_size=64), LOAD_FPS, partial(events.reconnect, port="p1")))


@pytest.mark.nfv(topology="phy2phy")
@pytest.mark.parametrize("fail_mode", ["secure", "standalone"])
def test_controller_lost(fail_mode: str, deploy: Deployer, outage: Outages, sla: SlaCheck) -> None:
    """What the loss of the controller does: in fail mode secure nothing, in standalone OVS removes the flows.

    Steps: build NIC - bridge - NIC with a controller of the run; send 100 kpps each way; end the controller; repeat.
    Verify: the SLA's ``outage``.
    """
    event = partial(events.lose_controller, fail_mode=fail_mode)
    sla.check(outage(deploy(phy2phy()), Traffic(frame_size=64), LOAD_FPS, event, repeats=3))


@pytest.mark.nfv(topology="bonded")
@pytest.mark.parametrize(
    ("mode", "lacp"),
    [("active-backup", "off"), ("active-backup", "active"), ("balance-slb", "off"), ("balance-tcp", "active")],
)
def test_bond_member(mode: str, lacp: str, deploy: Deployer, outage: Outages, sla: SlaCheck) -> None:
    """For how long frames are lost when a member of a bond loses its link: the generator is the partner of LACP.

    Steps: build NIC - bridge - bond of two; send 100 kpps each way, of 100 flows; let one member hang up, and listen
        again; repeat.
    Verify: the SLA's ``outage``.
    """
    bonded = bond("bond0", "br0", ("m0", "m1"), mode, lacp=lacp)  # type: ignore[arg-type]
    live = deploy(compose("bonded", endpoint("p0", "br0"), bonded))
    event = partial(events.link_down, port="m0", for_s=1.0)
    sla.check(outage(live, Traffic(frame_size=64, flows=100), LOAD_FPS, event))


@pytest.mark.nfv(topology="vxlan")
def test_tunnel_cut(deploy: Deployer, outage: Outages, sla: SlaCheck) -> None:
    """For how long frames are lost when the underlay of a tunnel with BFD is cut, and back: both ends must see it.

    Steps: build two nodes with a VXLAN between; send 100 kpps each way; let BFD watch the tunnel; drop all that the
        underlay carries until both ends are down, and for 0.2 s more; repeat.
    Verify: the SLA's ``outage``.
    """
    live = deploy(vm_to_vm("vxlan"))
    event = partial(events.cut_tunnel, tunnel=live.topology.tunnels[0].port, for_s=AWAY_S)
    sla.check(outage(live, Traffic(frame_size=128), LOAD_FPS, event, repeats=3))
