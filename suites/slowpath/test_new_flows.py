"""New flows: how many a second OVS takes without loss, and what one costs, against what a cached frame costs."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from pytest_nfvperf import Deployer, Floods, SlaCheck, Study, Subject, Topology, Traffic, Vary, compares, compose, sweep
from pytest_nfvperf.parts import endpoint, rules

READ = "move:NXM_OF_IP_SRC[]->NXM_NX_REG1[],move:NXM_OF_IP_DST[]->NXM_NX_REG2[]"
"""What an action reads is in each megaflow: so each pair of addresses has one."""

OUTPUT = "in_port=p0,actions=output:p1"
STEPS = (0, 4, 16, 48)


def packets(flows: int) -> Traffic:
    """Frames of so many pairs of addresses, in one direction."""
    side = round(flows**0.5)
    vary = [Vary("IP.src", side, order="random"), Vary("IP.dst", side, order="random")]
    packet = Ether() / IP(src="10.0.0.1", dst="10.128.0.1") / UDP(chksum=0)
    return Traffic(packet=packet, frame_size=128, bidirectional=False, vary=vary)


EACH_NEW, CACHED = packets(1 << 24), packets(100)


def pipeline(name: str, steps: int) -> Topology:
    """Port - bridge - port, and so many steps more until a frame is output."""
    table = range(1, steps + 1)
    first = f"priority=200,ip,actions={READ},resubmit(,1)" if steps else f"priority=200,ip,actions={READ},output:p1"
    flows = {
        "tables": [first, *(f"table={at},actions=resubmit(,{at + 1})" for at in table), f"table={steps + 1},{OUTPUT}"],
        "resubmits": [
            f"priority=200,ip,actions={READ},{'resubmit(,1),' * steps}output:p1",
            "table=1,actions=load:1->NXM_NX_REG3[]",
        ],
        "groups": [
            f"group_id={steps + 1},type=indirect,bucket=actions=output:p1",  # each is there before who names it
            *(f"group_id={at},type=indirect,bucket=actions=load:1->NXM_NX_REG3[],group:{at + 1}" for at in table[::-1]),
            f"priority=200,ip,actions={READ},group:1",
        ],
        "learn": [
            f"priority=200,ip,actions={READ},"
            + "learn(table=9,hard_timeout=1,eth_type=0x800,NXM_OF_IP_SRC[],NXM_OF_IP_DST[])," * min(steps, 1)
            + "output:p1"
        ],
    }[name]
    return compose(f"{name}-{steps}", endpoint("p0", "br0"), endpoint("p1", "br0"), rules("br0", flows=flows))


@pytest.mark.nfv_not_quick
@pytest.mark.nfv(topology="tables-0", frame_size="128")
def test_new_flow_rate(deploy: Deployer, flood: Floods, sla: SlaCheck) -> None:
    """New flows a second until the first loss: each frame has a pair of addresses that the DUT has not seen.

    Steps: build port - bridge - port, with a flow that reads both addresses; search with MLRsearch, with megaflows
        removed before each trial; confirm.
    Verify: the SLA on new flows a second.
    """
    sla.check(flood.new_flow_rate(deploy(pipeline("tables", 0)), EACH_NEW))


@pytest.mark.nfv_not_quick
@pytest.mark.nfv(topology="tables-0", frame_size="128")
@compares("lookup", ("cached", "new"))
def test_cached_or_new(lookup: Sequence[str], study: Study, sla: SlaCheck) -> None:
    """Forwarding rate of frames of 100 flows, and of frames that each begin one.

    Steps: in turns remove all megaflows, and offer more than the DUT forwards.
    Verify: the SLA on the ratio of the two.
    """
    traffics = {"cached": CACHED, "new": EACH_NEW}
    subjects = [Subject(each, pipeline("tables", 0), traffic=traffics[each]) for each in lookup]
    sla.check_each(study.forwarding_rate("lookup", subjects, CACHED, new_flows=True))


@pytest.mark.nfv_not_quick
@pytest.mark.nfv(frame_size="128")
@sweep("of", ("tables", "resubmits", "groups", "learn"))
@compares("steps", STEPS)
def test_growth(steps: Sequence[int], of: str, study: Study, sla: SlaCheck) -> None:
    """What each further table, resubmit or group costs a new flow; of learn actions: one and none.

    Steps: as above.
    Verify: measured and reported; no limit is shipped.
    """
    steps = steps[:2] if of == "learn" else steps
    subjects = [Subject(str(each), pipeline(of, each)) for each in steps]
    sla.check_each(study.forwarding_rate("steps", subjects, EACH_NEW, new_flows=True))
